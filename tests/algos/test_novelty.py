"""The bonus for new places of hand and objects: which cell counts, from where, and for which tasks."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from helpers.learning import assert_resumes
from helpers.ppo import make
from helpers.toy import PointMass
from torch import Tensor
from torch.testing import assert_close

from polytask.algos.shared.novelty import Novelty
from polytask.errors import UserError

NEVER = torch.zeros(3, 1, dtype=torch.bool)


def along_x(*metres: float) -> Tensor:
    """Return observations (T, 1, 4) of a world whose object moves along x; its position begins at entry 1."""
    obs = torch.zeros(len(metres), 1, 4)
    obs[:, 0, 1] = torch.tensor(metres)
    return obs


def novelty(worlds: list[int], tasks: int = 1) -> Novelty:
    return Novelty((1,), torch.tensor(worlds), tasks)


def test_a_place_pays_by_the_root_of_its_visits() -> None:
    counted = novelty([0])
    assert_close(counted.bonus(along_x(0.5, 0.5, 0.55), NEVER), torch.tensor([[2**-0.5], [2**-0.5], [1.0]]))
    assert_close(counted.bonus(along_x(0.5, 0.55, 0.6), NEVER), torch.tensor([[3**-0.5], [2**-0.5], [1.0]]))


def test_places_count_from_the_start_of_the_episode() -> None:
    done = torch.tensor([[False], [True], [False], [False]])
    bonus = novelty([0]).bonus(along_x(0.5, 0.6, -0.2, -0.1), done)  # twice the same way
    assert_close(bonus, torch.full((4, 1), 2**-0.5))
    across = novelty([0])
    across.bonus(along_x(0.5, 0.6, 0.6), NEVER)
    assert_close(across.bonus(along_x(0.7, 0.6, 0.5), NEVER), torch.tensor([[1.0], [3**-0.5], [2**-0.5]]))


def test_an_episode_that_ends_with_the_rollout_leaves_no_start() -> None:
    counted = novelty([0])
    counted.bonus(along_x(0.0, 0.0), torch.tensor([[False], [True]]))
    assert_close(counted.bonus(along_x(0.3), NEVER[:1]), torch.tensor([[3**-0.5]]))


def test_tasks_and_objects_count_apart_and_worlds_of_a_task_together() -> None:
    obs = torch.zeros(1, 3, 7)
    two_objects = Novelty((1, 4), torch.tensor([0, 0, 1]), 2)
    never = torch.zeros(1, 3, dtype=torch.bool)
    assert_close(two_objects.bonus(obs, never), torch.tensor([[2 * 2**-0.5, 2 * 2**-0.5, 2.0]]))
    obs[0, 0, 5] = 0.1  # the second object of the first world moves along y
    assert_close(two_objects.bonus(obs, never), torch.tensor([[4**-0.5 + 1, 4**-0.5 + 3**-0.5, 2 * 2**-0.5]]))


def test_far_places_count_as_the_edge() -> None:
    bonus = novelty([0]).bonus(along_x(0.0, 5.0, 7.0), NEVER)
    assert_close(bonus, torch.tensor([[1.0], [2**-0.5], [2**-0.5]]))


def test_only_tasks_that_fail_earn_the_bonus() -> None:
    env = PointMass((16, 16))
    ppo = make(env, novelty_coef=0.5)
    env.goal = torch.where(env.task.unsqueeze(-1) == 0, env.goal, 9.0)  # the second task cannot succeed
    for _ in range(10):
        success = ppo.actor.success.rate()
        ppo.loop.collect(env)
        before = ppo.rollout.reward.clone()
        expected = Novelty((0,), env.task, 2)
        expected.load_state_dict(ppo.actor.novelty.state_dict())
        ppo.actor.reward_novelty()
        ppo.actor.settle()
    weight = 0.5 * (1 - success)[env.task]
    bonus = expected.bonus(ppo.rollout.obs, ppo.rollout.done)
    assert success[0] > 0 and success[1] == 0
    assert_close(ppo.rollout.reward, before + weight * bonus)
    assert ppo.actor.mean_bonus > 0


def test_an_iteration_adds_the_bonus_and_shows_it() -> None:
    env = PointMass((16, 16))
    with_bonus = make(env, novelty_coef=0.5).iterate(env)
    assert 0 < with_bonus["rollout/novelty"] < with_bonus["rollout/reward"]
    env = PointMass((16, 16))
    without = make(env).iterate(env)
    assert_close(with_bonus["rollout/reward"] - without["rollout/reward"], with_bonus["rollout/novelty"])
    assert "rollout/novelty" not in without


def test_counts_are_resumed_bit_for_bit() -> None:
    assert_resumes(lambda env: make(env, total_frames=600, novelty_coef=0.5), before=2)


def test_tasks_without_places_are_refused() -> None:
    env = PointMass((2, 2))
    env.spec = replace(env.spec, places=())
    with pytest.raises(UserError, match=r"algo\.novelty_coef does not apply"):
        make(env, novelty_coef=0.1)
