"""Check the properties that every architecture in the table must have."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from omegaconf import OmegaConf
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from polytask import nets
from polytask.envs.suites import SUITES
from polytask.errors import UserError
from polytask.nets import NETS, build, count_parameters, parameter_table
from polytask.nets.bro import BroConfig
from polytask.nets.care import CareConfig
from polytask.nets.film import FilmConfig
from polytask.nets.layers import NetShape
from polytask.nets.mlp import MlpConfig, MultiheadConfig
from polytask.nets.moore import MooreConfig
from polytask.nets.paco import PacoConfig
from polytask.nets.ptsl import PtslConfig
from polytask.nets.simba_v2 import SimbaV2Config
from polytask.nets.soft_modular import SoftModularConfig

MT10 = SUITES["mt10"]
OBS, K = 39, 10
MULTI = [
    MultiheadConfig(),
    *(c(heads="multi") for c in (CareConfig, MooreConfig, FilmConfig, BroConfig, SimbaV2Config)),
]


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def make(config: Any, out_dim: int = 4, seed: int = 0) -> nn.Module:
    return build(config, OBS, out_dim, K, MT10, seeded(seed))


def awake(config: Any, out_dim: int = 4, num_tasks: int = K) -> nn.Module:
    """Build a network and change every parameter from its initial value, also the zeros."""
    net = build(config, OBS, out_dim, num_tasks, MT10[:num_tasks], seeded(0))
    generator = seeded(1)
    with torch.no_grad():
        for weight in net.parameters():
            weight.add_(0.05 * torch.randn(weight.shape, generator=generator))
    return net


def batch(rows: int = 20, num_tasks: int = K) -> tuple[Tensor, Tensor]:
    return torch.randn(rows, OBS, generator=seeded(2)), torch.arange(rows) % num_tasks


every_name = pytest.mark.parametrize("name", NETS)


@every_name
@pytest.mark.parametrize("out_dim", [4, 1, 101], ids=["policy", "value", "distributional"])
def test_output_shape(name: str, out_dim: int) -> None:
    net = make(NETS[name][0](), out_dim)
    with torch.no_grad():
        output = net(*batch())
    assert output.shape == (20, out_dim)
    assert torch.isfinite(output).all()
    assert output.std() > 1e-3


# Numbers of weights and biases, layer by layer, for 39 observations, 4 actions, 10 tasks and the default sizes.
def dense(*widths: int) -> int:
    return sum((i + 1) * o for i, o in pairwise(widths))


COUNTS = {
    "mlp": dense(39 + 10, 256, 128, 64, 4),
    "multihead": dense(39 + 10, 256, 128, 64) + 10 * (64 + 1) * 4,
    "independent": 10 * dense(39, 128, 128, 4),
    # f, z, three routings down, two up, three layers of two modules, output modules
    "soft_modular": dense(39, 256, 256, 256) + dense(10, 256, 256) + 3 * dense(256, 4) + 2 * dense(4, 256)
    + 3 * 2 * dense(256, 256) + 2 * dense(256, 4),
    # experts, pooling, context, trunk
    "care": 6 * dense(39, 50, 50) + dense(50, 50, 50) + dense(384, 100, 50, 50, 50, 50) + dense(100, 400, 400, 400, 4),
    "paco": 5 * dense(39, 400, 400, 400, 4) + 10 * 5,
    "moore": 4 * dense(39, 400, 400, 400) + 10 * 256 + 256 * 4 + dense(400 + 10, 4),
    # encoder (experts, gate, context), then the shared trunk, the task-specific layers and the projections
    "ptsl": 4 * dense(39, 50, 50) + dense(50, 50, 50, 4) + dense(384, 100, 50, 50, 50, 50)
    + dense(100, 326, 326, 326, 4) + 10 * (3 * dense(50, 50) + dense(50, 4)) + 50 * (100 + 326 + 326),
    "film": dense(39, 400, 400, 400, 4) + 10 * 2 * 1200,
    # every dense layer except the last has a scale and a shift
    "bro": dense(49, 256) + 4 * dense(256, 256) + 5 * 2 * 256 + dense(256, 4),
    # only the output layer has biases; scalers: embedding, two blocks (inner and alpha), head
    "simba_v2": 50 * 256 + 256 + 2 * (2 * 256 * 1024 + 1024 + 256) + 256 * 256 + 256 + dense(256, 4),
}  # fmt: skip


@every_name
def test_parameter_count(name: str) -> None:
    assert count_parameters(make(NETS[name][0]())) == COUNTS[name]


def test_parameter_table_lists_every_net() -> None:
    rows = parameter_table(OBS, 4, K, MT10)
    assert [row["name"] for row in rows] == list(NETS)
    assert [row["policy"] for row in rows] == [COUNTS[name] for name in NETS]
    assert rows[0]["value"] == dense(49, 256, 128, 64, 1)


def test_every_module_is_in_the_table() -> None:
    shared = {"__init__", "layers", "heads", "task_code", "task_axes", "ptsl_trunk"}
    files = {path.stem for path in Path(nets.__file__).parent.glob("*.py")}
    assert {entry.__module__.rpartition(".")[2] for _, entry in NETS.values()} == files - shared


@every_name
def test_rows_do_not_see_each_other(name: str) -> None:
    net = awake(NETS[name][0]())
    x, task = batch()
    order = torch.randperm(len(x), generator=seeded(3))
    torch.testing.assert_close(net(x[order], task[order]), net(x, task)[order])


PER_TASK = [
    MlpConfig(task_code="embedding", heads="multi"),
    SoftModularConfig(task_code="embedding"),
    CareConfig(context="learned", heads="multi"),
    PacoConfig(),
    MooreConfig(task_code="embedding", heads="multi"),
    PtslConfig(base="mlp", task_code="embedding"),
    PtslConfig(context="learned", residual="sum"),
    FilmConfig(task_code="embedding", heads="multi"),
    BroConfig(task_code="embedding", heads="multi"),
    SimbaV2Config(task_code="embedding", heads="multi"),
]


@pytest.mark.parametrize("config", PER_TASK, ids=lambda config: type(config).__name__)
def test_permuting_task_parameters_permutes_outputs(config: Any) -> None:
    num_tasks = 7  # no shared parameter has seven rows
    net, permuted = awake(config, num_tasks=num_tasks), awake(config, num_tasks=num_tasks)
    order = torch.randperm(num_tasks, generator=seeded(3))
    with torch.no_grad():
        for weight in permuted.parameters():
            if weight.shape[0] == num_tasks:
                weight.copy_(weight[order])
    x, task = batch(21, num_tasks)
    output = net(x, order[task])
    torch.testing.assert_close(permuted(x, task), output)
    assert (net(x, task) - output).abs().max() > 1e-3


@every_name
def test_vmapped_gradients_equal_a_loop_over_tasks(name: str) -> None:
    net = awake(NETS[name][0]())
    weights = dict(net.named_parameters())
    x = torch.randn(K, 3, OBS, generator=seeded(2))
    task = torch.arange(K)[:, None].expand(K, 3)

    def loss(weights: dict[str, Tensor], x: Tensor, task: Tensor) -> Tensor:
        return functional_call(net, weights, (x, task)).square().mean()

    together = vmap(grad(loss), in_dims=(None, 0, 0))(weights, x, task)
    for k in (0, 4, 9):
        net.zero_grad()
        net(x[k], task[k]).square().mean().backward()
        for key, weight in weights.items():
            alone = torch.zeros_like(weight) if weight.grad is None else weight.grad
            torch.testing.assert_close(together[key][k], alone, rtol=1e-3, atol=1e-5)


@every_name
def test_compiles_without_a_break(name: str) -> None:
    net = awake(NETS[name][0]())
    compiled = torch.compile(net, backend="aot_eager", fullgraph=True, dynamic=False)
    torch.testing.assert_close(compiled(*batch()), net(*batch()))


@pytest.mark.parametrize("config", MULTI, ids=lambda config: type(config).__name__)
def test_a_loss_leaves_other_heads_alone(config: Any) -> None:
    net = awake(config)
    x, _ = batch()
    net(x, torch.full((20,), 3)).square().mean().backward()
    weight, bias = net.head.weight.grad, net.head.bias.grad
    others = torch.arange(K) != 3
    assert weight[3].abs().sum() > 0
    assert bias[3].abs().sum() > 0
    assert not weight[others].any()
    assert not bias[others].any()


@every_name
def test_same_seed_same_parameters(name: str) -> None:
    before = torch.get_rng_state()
    config = NETS[name][0]()
    first, again, other = make(config, seed=5), make(config, seed=5), make(config, seed=6)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters(), strict=True))
    assert any(not torch.equal(a, b) for a, b in zip(first.parameters(), other.parameters(), strict=True))
    assert torch.equal(before, torch.get_rng_state())


@every_name
def test_state_dict_carries_the_network_over(name: str) -> None:
    source, target = awake(NETS[name][0]()), make(NETS[name][0](), seed=9)
    target.load_state_dict(source.state_dict())
    torch.testing.assert_close(target(*batch()), source(*batch()), rtol=0, atol=0)


@every_name
def test_bfloat16_autocast_stays_near_float32(name: str) -> None:
    net = awake(NETS[name][0]())
    exact = net(*batch())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rounded = net(*batch())
    assert (rounded - exact).abs().max() < 0.05 * exact.abs().max()


@every_name
def test_config_survives_omegaconf_and_knows_its_name(name: str) -> None:
    config, _ = NETS[name]
    assert OmegaConf.to_object(OmegaConf.structured(config)) == config()
    assert config().name == name


@pytest.mark.parametrize(
    ("config", "valid"),
    [
        (MlpConfig(activation="rellu"), "net.activation=rellu is not valid; did you mean 'relu'?"),
        (BroConfig(task_code="two-hot"), "net.task_code=two-hot is not valid; did you mean 'onehot'?"),
        (MultiheadConfig(heads="many"), "net.heads=many is not valid; known: single, multi"),
        (CareConfig(attention="no"), "net.attention=no is not valid; known: dot, gate"),
        (CareConfig(context="no"), "net.context=no is not valid; known: descriptions, learned"),
        (PtslConfig(base="no"), "net.base=no is not valid; known: mlp, care"),
        (PtslConfig(projection="no"), "net.projection=no is not valid; known: shared, independent"),
        (PtslConfig(residual="no"), "net.residual=no is not valid; did you mean 'none'?"),
        (PtslConfig(init="no"), "net.init=no is not valid; known: default, released"),
        (SoftModularConfig(task_code="none"), "net.task_code=none is not valid; did you mean 'onehot'?"),
        (NetShape(1, 1, 1), "NetShape is not the config of a network; known networks: mlp, multihead"),
    ],
    ids=[str(number) for number in range(11)],
)
def test_bad_names_say_what_is_valid(config: Any, valid: str) -> None:
    with pytest.raises(UserError) as error:
        make(config)
    assert valid in str(error.value)


def test_names_must_match_the_number_of_tasks() -> None:
    with pytest.raises(UserError, match="2 task names for 3 tasks"):
        build(MlpConfig(), OBS, 4, 3, ["reach", "push"])


@pytest.mark.gpu
@every_name
def test_cuda_graph_replays_a_training_step(name: str) -> None:
    net = awake(NETS[name][0]()).cuda()
    x, task = (tensor.cuda() for tensor in batch())
    adam = torch.optim.Adam(net.parameters(), lr=1e-3, capturable=True)

    def step() -> Tensor:
        adam.zero_grad(set_to_none=False)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = (net(x, task) - 1.0).square().mean()
        loss.backward()
        adam.step()
        if hasattr(net, "after_step"):
            net.after_step()
        return loss

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        first, *_ = [step().item() for _ in range(3)]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()
    for _ in range(50):
        graph.replay()
    assert math.isfinite(loss.item())
    assert loss.item() < first
