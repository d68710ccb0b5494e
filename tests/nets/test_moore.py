"""Check the orthonormal features of MOORE, also when experts are equal."""

from __future__ import annotations

import pytest
import torch

from polytask.nets import build
from polytask.nets.moore import MooreConfig, orthonormalize


def test_gram_schmidt_by_hand() -> None:
    vectors = torch.tensor([[[3.0, 0.0, 0.0]], [[1.0, 2.0, 0.0]], [[5.0, 5.0, -4.0]]])  # (E=3, B=1, D=3)
    expected = torch.tensor([[[1.0, 0.0, 0.0]], [[0.0, 1.0, 0.0]], [[0.0, 0.0, -1.0]]])
    torch.testing.assert_close(orthonormalize(vectors, 1e-8), expected)


@pytest.mark.parametrize("experts", [4, 6])
def test_features_are_orthonormal(experts: int) -> None:
    net = build(MooreConfig(experts=experts), 39, 4, 10)
    x = torch.randn(32, 39, generator=torch.Generator().manual_seed(0))
    features = net.features(x).transpose(0, 1)  # (B, E, D)
    gram = features @ features.transpose(1, 2)
    torch.testing.assert_close(gram, torch.eye(experts).expand(32, -1, -1), rtol=0, atol=1e-5)


def test_features_stay_orthonormal_under_autocast() -> None:
    net = build(MooreConfig(), 39, 4, 10)
    x = torch.randn(32, 39, generator=torch.Generator().manual_seed(0))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        features = net.features(x).transpose(0, 1)
    gram = features @ features.transpose(1, 2)
    torch.testing.assert_close(gram, torch.eye(4).expand(32, -1, -1), rtol=0, atol=1e-5)


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
