"""Compare the routing and the modules with the paper's equations, row by row."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn.functional import elu

from polytask.nets import build, build_shaped
from polytask.nets.layers import NetShape
from polytask.nets.soft_modular import SoftModularConfig

CONFIG = SoftModularConfig(modules=3, layers=4, width=6, state_hidden=[5], task_hidden=[5], feature_dim=7)


@pytest.mark.parametrize("layer_norm", [False, True])
def test_equals_the_equations(layer_norm: bool) -> None:
    activation = "elu" if layer_norm else "relu"  # MTBench's PQN, and the paper
    net = build(replace(CONFIG, layer_norm=layer_norm, activation=activation), 4, 2, 3)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in net.parameters():
            weight.add_(0.3 * torch.randn(weight.shape, generator=generator))
    x, task = torch.randn(5, 4, generator=generator), torch.tensor([0, 1, 2, 1, 0])
    for row, k, output in zip(x, task, net(x, task), strict=True):
        f = net.state_encoder(row)
        u = f * net.task_encoder(torch.eye(3)[k])
        p = net.to_routes[0](torch.relu(u))
        inputs = [f, f, f]  # the modules read f, not u
        for hop in range(3):
            if hop > 0:
                p = net.to_routes[hop](torch.relu(net.from_routes[hop - 1](p) * u))
            route = torch.softmax(p.view(3, 3), dim=1)  # over the sources of each destination
            layer = net.experts[hop]
            out = [layer.weight[j] @ inputs[j] + layer.bias[j] for j in range(3)]
            out = [elu(each) if layer_norm else torch.relu(each) for each in out]
            if layer_norm:
                centred = [each - each.mean() for each in out]
                out = [each / (each.square().mean() + 1e-5).sqrt() for each in centred]
                norm = net.norms[hop]
                out = [norm.gain[j, 0] * each + norm.shift[j, 0] for j, each in enumerate(out)]
            inputs = [sum(route[i, j] * out[j] for j in range(3)) for i in range(3)]
        expected = sum(net.output.weight[j] @ inputs[j] + net.output.bias[j] for j in range(3))
        torch.testing.assert_close(output, expected)


def test_f_encodes_the_action_of_a_critic_too() -> None:
    net = build_shaped(CONFIG, NetShape(in_dim=6, out_dim=1, num_tasks=3, action_dim=2), torch.Generator())
    assert net.state_encoder[0].in_features == 6 and net.joined == 0


def test_routing_gives_distributions_over_sources() -> None:
    net = build(CONFIG, 4, 2, 3)
    x = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    routes = net.routing(net.state_encoder(x), torch.tensor([0, 1, 2, 1, 0]))
    assert [tuple(route.shape) for route in routes] == [(5, 3, 3)] * 3
    for route in routes:
        torch.testing.assert_close(route.sum(-1), torch.ones(5, 3))


def mtrl_net(action_dim: int) -> nn.Module:
    shape = NetShape(4 + action_dim, 2, 3, action_dim=action_dim)
    net = build_shaped(replace(CONFIG, form="mtrl"), shape, torch.Generator().manual_seed(0))
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in net.parameters():
            weight.add_(0.3 * torch.randn(weight.shape, generator=generator))
    return net


@pytest.mark.parametrize("action_dim", [0, 2])
def test_mtrls_form_equals_its_equations(action_dim: int) -> None:
    net = mtrl_net(action_dim)
    x, task = torch.randn(5, 4 + action_dim, generator=torch.Generator().manual_seed(2)), torch.tensor([0, 1, 2, 1, 0])
    for row, k, output in zip(x, task, net(x, task), strict=True):
        f = net.state_encoder(row[:4])
        if action_dim:
            f = net.join.weight @ torch.cat([f, row[4:]]) + net.join.bias
        u = net.before_routing.weight @ (f * net.task_encoder(torch.eye(3)[k])) + net.before_routing.bias
        assert u.shape == (CONFIG.width,)  # the router is as wide as a module, not as f
        p = net.to_routes[0](torch.relu(u))
        inputs = [f, f, f]
        for hop in range(3):
            if hop > 0:
                p = net.to_routes[hop](torch.relu(net.from_routes[hop - 1](p) * u))
            route = torch.softmax(p.view(3, 3), dim=1)
            layer = net.experts[hop]
            out = [torch.relu(layer.weight[j] @ inputs[j] + layer.bias[j]) for j in range(3)]
            inputs = [sum(route[i, j] * out[j] for j in range(3)) for i in range(3)]
        expected = sum(net.output.weight[j] @ inputs[j] + net.output.bias[j] for j in range(3)) / 3
        torch.testing.assert_close(output, expected)
