import torch
from torch.testing import assert_close

from polytask.grads.diagnostics import conflict_metrics


def test_by_hand():
    jacobian = torch.tensor([[2.0, 0, 0], [0, 3, 0], [-1, 1, 0]])
    metrics = conflict_metrics(jacobian @ jacobian.T)
    assert_close(metrics["norms"], torch.tensor([2.0, 3.0, 2**0.5]))
    # The pairs' cosines are 0, -1/sqrt(2) and 1/sqrt(2).
    assert_close(metrics["cosine_min"].item(), -(0.5**0.5))
    assert_close(metrics["cosine_mean"].item(), 0.0)
    assert_close(metrics["cosine_max"].item(), 0.5**0.5)


def test_a_single_task_agrees_with_itself():
    metrics = conflict_metrics(torch.tensor([[4.0]]))
    assert [metrics[name].item() for name in ("cosine_min", "cosine_mean", "cosine_max")] == [1.0, 1.0, 1.0]
