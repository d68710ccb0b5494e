"""Check that every task has a separate perceptron."""

from __future__ import annotations

import torch

from polytask.nets import build
from polytask.nets.independent import IndependentConfig


def test_a_row_passes_through_its_tasks_layers_alone() -> None:
    net = build(IndependentConfig(hidden=[5], activation="tanh"), 3, 2, 4)
    x, task = torch.randn(6, 3, generator=torch.Generator().manual_seed(1)), torch.tensor([3, 1, 1, 0, 2, 3])
    first, last = net.layers

    def expected(row: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        return last.weight[k] @ torch.tanh(first.weight[k] @ row + first.bias[k]) + last.bias[k]

    with torch.no_grad():
        for layer in net.layers:
            layer.bias.normal_(generator=torch.Generator().manual_seed(2))
        for row, k, output in zip(x, task, net(x, task), strict=True):
            torch.testing.assert_close(output, expected(row, k))


def test_a_tasks_loss_leaves_the_other_tasks_alone() -> None:
    net = build(IndependentConfig(hidden=[5, 5]), 3, 2, 4)
    net(torch.ones(3, 3), torch.tensor([2, 2, 2])).sum().backward()
    for weight in net.parameters():
        assert weight.grad is not None
        assert weight.grad[2].abs().sum() > 0.0
        assert torch.equal(weight.grad[[0, 1, 3]], torch.zeros_like(weight.grad[[0, 1, 3]]))
