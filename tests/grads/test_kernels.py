"""The fused solver equals the tensor operations; it runs on a GPU if there is one, else in Triton's interpreter."""

import pytest
import torch
from torch.testing import assert_close

from polytask.grads.solvers import descend, spectral_bound, unit_gram

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture
def kernels():
    pytest.importorskip("triton")
    from polytask.grads import kernels

    return kernels


@pytest.mark.parametrize("with_drift", [True, False])
def test_kernel_takes_the_same_steps(kernels, jacobian, with_drift):
    cosine, norms = unit_gram(jacobian @ jacobian.T)
    matrix, price, start = cosine / spectral_bound(cosine), 1 / norms, norms / len(norms)
    drift = 0.3 * jacobian[:, 0] * with_drift
    expected = descend(matrix, drift, price, start, 10)
    found = kernels.descend(*(each.to(DEVICE) for each in (matrix, drift, price, start)), 10)
    assert_close(found.cpu(), expected, rtol=1e-9, atol=1e-12)
    assert not torch.allclose(expected, start)


def test_a_single_task_keeps_its_whole_weight(kernels):
    one = torch.ones(1, dtype=torch.float64, device=DEVICE)
    assert_close(kernels.descend(one[None], one, 0.5 * one, one, 3), 2 * one)  # price . x = 1


@pytest.mark.gpu
def test_solver_uses_the_kernel_on_a_gpu(jacobian, monkeypatch):
    from polytask.grads import solvers

    kernels = solvers.fused_kernels()
    assert kernels is not None
    calls = []
    monkeypatch.setattr(kernels, "descend", lambda *args: calls.append(1) or args[3])
    gram = (jacobian @ jacobian.T).cuda()
    descend(gram, gram[0], gram[0], gram[0], 1)
    assert calls
