import pytest
import torch
from torch.testing import assert_close
from torchjd.aggregation import PCGradWeighting

from polytask.grads.pcgrad import project_conflicts


def test_by_hand(solve):
    jacobian = torch.tensor([[1.0, 0, 0], [-1, 1, 0]])
    # g1 . g2 = -1: g1 becomes g1 + g2 / 2 = (.5, .5, 0), g2 becomes g2 + g1 = (0, 1, 0); the result is their mean.
    weights = solve("pcgrad", jacobian)
    assert_close(weights, torch.tensor([1.0, 0.75]))
    assert_close(weights @ jacobian, torch.tensor([0.25, 0.75, 0.0]))


def test_gives_the_mean_without_conflict(solve):
    jacobian = torch.tensor([[1.0, 0, 0], [1, 2, 0], [0, 1, 1]])
    assert_close(solve("pcgrad", jacobian), torch.full((3,), 1 / 3))


@pytest.mark.parametrize("seed", range(20))
def test_two_tasks_never_conflict_with_the_result(solve, draw, seed):
    jacobian = draw(2, "uneven", seed)[:, :3]
    progress = jacobian @ (solve("pcgrad", jacobian) @ jacobian)
    assert (progress > -1e-12).all()


def test_agrees_with_torchjd_for_the_same_orders(jacobian, num_tasks):
    gram = jacobian @ jacobian.T
    torch.manual_seed(3)
    expected = PCGradWeighting()(gram) / num_tasks  # torchjd sums, we average
    torch.manual_seed(3)  # torchjd draws one permutation per task from the global generator
    order = torch.stack([torch.randperm(num_tasks) for _ in range(num_tasks)])
    # The same operations with another order of summation, in float64.
    assert_close(project_conflicts(gram, order).mean(0), expected, rtol=1e-9, atol=1e-12)


def test_renaming_tasks_renames_the_weights(draw):
    jacobian = draw(10, "uneven")
    order, names = torch.rand(10, 10).argsort(1), torch.randperm(10)
    renamed = jacobian[names]
    expected = project_conflicts(jacobian @ jacobian.T, order).mean(0)[names]
    new_name = names.argsort()  # old task i is new task new_name[i]
    assert_close(project_conflicts(renamed @ renamed.T, new_name[order][names]).mean(0), expected)


def test_order_comes_from_the_generator(make, draw):
    jacobian, losses = draw(10, "even"), torch.ones(10)
    first, second = make("pcgrad", 10), make("pcgrad", 10)
    weights = first.weights(losses, jacobian @ jacobian.T)
    assert_close(weights, second.weights(losses, jacobian @ jacobian.T), rtol=0, atol=0)
    assert not torch.equal(weights, first.weights(losses, jacobian @ jacobian.T))
