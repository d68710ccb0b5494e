"""Check that SimbaV2's weights and features stay on the unit sphere, and the initial values of its scales."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from polytask.nets import build, build_shaped
from polytask.nets.layers import NetShape
from polytask.nets.simba_v2 import SimbaV2Config


def row_lengths(net: nn.Module) -> Tensor:
    matrices = [name for name, _ in net.named_parameters() if name.endswith("weight")]
    return torch.cat([weight.norm(dim=-1).flatten() for name, weight in net.named_parameters() if name in matrices])


@pytest.mark.parametrize("heads", ["single", "multi"])
def test_rows_are_unit_after_every_step(heads: str) -> None:
    net = build(SimbaV2Config(hidden=32, heads=heads), 39, 4, 10)
    adam = torch.optim.Adam(net.parameters(), lr=1e-2)
    x = torch.randn(20, 39, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(row_lengths(net), torch.ones_like(row_lengths(net)))
    for _ in range(3):
        adam.zero_grad()
        (net(x, torch.arange(20) % 10) - 1).square().mean().backward()
        adam.step()
        assert (row_lengths(net) - 1).abs().max() > 1e-3
        net.after_step()
        torch.testing.assert_close(row_lengths(net), torch.ones_like(row_lengths(net)))


def test_after_load_makes_rows_unit_and_keeps_the_outputs() -> None:
    net = build(SimbaV2Config(hidden=32), 39, 4, 10)
    generator = torch.Generator().manual_seed(0)
    x, task = torch.randn(20, 39, generator=generator), torch.arange(20) % 10
    with torch.no_grad():  # as if columns of other tasks had been left out
        net.embed.weight.mul_(torch.rand(32, 1, generator=generator) + 0.1)
    before = net(x, task)
    net.after_load()
    torch.testing.assert_close(net(x, task), before)
    torch.testing.assert_close(row_lengths(net), torch.ones_like(row_lengths(net)))
    net.after_step()
    torch.testing.assert_close(net(x, task), before)


def test_features_are_unit_and_the_shift_keeps_magnitude() -> None:
    net = build(SimbaV2Config(hidden=32), 39, 4, 10)
    seen = []
    net.blocks.register_forward_hook(lambda module, inputs, output: seen.extend([inputs[0], output]))
    x = torch.randn(20, 39, generator=torch.Generator().manual_seed(0))
    task = torch.zeros(20, dtype=torch.int64)
    once, twice = net(x, task), net(2 * x, task)
    for features in seen:
        torch.testing.assert_close(features.norm(dim=-1), torch.ones(20))
    assert (once - twice).abs().max() > 1e-3


@pytest.mark.parametrize("heads", ["single", "multi"])
def test_output_equals_the_equations(heads: str) -> None:
    net = build(SimbaV2Config(hidden=8, blocks=2, shift=2.0, heads=heads), 5, 3, 4).double()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in net.parameters():  # also scales and biases, which start alike
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))

    def unit(vector: Tensor) -> Tensor:
        return vector / vector.square().sum().sqrt()

    def scale(scaler: nn.Module) -> Tensor:
        return scaler.value * scaler.factor

    x, task = torch.randn(6, 5, generator=generator).double(), torch.arange(6) % 4
    for row, k, output in zip(x, task, net(x, task), strict=True):
        seen = unit(torch.cat([row, torch.eye(4).double()[k], torch.tensor([2.0]).double()]))
        features = unit(scale(net.scaler) * (net.embed.weight @ seen))
        for block in net.blocks:
            inner = (scale(block.scaler) * (block.up.weight @ features)).clamp_min(0) + 1e-8
            moved = unit(block.down.weight @ inner)
            alpha = scale(block.alpha)
            features = unit((1 - alpha) * features + alpha * moved)
        features = scale(net.head_scaler) * (net.pre_head.weight @ features)
        head = (net.head.weight[k], net.head.bias[k]) if heads == "multi" else tuple(net.head.linear.parameters())
        torch.testing.assert_close(output, head[0] @ features + head[1])


def test_scales_start_at_their_stated_values() -> None:
    net = build(SimbaV2Config(hidden=32, blocks=3), 39, 4, 10)
    ones = torch.ones(32)
    torch.testing.assert_close(net.scaler(ones), ones * math.sqrt(2 / 32))
    torch.testing.assert_close(net.blocks[0].scaler(torch.ones(128)), torch.ones(128) * math.sqrt(2 / 32) / 2)
    torch.testing.assert_close(net.blocks[0].alpha(ones), ones / 4)
    torch.testing.assert_close(net.head_scaler(ones), ones)


def test_benchmark_critic_sizes() -> None:
    # 39 observations + one-hot 10: MTBench reports 1.1 and 4.5 million for widths 256 and 512.
    for hidden, millions in ((256, 1.1), (512, 4.5)):
        net = build(SimbaV2Config(hidden=hidden), 39, 1, 10)
        assert round(sum(weight.numel() for weight in net.parameters()) / 1e6, 1) == millions


@pytest.mark.parametrize("heads", ["single", "multi"])
def test_two_parts_of_the_output_have_heads_of_their_own(heads: str) -> None:
    cfg = SimbaV2Config(hidden=8, heads=heads)
    net = build_shaped(cfg, NetShape(5, 6, 4, parts=2), torch.Generator().manual_seed(0))
    x, task = torch.randn(7, 5, generator=torch.Generator().manual_seed(0)), torch.arange(7) % 4
    (other,) = net.other_heads
    with torch.no_grad():
        other.head_scaler.value.copy_(torch.linspace(0.5, 2.0, 8))  # it starts at one, where it has no effect
    mean, spread = net(x, task).chunk(2, dim=-1)
    assert (mean.shape, spread.shape) == ((7, 3), (7, 3))
    seen: list[Tensor] = []
    net.blocks.register_forward_hook(lambda module, inputs, output: seen.append(output))
    net(x, task)
    torch.testing.assert_close(spread, other.head(torch.linspace(0.5, 2.0, 8) * other.pre_head(seen[0]), task))
    assert not torch.equal(net.pre_head.weight, other.pre_head.weight)
    mean.square().sum().backward()  # learning the means changes nothing of the head of the spreads
    assert net.pre_head.weight.grad.any()
    assert not other.pre_head.weight.grad.any()
    torch.testing.assert_close(row_lengths(net), torch.ones_like(row_lengths(net)))


def test_one_head_for_both_parts_can_be_chosen() -> None:
    shape = NetShape(5, 6, 4, parts=2)
    one = build_shaped(SimbaV2Config(two_heads=False), shape, torch.Generator().manual_seed(0))
    torch.testing.assert_close(one.state_dict(), build(SimbaV2Config(), 5, 6, 4).state_dict(), rtol=0, atol=0)
