"""Twin critics and their target copy."""

from __future__ import annotations

import torch
from torch import nn
from torch.testing import assert_close

from polytask.algos import AlgoContext
from polytask.algos.shared.twin import TwinCritic, frozen_view, polyak, target_of
from polytask.nets.mlp import MlpConfig
from polytask.types import EnvSpec

CPU = torch.device("cpu")


def test_polyak_moves_the_target_by_its_share() -> None:
    net = nn.Linear(1, 1)
    target = target_of(net)
    with torch.no_grad():
        net.weight.fill_(8.0), net.bias.fill_(-4.0)
        target.weight.fill_(0.0), target.bias.fill_(0.0)
    polyak(target, net, 0.25)
    assert (target.weight.item(), target.bias.item()) == (2.0, -1.0)
    polyak(target, net, 0.25)
    assert (target.weight.item(), target.bias.item()) == (3.5, -1.75)
    assert net.weight.item() == 8.0
    polyak(target, net, 1.0)
    assert (target.weight.item(), target.bias.item()) == (8.0, -4.0)


def test_encoders_of_a_target_move_by_their_own_share() -> None:
    net = nn.ModuleDict({"encoder": nn.Linear(1, 1), "trunk": nn.Linear(1, 1), "task_encoder": nn.Linear(1, 1)})
    target = target_of(net)
    with torch.no_grad():
        for part, start in ((net, 8.0), (target, 0.0)):
            for weight in part.parameters():
                weight.fill_(start)
    polyak(target, net, 0.25, encoder_tau=0.5)
    assert {name: value.item() for name, value in target.named_parameters()} == {
        "encoder.weight": 4.0,
        "encoder.bias": 4.0,
        "trunk.weight": 2.0,
        "trunk.bias": 2.0,
        "task_encoder.weight": 4.0,
        "task_encoder.bias": 4.0,
    }


def test_target_starts_equal_and_is_not_trained() -> None:
    net = nn.Linear(2, 3)
    target = target_of(net)
    assert_close(target.state_dict(), net.state_dict())
    assert not any(parameter.requires_grad for parameter in target.parameters())
    assert target.weight.data_ptr() != net.weight.data_ptr()


def test_frozen_view_follows_the_network_and_is_not_trained() -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    view = frozen_view(net)
    assert not any(parameter.requires_grad for parameter in view.parameters())
    assert all(parameter.requires_grad for parameter in net.parameters())
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    net(torch.eye(2)).square().sum().backward()  # moves the running statistics, too
    optimizer.step()
    assert_close(view.state_dict(), net.state_dict(), rtol=0, atol=0)
    net.load_state_dict({name: torch.ones_like(value) for name, value in net.state_dict().items()})
    assert_close(view.state_dict(), net.state_dict(), rtol=0, atol=0)


def test_critics_see_the_action_and_differ() -> None:
    spec = EnvSpec(3, 2, ("a", "b"), (1, 1), 10)
    critic = TwinCritic(AlgoContext(spec, CPU, net=MlpConfig(hidden=[8])), 5)
    obs, task = torch.zeros(4, 3), torch.tensor([0, 0, 1, 1])
    still, moving = critic(obs, torch.zeros(4, 2), task), critic(obs, torch.ones(4, 2), task)
    assert still.shape == (2, 4, 5)
    assert (still[0] != still[1]).any()
    assert (still != moving).any(dim=-1).all()
