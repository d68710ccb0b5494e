import torch
from torch.testing import assert_close
from torchjd.aggregation import AlignedMTLWeighting


def test_by_hand(solve):
    # Orthogonal gradients only need equal lengths, s = sqrt((1 + 4) / 2): the mean of (s, 0) and (0, s).
    jacobian = torch.tensor([[1.0, 0, 0], [0, 2, 0]])
    weights = solve("aligned_mtl", jacobian)
    assert_close(weights @ jacobian, torch.tensor([1.0, 1.0, 0.0]) * 2.5**0.5 / 2, rtol=1e-5, atol=1e-5)


def test_agrees_with_torchjd(solve, jacobian):
    gram = jacobian @ jacobian.T
    weights = solve("aligned_mtl", jacobian, ridge=1e-10)
    # The smallest eigenvalue is at worst 1e-4 of the mean one here; the ridge changes it by 1e-6 of itself.
    assert_close(weights, AlignedMTLWeighting(scale_mode="rmse")(gram), rtol=1e-4, atol=1e-8)
    smallest = AlignedMTLWeighting(scale_mode="min")(gram)  # the paper's length, same direction
    assert_close(weights / weights.norm(), smallest / smallest.norm(), rtol=1e-4, atol=1e-8)


def test_dependent_gradients_stay_bounded(solve):
    jacobian = torch.tensor([[1.0, 0, 0], [1, 0, 0], [0, 1, 0]], dtype=torch.float64)
    gradient = solve("aligned_mtl", jacobian) @ jacobian
    assert gradient.norm() < 1.001 * (3**0.5 / 3)
