"""Compare the perceptron's size with MTBench's, and its heads with a loop over rows."""

from __future__ import annotations

import torch
from torch.nn import functional

from polytask.nets import build, count_parameters
from polytask.nets.mlp import MlpConfig, MultiheadConfig


def test_default_size_is_that_of_the_benchmark() -> None:
    # obs 39 + one-hot 10 -> 256 -> 128 -> 64 -> 4
    assert count_parameters(build(MlpConfig(), 39, 4, 10)) == 12_800 + 32_896 + 8_256 + 260


def test_multihead_uses_each_rows_own_head() -> None:
    net = build(MultiheadConfig(hidden=[8], activation="tanh"), 3, 2, 4)
    x, task = torch.randn(5, 3, generator=torch.Generator().manual_seed(1)), torch.tensor([3, 1, 1, 0, 2])
    with torch.no_grad():
        net.head.bias.copy_(torch.arange(8).view(4, 2))
        for row, k, output in zip(x, task, net(x, task), strict=True):
            features = torch.tanh(net.trunk[0](torch.cat([row, functional.one_hot(k, 4)])))
            torch.testing.assert_close(output, net.head.weight[k] @ features + torch.tensor([2.0 * k, 2.0 * k + 1]))


def test_a_single_head_needs_the_code_to_tell_tasks_apart() -> None:
    x = torch.ones(2, 3)
    blind = build(MlpConfig(task_code="none"), 3, 2, 2)(x, torch.tensor([0, 1]))
    seeing = build(MlpConfig(), 3, 2, 2)(x, torch.tensor([0, 1]))
    assert torch.equal(blind[0], blind[1])
    assert not torch.allclose(seeing[0], seeing[1])
