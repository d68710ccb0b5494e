"""Seeds and networks that algorithms get from their context."""

from __future__ import annotations

import pytest
import torch

from polytask.algos import AlgoContext, require_apart
from polytask.algos.ppo import PPOConfig
from polytask.algos.sac import SACConfig
from polytask.errors import UserError
from polytask.grads.mean import Mean
from polytask.grads.pcgrad import PCGrad, PCGradConfig
from polytask.nets.mlp import MlpConfig
from polytask.types import EnvSpec

SPEC = EnvSpec(obs_dim=3, action_dim=2, tasks=("a", "b"), envs_per_task=(4, 2), episode_length=10)
CPU = torch.device("cpu")


def test_each_purpose_draws_its_own_numbers() -> None:
    def draw(seed: int, purpose: str) -> float:
        return torch.rand((), generator=AlgoContext(SPEC, CPU, seed=seed).generator(purpose)).item()

    assert draw(1, "algo") == draw(1, "algo")
    assert len({draw(1, "algo"), draw(1, "nets"), draw(2, "algo")}) == 3


def test_critic_network_defaults_to_the_actors_architecture_with_other_weights() -> None:
    context = AlgoContext(SPEC, CPU, net=MlpConfig(hidden=[8]))
    actor, critic = context.actor_net(2), context.value_net(2)
    assert [p.shape for p in actor.parameters()] == [p.shape for p in critic.parameters()]
    assert any((a != b).any() for a, b in zip(actor.parameters(), critic.parameters(), strict=True))
    wide = AlgoContext(SPEC, CPU, net=MlpConfig(hidden=[8]), critic_net=MlpConfig(hidden=[16]))
    assert next(wide.value_net(1).parameters()).shape[0] == 16


def test_gradient_method_goes_to_its_group_alone() -> None:
    context = AlgoContext(SPEC, CPU, grads=PCGradConfig(apply_to="critic"))
    generator = context.generator("algo")
    assert isinstance(context.grad_method("critic", generator), PCGrad)
    assert isinstance(context.grad_method("actor", generator), Mean)


def test_task_without_worlds_is_refused() -> None:
    with pytest.raises(UserError, match=r"\(4, 0\)"):
        AlgoContext(EnvSpec(3, 2, ("a", "b"), (4, 0), 10), CPU)


def test_only_critics_of_their_own_may_see_more_than_the_policy() -> None:
    require_apart(PPOConfig())
    with pytest.raises(UserError, match="which algo=sac has not; use algo=ppo, or privileged=none"):
        require_apart(SACConfig())
