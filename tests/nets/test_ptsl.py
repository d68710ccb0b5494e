"""Compare PTSL's layers, sizes and initial values with the paper's equations and the numbers of its released code."""

from __future__ import annotations

from itertools import pairwise, product

import pytest
import torch
from torch import Tensor, nn

from polytask.nets import build, build_shaped, count_parameters
from polytask.nets.care import CareConfig
from polytask.nets.layers import NetShape
from polytask.nets.mlp import MlpConfig
from polytask.nets.ptsl import PtslConfig
from polytask.nets.ptsl_trunk import Trunk, TrunkConfig

NAMES = ["reach", "push", "door-open"]
MODES = list(product(["shared", "independent"], ["none", "sum", "linear", "project"]))


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def awake(trunk: Trunk) -> Trunk:
    generator = seeded(1)
    with torch.no_grad():
        for weight in trunk.parameters():
            weight.add_(0.3 * torch.randn(weight.shape, generator=generator))
    return trunk


def row_by_row(trunk: Trunk, x: Tensor, task: Tensor, residual: str) -> Tensor:
    """Compute hidden layers 4 -> 6 -> 6 and output 6 -> 9 from the equations, with rank 2 and all projections."""
    outputs = []
    for row, k in zip(x, task, strict=True):
        shared_down = len(trunk.down) == 2
        z_before = v_before = None
        for layer in range(3):
            down = trunk.down[min(layer, 1) if shared_down else layer].weight
            up = trunk.up[(1 if layer == 2 else 0) if shared_down else layer].weight
            z = down @ row
            inner = z
            if layer > 0 and residual == "sum":
                inner = z + z_before + v_before
            elif layer > 0 and residual == "linear":
                inner = trunk.mix @ torch.stack([z, z_before, v_before])
            elif layer > 0 and residual == "project":
                inner = trunk.mix_projection.weight @ torch.cat([z, z_before, v_before])
            v = trunk.own[layer].weight[k] @ inner + trunk.own[layer].bias[k]
            row = trunk.shared[layer].weight @ row + trunk.shared[layer].bias + up @ v
            row = row if layer == 2 else torch.relu(row)
            z_before, v_before = z, v
        outputs.append(row)
    return torch.stack(outputs)


@pytest.mark.parametrize(("projection", "residual"), MODES)
def test_equals_the_equations(projection: str, residual: str) -> None:
    config = TrunkConfig(hidden=6, layers=2, rank=2, projection=projection, residual=residual)
    trunk = awake(Trunk(config, NetShape(4, 9, 5), seeded()))
    x, task = torch.randn(10, 4, generator=seeded(2)), torch.arange(10) % 5
    torch.testing.assert_close(trunk(x, task), row_by_row(trunk, x, task, residual))


# Parameter counts of the published networks: hidden, layers, projection, residual, MT10, MT50. They include the actor
# (100 -> 8), four critics (104 -> 1), three released encoders of 18,104 parameters and one temperature per task.
PUBLISHED = [
    (326, 3, "shared", "none", 1_871_532, 3_426_052),
    (326, 3, "shared", "sum", 1_871_532, 3_426_052),
    (321, 3, "shared", "project", 1_871_467, 3_425_987),
    (321, 3, "shared", "none", 1_833_967, 3_388_487),
    (400, 2, "shared", "none", 1_556_454, 2_600_974),
    (400, 2, "independent", "none", 1_756_454, 2_800_974),
]


@pytest.mark.parametrize(("hidden", "depth", "projection", "residual", "mt10", "mt50"), PUBLISHED)
def test_published_sizes(hidden: int, depth: int, projection: str, residual: str, mt10: int, mt50: int) -> None:
    config = TrunkConfig(hidden=hidden, layers=depth, projection=projection, residual=residual)
    for num_tasks, published in ((10, mt10), (50, mt50)):
        actor, critic = (
            count_parameters(Trunk(config, NetShape(*widths, num_tasks), seeded())) for widths in ((100, 8), (104, 1))
        )
        assert actor + 4 * critic + 3 * 18_104 + num_tasks == published


@pytest.mark.parametrize(("projection", "residual"), MODES)
@pytest.mark.parametrize("num_tasks", [1, 2, 10])
@pytest.mark.parametrize("out_dim", [1, 101])
def test_every_mode_gives_the_output_width(projection: str, residual: str, num_tasks: int, out_dim: int) -> None:
    config = TrunkConfig(hidden=60, layers=3, projection=projection, residual=residual)
    trunk = Trunk(config, NetShape(20, out_dim, num_tasks), seeded())
    assert trunk(torch.ones(3, 20), torch.zeros(3, dtype=torch.int64)).shape == (3, out_dim)


@pytest.mark.parametrize(("residual", "width"), [("none", 326), ("sum", 326), ("linear", 326), ("project", 321)])
def test_published_width_is_the_nearest_to_cares_size(residual: str, width: int) -> None:
    def dense(*widths: int) -> int:
        return sum((i + 1) * o for i, o in pairwise(widths))

    def distance(hidden: int) -> int:
        config = TrunkConfig(hidden=hidden, residual=residual)
        actor, critic = (
            count_parameters(Trunk(config, NetShape(*widths, 10), seeded())) for widths in ((100, 8), (104, 1))
        )
        return abs(actor + 4 * critic - care)

    care = dense(100, 400, 400, 400, 8) + 4 * dense(104, 400, 400, 400, 1)
    assert min(range(width - 1, width + 2), key=distance) == width  # the size grows with the width


def never_moved(config: TrunkConfig, steps: int) -> int:
    """Return the number of task-specific and projection parameters whose tensors never get a gradient in training."""
    trunk = Trunk(config, NetShape(100, 8, 10), seeded())
    branch = {name: weight for name, weight in trunk.named_parameters() if not name.startswith("shared")}
    adam = torch.optim.Adam(trunk.parameters(), lr=3e-4)
    reached: set[str] = set()
    x, target = torch.randn(40, 100, generator=seeded(1)), torch.randn(40, 8, generator=seeded(2))
    for _ in range(steps):
        adam.zero_grad()
        (trunk(x, torch.arange(40) % 10) - target).square().mean().backward()
        reached |= {name for name, weight in branch.items() if weight.grad is not None and weight.grad.any()}
        adam.step()
    return sum(weight.numel() for name, weight in branch.items() if name not in reached)


@pytest.mark.parametrize(("projection", "residual"), MODES)
def test_every_parameter_learns_within_three_updates(projection: str, residual: str) -> None:
    assert never_moved(TrunkConfig(projection=projection, residual=residual), 3) == 0


@pytest.mark.parametrize(
    ("projection", "residual", "dead"),
    [
        ("shared", "none", 0),
        ("shared", "sum", 0),
        ("shared", "linear", 0),
        ("shared", "project", 125_600),
        ("independent", "none", 163_000),
        ("independent", "sum", 0),
        ("independent", "linear", 0),
        ("independent", "project", 190_800),
    ],
)
def test_released_start_leaves_its_known_parameters_dead(projection: str, residual: str, dead: int) -> None:
    assert never_moved(TrunkConfig(projection=projection, residual=residual, init="released"), 8) == dead


def copy_trunk(source: Trunk, trunk: nn.Sequential, head: nn.Linear) -> None:
    targets = [layer for layer in trunk if isinstance(layer, nn.Linear)] + [head]
    for target, layer in zip(targets, source.shared, strict=True):
        target.load_state_dict(layer.state_dict())


@pytest.mark.parametrize(("projection", "residual"), MODES)
@pytest.mark.parametrize("init", ["default", "released"])
def test_zero_projections_equal_the_perceptron(projection: str, residual: str, init: str) -> None:
    mode = PtslConfig(base="mlp", hidden=40, layers=2, rank=5, projection=projection, residual=residual, init=init)
    net = build(mode, 39, 4, 3)
    backbone = build(MlpConfig(hidden=[40, 40], activation="relu"), 39, 4, 3)
    copy_trunk(net.trunk, backbone.trunk, backbone.head.linear)
    x, task = torch.randn(9, 39, generator=seeded(2)), torch.arange(9) % 3
    torch.testing.assert_close(net(x, task), backbone(x, task))


def test_zero_projections_equal_care() -> None:
    net = build(PtslConfig(hidden=40, layers=2), 39, 4, 3, NAMES)
    config = CareConfig(hidden=[40, 40], experts=4, attention="gate", pool_hidden=[], detach_context=False)
    backbone = build(config, 39, 4, 3, NAMES)
    backbone.encoder.load_state_dict(net.encoder.state_dict())
    copy_trunk(net.trunk, backbone.trunk, backbone.head.linear)
    x, task = torch.randn(9, 39, generator=seeded(2)), torch.arange(9) % 3
    torch.testing.assert_close(net(x, task), backbone(x, task))


def test_trunk_of_a_published_critic_reads_the_encoded_state_and_the_action() -> None:
    net = build_shaped(PtslConfig(action="trunk", context="learned"), NetShape(12 + 4, 1, 10, action_dim=4), seeded())
    assert net.trunk.shared[0].in_features == 104
    assert count_parameters(net.encoder.experts) + count_parameters(net.encoder.gate) == 18_104  # of 12 observations
    x, task = torch.randn(9, 12, generator=seeded(2)), torch.arange(9) % 10
    action = torch.randn(9, 4, generator=seeded(3))
    net.encoder.passed_on = 0  # now the encoder sees the state alone
    features = torch.cat([net.encoder(x, task), action], dim=-1)
    net.encoder.passed_on = 4
    torch.testing.assert_close(net(torch.cat([x, action], dim=-1), task), net.trunk(features, task))


def test_a_loss_leaves_other_tasks_layers_alone() -> None:
    trunk = awake(Trunk(TrunkConfig(hidden=20, rank=4), NetShape(12, 3, 4), seeded()))
    trunk(torch.randn(6, 12, generator=seeded(2)), torch.full((6,), 2)).square().mean().backward()
    for own in trunk.own:
        assert own.weight.grad.flatten(1).any(dim=1).tolist() == [False, False, True, False]
