import pytest
import torch
from torch.testing import assert_close
from torchjd.aggregation import MGDAWeighting


def test_by_hand(solve):
    # The point of the segment between (1, 0) and (0, 2) that is nearest the origin: w = (4/5, 1/5), g = (.8, .4).
    jacobian = torch.tensor([[1.0, 0, 0], [0, 2, 0]])
    weights = solve("mgda", jacobian)
    assert_close(weights, torch.tensor([0.8, 0.2]))
    assert_close(weights @ jacobian, torch.tensor([0.8, 0.4, 0.0]))


@pytest.mark.parametrize(
    ("normalize", "losses", "expected"),
    [
        ("none", [2.0, 1.0], [0.9, 0.1]),  # orthogonal gradients of lengths 1 and 3: weights as 1 / 1 to 1 / 9
        ("l2", [2.0, 1.0], [0.5, 0.5]),  # lengths 1 and 1
        ("loss", [1.0, -3.0], [0.5, 0.5]),  # lengths 1 and 1 again
        ("loss", [2.0, 1.0], [36 / 37, 1 / 37]),  # lengths 1/2 and 3: as 4 to 1/9
        ("loss+", [2.0, 1.0], [0.8, 0.2]),  # lengths 1/2 and 1: as 4 to 1
    ],
)
def test_gradients_may_be_normalized_while_the_weights_are_found(make, normalize, losses, expected):
    method = make("mgda", 2, normalize=normalize, iterations=500)
    weights = method.weights(torch.tensor(losses), torch.tensor([[1.0, 0.0], [0.0, 9.0]]))
    assert_close(weights, torch.tensor(expected), rtol=1e-4, atol=1e-5)


def test_a_loss_of_zero_leaves_weights_finite(make):
    weights = make("mgda", 2, normalize="loss+").weights(torch.zeros(2), torch.eye(2))
    assert_close(weights, torch.tensor([0.5, 0.5]))


def test_takes_the_shorter_of_two_parallel_gradients(solve):
    assert_close(solve("mgda", torch.tensor([[3.0, 0, 0], [1, 0, 0]])), torch.tensor([0.0, 1.0]))


def test_opposite_gradients_cancel(solve):
    jacobian = torch.tensor([[1.0, 0, 0], [-3, 0, 0]])
    assert_close(solve("mgda", jacobian) @ jacobian, torch.zeros(3))


def test_is_optimal(solve, jacobian):
    gradient = solve("mgda", jacobian) @ jacobian
    # At the optimum every task gradient has g_k . g >= |g|^2; the error of the solver is at most 1e-6.
    assert (jacobian @ gradient).min() > (1 - 1e-6) * (gradient @ gradient)


def test_agrees_with_torchjd(solve, jacobian):
    length = (solve("mgda", jacobian) @ jacobian).norm()
    reference = (MGDAWeighting(epsilon=1e-9, max_iters=1000)(jacobian @ jacobian.T) @ jacobian).norm()
    # Frank-Wolfe's error falls as 1 / iterations, from above: 1.2 % after 1000 for 50 uneven tasks.
    assert 0.98 * reference < length < (1 + 1e-9) * reference
