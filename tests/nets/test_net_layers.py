"""Compare the batched layers and task codes with plain loops."""

from __future__ import annotations

import math

import pytest
import torch

from polytask.nets import build, layers
from polytask.nets.mlp import MlpConfig
from polytask.nets.task_code import TaskCode, rows


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_expert_linear_equals_separate_layers(generator: torch.Generator) -> None:
    experts = layers.ExpertLinear(3, 5, 4, generator)
    with torch.no_grad():
        experts.bias.normal_(generator=generator)
    shared = torch.randn(6, 5, generator=generator)
    own = torch.randn(3, 6, 5, generator=generator)
    for e in range(3):
        weight, bias = experts.weight[e], experts.bias[e]
        torch.testing.assert_close(experts(shared)[e], shared @ weight.T + bias)
        torch.testing.assert_close(experts(own)[e], own[e] @ weight.T + bias)


def test_expert_mlp_equals_separate_perceptrons(generator: torch.Generator) -> None:
    experts = layers.ExpertMlp(3, [5, 4, 2], generator)
    x = torch.randn(6, 5, generator=generator)
    first, second = experts
    for e in range(3):
        torch.testing.assert_close(experts(x)[e], torch.relu(x @ first.weight[e].T) @ second.weight[e].T)
    assert list(experts.state_dict()) == ["0.weight", "0.bias", "1.weight", "1.bias"]


def test_every_expert_is_drawn_with_its_own_fans(generator: torch.Generator) -> None:
    weight = layers.ExpertLinear(4, 300, 100, generator).weight
    bound = math.sqrt(6 / (300 + 100))
    for e in range(4):
        assert 0.99 * bound < weight[e].abs().max() <= bound
    assert not torch.equal(weight[0], weight[1])


def test_task_linear_equals_each_rows_own_layer(generator: torch.Generator) -> None:
    layer = layers.TaskLinear(4, 5, 2, generator)
    with torch.no_grad():
        layer.bias.normal_(generator=generator)
    x, task = torch.randn(7, 5, generator=generator), torch.tensor([3, 0, 0, 2, 1, 3, 3])
    expected = torch.stack([layer.weight[k] @ row + layer.bias[k] for row, k in zip(x, task, strict=True)])
    torch.testing.assert_close(layer(x, task), expected)


def test_linear_has_torchs_scale_and_zero_bias(generator: torch.Generator) -> None:
    layer = layers.linear(400, 50, generator)
    assert not layer.bias.any()
    assert 0.99 / 20 < layer.weight.abs().max() <= 1 / 20


def test_task_codes(generator: torch.Generator) -> None:
    x, task = torch.ones(2, 1), torch.tensor([2, 0])
    one_hot = TaskCode("onehot", 3, 32, generator)
    assert one_hot.append(x, task).tolist() == [[1, 0, 0, 1], [1, 1, 0, 0]]
    assert not list(one_hot.parameters())
    embedding = TaskCode("embedding", 3, 32, generator)
    assert embedding.width == 32
    torch.testing.assert_close(embedding(task), embedding.table[[2, 0]])
    assert TaskCode("none", 3, 32, generator).append(x, task).tolist() == [[1], [1]]


def test_only_the_tasks_present_get_a_gradient(generator: torch.Generator) -> None:
    table = torch.randn(4, 3, generator=generator, requires_grad=True)
    rows(table, torch.tensor([1, 1, 3])).sum().backward()
    assert table.grad is not None
    assert table.grad.tolist() == [[0] * 3, [2] * 3, [0] * 3, [1] * 3]


def test_embeddings_are_as_long_as_one_hot_vectors_on_average() -> None:
    table = TaskCode("embedding", 4, 10_000, torch.Generator().manual_seed(0)).table
    torch.testing.assert_close(table.norm(dim=-1), torch.ones(4), rtol=0.05, atol=0)


def test_embeddings_are_never_longer_than_their_bound() -> None:
    net = build(MlpConfig(hidden=[8], task_code="embedding", embedding_norm=1.0), 5, 2, 50)
    table = net.code.table
    assert (
        table.norm(dim=-1).max()
        <= 1 + 1e-6
        < build(MlpConfig(hidden=[8], task_code="embedding"), 5, 2, 50).code.table.norm(dim=-1).max()
    )
    table.data.copy_(torch.tensor([3.0, 4.0] + [0.0] * 30).expand(50, 32) * torch.linspace(0, 1, 50)[:, None])
    net.code.after_step()
    torch.testing.assert_close(table[-1, :3], torch.tensor([0.6, 0.8, 0.0]))
    torch.testing.assert_close(table[5, :2], torch.tensor([3.0, 4.0]) * 5 / 49, rtol=1e-6, atol=0)  # short enough
    assert not table[0].any()
