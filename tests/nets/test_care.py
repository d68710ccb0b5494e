"""Check CARE's attention, its descriptions and the sizes of the released encoder."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.resources import files
from typing import Any

import numpy as np
import pytest
import torch

from polytask.errors import UserError
from polytask.nets import build, build_shaped, count_parameters
from polytask.nets.care import CareConfig, described
from polytask.nets.layers import NetShape
from polytask.nets.ptsl import PtslConfig

NAMES = ["reach", "push", "door-open"]


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(6, 39, generator=torch.Generator().manual_seed(0)), torch.arange(6) % 3


def test_every_sentence_is_embedded() -> None:
    folder = files("polytask.nets")
    sentences = json.loads((folder / "descriptions.json").read_text())
    with (folder / "descriptions.npz").open("rb") as file, np.load(file) as stored:
        assert stored["names"].tolist() == list(sentences)
        assert stored["embeddings"].shape == (71, 384)
        assert stored["embeddings"].dtype == np.float16
        lengths = np.linalg.norm(stored["embeddings"].astype(np.float32), axis=1)
    np.testing.assert_allclose(lengths, 1.0, atol=1e-3)
    assert len(set(sentences.values())) == 71


def test_tasks_keep_their_order_and_differ() -> None:
    table = described(("push", "reach"))
    torch.testing.assert_close(table, described(("reach", "push"))[[1, 0]])
    torch.testing.assert_close(table.square().mean(dim=1), torch.ones(2), rtol=1e-3, atol=0)
    assert (table[0] - table[1]).abs().max() > 0.5


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["reach", "juggle", "yodel"], "no description of: juggle, yodel; use context=learned"),
        (None, "needs the names of the tasks"),
    ],
)
def test_unknown_tasks_are_named(names: list[str] | None, message: str) -> None:
    with pytest.raises(UserError, match=message):
        build(CareConfig(), 39, 4, 3, names)
    assert build(CareConfig(context="learned"), 39, 4, 3, names)(*inputs()).shape == (6, 4)


@pytest.mark.parametrize("temperature", [1.0, 0.25])
def test_attention_equals_the_equations(temperature: float) -> None:
    net = build(CareConfig(temperature=temperature), 39, 4, 3, NAMES).encoder
    x, task = inputs()
    context = net.context(net.table)
    first, second = net.experts
    for row, k, encoded in zip(x, task, net(x, task), strict=True):
        experts = torch.stack([second.weight[e] @ torch.relu(first.weight[e] @ row) for e in range(6)])
        weights = torch.softmax(experts @ context[k] / temperature, dim=0)
        torch.testing.assert_close(encoded, torch.cat([net.pool(weights @ experts), context[k]]))


def test_layers_around_the_experts_are_drawn_glorot_uniform() -> None:
    net = build(CareConfig(attention="gate", pool_hidden=[400]), 39, 4, 3, NAMES).encoder
    for part in (net.pool, net.context, net.gate):
        weight = part[0].weight
        bound = (6 / sum(weight.shape)) ** 0.5  # not 1 / sqrt(inputs), torch's own
        assert 0.95 * bound < weight.abs().max() <= bound


def test_trunk_of_a_published_critic_reads_the_encoded_state_and_the_action() -> None:
    shape = NetShape(39 + 4, 1, 3, tuple(NAMES), action_dim=4)
    net = build_shaped(CareConfig(action="trunk"), shape, torch.Generator().manual_seed(0))
    state = build(CareConfig(), 39, 1, 3, NAMES).encoder
    state.load_state_dict(net.encoder.state_dict())  # the encoder has the sizes of one that sees no action
    x, task = inputs()
    action = torch.randn(6, 4, generator=torch.Generator().manual_seed(1))
    features = torch.cat([state(x, task), action], dim=-1)
    assert features.shape[1] == net.trunk[0].in_features == 104  # as in the authors' library
    torch.testing.assert_close(net(torch.cat([x, action], -1), task), net.head(net.trunk(features), task))


@pytest.mark.parametrize("config", [CareConfig(action="trunk"), PtslConfig(action="trunk")])
def test_networks_of_the_state_alone_do_not_depend_on_who_reads_actions(config: Any) -> None:
    plain, published = (build(each, 39, 2, 3, NAMES) for each in (replace(config, action="experts"), config))
    torch.testing.assert_close(published(*inputs()), plain(*inputs()), rtol=0, atol=0)


@pytest.mark.parametrize(("detach", "reached"), [(True, False), (False, True)])
def test_attention_reaches_the_context_only_when_asked(detach: bool, reached: bool) -> None:
    net = build(CareConfig(detach_context=detach), 39, 4, 3, NAMES).encoder
    net(*inputs())[:, :50].square().sum().backward()  # only the pooled half
    gradient = net.context[0].weight.grad
    assert (gradient is not None and bool(gradient.any())) == reached


def test_released_encoder_has_its_published_size() -> None:
    config = CareConfig(experts=4, attention="gate", pool_hidden=[], context="learned")
    net = build(config, 12, 8, 10).encoder
    assert count_parameters(net.experts) + count_parameters(net.gate) + count_parameters(net.pool) == 18_104


def test_gate_depends_on_the_task_alone() -> None:
    net = build(CareConfig(attention="gate"), 39, 4, 3, NAMES).encoder
    task = torch.arange(6) % 3
    experts = torch.randn(6, 6, 50, generator=torch.Generator().manual_seed(1))
    weights = net.attend(experts, net.context(net.table), task)  # (E, B)
    torch.testing.assert_close(weights.sum(dim=0), torch.ones(6))
    torch.testing.assert_close(weights[:, :3], weights[:, 3:])
