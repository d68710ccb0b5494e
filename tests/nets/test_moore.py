"""Check the orthonormal features of MOORE, also when experts are equal."""

from __future__ import annotations

import pytest
import torch

from polytask.nets import build
from polytask.nets.moore import MooreConfig, orthonormalize


def test_gram_schmidt_by_hand() -> None:
    vectors = torch.tensor([[[3.0, 0.0, 0.0]], [[1.0, 2.0, 0.0]], [[5.0, 5.0, -4.0]]])  # (E=3, B=1, D=3)
    expected = torch.tensor([[[1.0, 0.0, 0.0]], [[0.0, 1.0, 0.0]], [[0.0, 0.0, -1.0]]])
    torch.testing.assert_close(torch.stack(orthonormalize(vectors, 1e-8)), expected)


@pytest.mark.parametrize("experts", [4, 6])
def test_features_are_orthonormal(experts: int) -> None:
    net = build(MooreConfig(experts=experts), 39, 4, 10)
    x = torch.randn(32, 39, generator=torch.Generator().manual_seed(0))
    features = torch.stack(net.features(x), dim=1)  # (B, E, D)
    gram = features @ features.transpose(1, 2)
    torch.testing.assert_close(gram, torch.eye(experts).expand(32, -1, -1), rtol=0, atol=1e-5)


def test_features_stay_orthonormal_under_autocast() -> None:
    net = build(MooreConfig(), 39, 4, 10)
    x = torch.randn(32, 39, generator=torch.Generator().manual_seed(0))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        features = torch.stack(net.features(x), dim=1)
    gram = features @ features.transpose(1, 2)
    torch.testing.assert_close(gram, torch.eye(4).expand(32, -1, -1), rtol=0, atol=1e-5)


def test_outputs_and_gradients_equal_a_loop_over_rows_and_experts() -> None:
    net = build(MooreConfig(experts=3, hidden=[7, 6]), 5, 2, 4).double()
    x, task = torch.randn(6, 5, generator=torch.Generator().manual_seed(0)).double(), torch.arange(6) % 4
    first, second = net.experts

    def expected(row: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        """Project out all earlier unit vectors at once (classical Gram-Schmidt), then mix and apply the head."""
        code = torch.eye(4).double()[k]
        units: list[torch.Tensor] = []
        for e in range(3):
            vector = second.weight[e] @ torch.relu(first.weight[e] @ row + first.bias[e]) + second.bias[e]
            left = vector - sum(unit * (unit @ vector) for unit in units)
            units.append(left / (left @ left + net.epsilon).sqrt())
        inner, _, outer = net.task_encoder
        weights = outer.weight @ torch.relu(inner.weight @ code)
        mixed = torch.tanh(sum(weight * unit for weight, unit in zip(weights, units, strict=True)))
        return net.head.linear(torch.cat([mixed, code]))

    with_loop = torch.stack([expected(row, k) for row, k in zip(x, task, strict=True)])
    torch.testing.assert_close(net(x, task), with_loop, rtol=1e-6, atol=1e-8)
    parameters = list(net.parameters())
    from_net, from_loop = (torch.autograd.grad(y.square().sum(), parameters) for y in (net(x, task), with_loop))
    torch.testing.assert_close(from_net, from_loop, rtol=1e-5, atol=1e-8)


def test_equal_experts_give_finite_outputs_and_gradients() -> None:
    net = build(MooreConfig(), 39, 4, 10)
    with torch.no_grad():
        for expert in net.experts:
            expert.weight.copy_(expert.weight[:1].expand_as(expert.weight))
    net(torch.ones(3, 39), torch.arange(3)).square().sum().backward()
    for weight in net.parameters():
        assert weight.grad is not None
        assert torch.isfinite(weight.grad).all()


def test_a_single_head_sees_the_task_and_a_multi_head_does_not() -> None:
    assert build(MooreConfig(), 39, 4, 10).head.linear.in_features == 410
    assert build(MooreConfig(heads="multi"), 39, 4, 10).head.weight.shape == (10, 4, 400)
