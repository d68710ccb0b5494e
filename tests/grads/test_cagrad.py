import pytest
import torch
from torch.testing import assert_close
from torchjd.aggregation import CAGradWeighting

C = 0.4


def worst_case(simplex, jacobian):
    """Return the dual objective g_w . g_0 + c |g_0| |g_w|."""
    mean, combined = jacobian.mean(0), simplex @ jacobian
    return combined @ mean + C * mean.norm() * combined.norm()


def test_by_hand(solve):
    # By symmetry the dual solution is the centre, so d = (1 + c) g_0 / (1 + c^2).
    weights = solve("cagrad", torch.eye(2, 3), c=C)
    assert_close(weights, torch.full((2,), 0.5 * 1.4 / 1.16))


def test_helps_only_the_task_that_the_mean_harms(solve):
    # g_0 = (0, 1.5) harms no task. The smallest progress is largest if the shorter g_1 gets the whole pull.
    jacobian = torch.tensor([[0.0, 1, 0], [0, 2, 0]])
    assert_close(solve("cagrad", jacobian, c=C), torch.tensor([0.5 + 0.4 * 1.5, 0.5]) / 1.16, rtol=1e-5, atol=1e-5)


def test_agrees_with_torchjd(make, jacobian, num_tasks):
    gram, centre = jacobian @ jacobian.T, torch.full((num_tasks,), 1 / num_tasks, dtype=torch.float64)
    expected = CAGradWeighting(c=C, norm_eps=1e-12)(gram)  # without the division by 1 + c^2
    reference = (expected - centre) / (expected - centre).sum()
    method = make("cagrad", num_tasks, c=C)
    weights = method.weights(torch.ones(num_tasks, dtype=torch.float64), gram)
    # The dual objective is at least as low as the conic solver's, whose own error is about 1e-6 of the possible gain.
    gain = worst_case(centre, jacobian) - worst_case(reference, jacobian)
    assert worst_case(method.simplex, jacobian) - worst_case(reference, jacobian) < 1e-6 * gain
    # Near the optimum an objective error e moves the solution by sqrt(e), hence 1e-3 on the gradient itself.
    gradient, expected_gradient = weights @ jacobian, expected @ jacobian / (1 + C**2)
    assert (gradient - expected_gradient).norm() < 1e-3 * expected_gradient.norm()


def test_lies_on_the_ball_around_the_mean(solve, jacobian):
    mean = jacobian.mean(0)
    gradient = solve("cagrad", jacobian, c=C) @ jacobian * (1 + C**2)
    assert_close((gradient - mean).norm(), C * mean.norm(), rtol=1e-4, atol=0)


def test_without_radius_it_is_the_mean(solve, jacobian, num_tasks):
    assert_close(solve("cagrad", jacobian, c=0.0), torch.full((num_tasks,), 1 / num_tasks, dtype=torch.float64))


def test_warm_start_goes_on_where_the_last_update_stopped(make, draw):
    # Gradients with a large common part are the hardest case for the solver: 20 cold steps are not enough.
    jacobian = draw(50, "even") + 3 * draw(1, "even", seed=1)
    method = make("cagrad", 50, c=C, iterations=20)
    objectives = []
    for _ in range(10):
        method.weights(torch.ones(50), jacobian @ jacobian.T)
        objectives.append(worst_case(method.simplex, jacobian))
    assert objectives[-1] < objectives[0]
    thorough = make("cagrad", 50, c=C, iterations=500)
    thorough.weights(torch.ones(50), jacobian @ jacobian.T)
    gain = worst_case(torch.full((50,), 0.02, dtype=torch.float64), jacobian) - worst_case(thorough.simplex, jacobian)
    assert objectives[-1] - worst_case(thorough.simplex, jacobian) < 0.02 * gain


@pytest.mark.parametrize("opposite", [0.0, 1e-9])
def test_falls_back_to_the_mean_where_gradients_cancel(solve, opposite):
    jacobian = torch.tensor([[1.0, 0, 0], [-1, opposite, 0]], dtype=torch.float64)
    gradient = solve("cagrad", jacobian, c=C) @ jacobian
    assert_close(gradient, jacobian.mean(0) / (1 + C**2), rtol=0, atol=1e-3 * max(opposite, 1e-9))
