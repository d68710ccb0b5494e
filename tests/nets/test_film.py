"""Check that the modulation starts as the identity, and scales and shifts the right units."""

from __future__ import annotations

import torch
from torch import nn

from polytask.nets import build
from polytask.nets.film import FilmConfig


def plain(net: nn.Module, x: torch.Tensor) -> torch.Tensor:
    for layer in net.linears:
        x = torch.relu(layer(x))
    return net.head.linear(x)


def test_starts_as_the_plain_perceptron() -> None:
    net = build(FilmConfig(), 3, 2, 4)
    x = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(net(x, torch.arange(6) % 4), plain(net, x))


def test_gamma_scales_and_beta_shifts_the_tasks_own_rows() -> None:
    net = build(FilmConfig(hidden=[2, 1]), 1, 1, 2)
    with torch.no_grad():
        for layer, value in zip(net.linears, (1.0, 2.0), strict=True):
            layer.weight.fill_(value)
        net.head.linear.weight.fill_(1.0)
        # Columns are tasks. Rows are gamma of the layers (2 + 1 units), then beta. Task 1: unit 1 doubled, unit 3 + 5.
        net.modulation[0, 1] = 1.0
        net.modulation[5, 1] = 5.0
    output = net(torch.tensor([[3.0], [3.0]]), torch.tensor([0, 1]))
    assert output.flatten().tolist() == [2 * (3 + 3), 2 * (6 + 3) + 5]
