"""The Gaussian policy, compared with torch's distributions."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.distributions import Normal
from torch.distributions import kl_divergence as torch_divergence
from torch.testing import assert_close

from polytask.algos.shared.gaussian import GaussianPolicy, StdRange, entropy, kl_divergence, log_prob


class Echo(nn.Module):
    """Returns the first two entries of its input."""

    def forward(self, x: Tensor, task: Tensor) -> Tensor:
        return x[:, :2]


def policy_of(task_std: bool) -> GaussianPolicy:
    policy = GaussianPolicy(Echo(), 3, 2, task_std, StdRange(initial=0.5, lowest=0.1, highest=2.0))
    with torch.no_grad():
        policy.log_std.add_(torch.arange(policy.log_std.numel()).view_as(policy.log_std))
    return policy


def test_density_and_entropy_agree_with_torch() -> None:
    generator = torch.Generator().manual_seed(0)
    action, mean, log_std = torch.randn(3, 5, 4, generator=generator)
    reference = Normal(mean, log_std.exp())
    assert_close(log_prob(action, mean, log_std), reference.log_prob(action).sum(-1))
    assert_close(entropy(log_std), reference.entropy().sum(-1))


def test_divergence_agrees_with_torch_in_both_directions() -> None:
    mean, log_std, other_mean, other_log_std = torch.randn(4, 5, 4, generator=torch.Generator().manual_seed(0))
    one, other = Normal(mean, log_std.exp()), Normal(other_mean, other_log_std.exp())
    there = kl_divergence(mean, log_std, other_mean, other_log_std)
    back = kl_divergence(other_mean, other_log_std, mean, log_std)
    assert_close(there, torch_divergence(one, other).sum(-1))
    assert_close(back, torch_divergence(other, one).sum(-1))


def test_each_task_has_its_own_deviation() -> None:
    mean, log_std = policy_of(task_std=True)(torch.tensor([[1.0, 2.0, 3.0]] * 2), torch.tensor([2, 0]))
    assert mean.tolist() == [[1, 2], [1, 2]]
    assert_close(log_std - math.log(0.5), torch.tensor([[4.0, 5.0], [0.0, 1.0]]))


def test_shared_deviation_serves_all_tasks() -> None:
    policy = policy_of(task_std=False)
    _, log_std = policy(torch.zeros(2, 3), torch.tensor([2, 0]))
    assert_close(log_std - math.log(0.5), torch.tensor([[0.0, 1.0], [0.0, 1.0]]))


def test_gradient_of_one_task_leaves_the_deviation_of_another_alone() -> None:
    policy = policy_of(task_std=True)
    _, log_std = policy(torch.zeros(4, 3), torch.tensor([1, 1, 1, 1]))
    log_std.sum().backward()
    assert policy.log_std.grad.tolist() == [[0, 0], [4, 4], [0, 0]]


def test_deviation_returns_to_its_bounds() -> None:
    policy = policy_of(task_std=True)
    with torch.no_grad():
        policy.log_std.copy_(torch.tensor([[-9.0, 9.0], [0.0, 0.0], [0.0, 0.0]]))
    policy.after_step()
    assert_close(policy.log_std[:2].exp(), torch.tensor([[0.1, 2.0], [1.0, 1.0]]))
