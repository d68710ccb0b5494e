import torch
from torch.testing import assert_close
from torchjd.aggregation import IMTLGWeighting


def test_by_hand(solve):
    # Equal progress along (1, 0) and (0, 2) is the diagonal, w ~ (1, 1/2); its length is sqrt(1 + 4) / 2.
    jacobian = torch.tensor([[1.0, 0, 0], [0, 2, 0]])
    weights = solve("imtl_g", jacobian)
    assert_close(weights @ jacobian, torch.tensor([1.0, 1.0, 0.0]) * (5 / 8) ** 0.5)


def test_all_tasks_progress_equally(solve, jacobian):
    progress = jacobian @ (solve("imtl_g", jacobian) @ jacobian) / jacobian.norm(dim=1)
    assert (progress > 0).all()
    # The ridge of 1e-6 perturbs the solution by 1e-6 over the smallest eigenvalue, here above 0.2, times |u|.
    assert_close(progress, progress.mean().expand_as(progress), rtol=1e-4, atol=0)


def test_agrees_with_torchjd_on_the_direction(solve, jacobian):
    gradient = solve("imtl_g", jacobian) @ jacobian
    expected = IMTLGWeighting()(jacobian @ jacobian.T) @ jacobian
    # torchjd normalizes as in the paper, so its sign is that of the sum of the weights.
    direction = expected / expected.norm() * torch.sign(expected @ gradient)
    assert_close(gradient / gradient.norm(), direction, rtol=0, atol=1e-4)


def test_a_task_without_gradient_does_not_stop_the_others(solve):
    weights = solve("imtl_g", torch.tensor([[1.0, 0, 0], [0, 0, 0], [0, 1, 0]]))
    assert_close(weights[0], weights[2])
    assert weights[0] > 0.2
