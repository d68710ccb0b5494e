"""Compare the residual network with its formula."""

from __future__ import annotations

import torch
from torch.nn import functional

from polytask.nets import build
from polytask.nets.bro import BroConfig


def test_equals_the_formula() -> None:
    net = build(BroConfig(hidden=8, blocks=2, task_code="none"), 3, 2, 1)
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))

    def dense(h: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return functional.layer_norm(h @ weight.T, (8,))  # biases and shifts start at zero, scales at one

    h = torch.relu(dense(x, net.input[0].weight))
    for block in net.blocks:
        h = h + dense(torch.relu(dense(h, block[0].weight)), block[3].weight)
    torch.testing.assert_close(net(x, torch.zeros(5, dtype=torch.int64)), h @ net.head.linear.weight.T)
