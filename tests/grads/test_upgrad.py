import torch
from torch.testing import assert_close
from torchjd.aggregation import UPGradWeighting
from torchjd.linalg import QuadprogProjector


def test_by_hand(solve):
    # For two tasks the projection onto the cone is PCGrad's: g1 + g2 / 2 and g2 + g1.
    jacobian = torch.tensor([[1.0, 0, 0], [-1, 1, 0]])
    assert_close(solve("upgrad", jacobian), torch.tensor([1.0, 0.75]))


def test_gives_the_mean_without_conflict(solve):
    jacobian = torch.tensor([[1.0, 0, 0], [1, 2, 0], [0, 1, 1]])
    assert_close(solve("upgrad", jacobian), torch.full((3,), 1 / 3))


def test_conflicts_with_no_task(solve, jacobian):
    gradient = solve("upgrad", jacobian) @ jacobian
    cosine = jacobian @ gradient / jacobian.norm(dim=1) / gradient.norm()
    assert cosine.min() > -1e-4  # the error after 100 steps for 50 tasks


def test_agrees_with_torchjd(solve, jacobian):
    # torchjd's default ridge of 1e-4 would change the result when norms are uneven.
    expected = UPGradWeighting(projector=QuadprogProjector(norm_eps=0.0, reg_eps=1e-9))(jacobian @ jacobian.T)
    difference = solve("upgrad", jacobian) @ jacobian - expected @ jacobian
    assert difference.norm() < 1e-4 * (expected @ jacobian).norm()  # 100 steps reach 1e-5 for 50 tasks
