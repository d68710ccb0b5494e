import torch
from torch.testing import assert_close
from torchjd.scalarization import UW


def test_by_hand(make):
    method = make("uncertainty", 2, lr=0.1)
    losses = torch.tensor([1.0, 3.0])
    assert_close(method.weights(losses, None), torch.tensor([0.5, 0.5]))
    # s -= 0.1 * (1 - loss) / 2: the second log-variance rises to 0.1.
    assert_close(method.log_variance, torch.tensor([0.0, 0.1]))
    assert_close(method.weights(losses, None), torch.tensor([0.0, -0.1]).softmax(0))


def test_follows_torchjds_gradient(make):
    method, reference = make("uncertainty", 5, lr=0.1), UW(5)
    optimizer = torch.optim.SGD(reference.parameters(), lr=0.1)
    for seed in range(20):
        losses = torch.rand(5, generator=torch.Generator().manual_seed(seed)).requires_grad_()
        optimizer.zero_grad()
        reference(losses).backward()
        assert_close(method.weights(losses.detach(), None), losses.grad / losses.grad.sum())
        optimizer.step()
        assert_close(method.log_variance, reference.log_var.detach())


def test_weights_settle_at_the_inverse_losses(make):
    method, losses = make("uncertainty", 2, lr=0.5), torch.tensor([0.5, 2.0])
    for _ in range(200):
        weights = method.weights(losses, None)
    assert_close(weights, torch.tensor([0.8, 0.2]))


def test_log_variances_stay_within_the_limit(make):
    method = make("uncertainty", 2, lr=1.0, limit=3.0)
    for _ in range(50):
        method.weights(torch.tensor([-1.0, 1e6]), None)
    assert_close(method.log_variance, torch.tensor([-3.0, 3.0]))


def test_one_step_is_bounded_by_the_rate(make):
    method = make("uncertainty", 2, lr=0.5)
    method.weights(torch.tensor([1e6, 1.0]), None)
    assert method.log_variance.tolist() == [0.5, 0.0]  # not half a million
