import torch
from torch.testing import assert_close


def test_by_hand(solve):
    # J J^T a = 1 / a for the norms 1 and 2 gives a = (1, 1/2), of length sqrt(2), scaled to sqrt(1 + 4) / 2.
    weights = solve("nash_mtl", torch.tensor([[1.0, 0, 0], [0, 2, 0]]))
    assert_close(weights, torch.tensor([1.0, 0.5]) * (5 / 8) ** 0.5)


def test_two_tasks_bargain_to_unit_gradients(solve):
    # For K = 2 the solution is a_k = 1 / (|g_k| sqrt(1 + cosine)), whatever the angle.
    weights = solve("nash_mtl", torch.tensor([[3.0, 0, 0], [-0.4, 0.3, 0]], dtype=torch.float64))
    assert_close(weights[0] * 3, weights[1] * 0.5, rtol=1e-5, atol=0)


def test_solves_the_bargaining_equation(solve, jacobian, num_tasks):
    weights = solve("nash_mtl", jacobian)
    shares = weights * (jacobian @ (weights @ jacobian))  # a_k (J J^T a)_k, equal for all tasks at the solution
    assert (weights > 0).all()
    # The ridge of 1e-6 leaves an error of 1e-6 x_k^2, with x of order one.
    assert_close(shares, shares.mean().expand_as(shares), rtol=1e-4, atol=0)


def test_fades_where_gradients_cancel(solve):
    jacobian = torch.tensor([[1.0, 0, 0], [-1, 0, 0]], dtype=torch.float64)
    weights = solve("nash_mtl", jacobian)
    assert torch.isfinite(weights).all()
    assert_close(weights @ jacobian, torch.zeros(3, dtype=torch.float64), rtol=0, atol=1e-9)
