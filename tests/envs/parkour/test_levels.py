"""Levels of parkour worlds: suites, the curriculum, revisited levels."""

from __future__ import annotations

import pytest
import torch
from helpers.parkour_worlds import make, only

import polytask
from polytask.envs.options import CurriculumOptions
from polytask.envs.parkour.tasks import TASKS
from polytask.errors import UserError

ALL = tuple(TASKS)


@pytest.mark.parametrize(
    ("suite", "levels"),
    [
        ("parkour-flat", range(10)),
        ("parkour-easy", range(10)),
        ("parkour-hard", range(10)),
        ("parkour-hard-cl", range(3)),
    ],
)
def test_suites_spread_their_worlds_over_levels(suite: str, levels: range) -> None:
    env = polytask.make(suite, num_envs=21 * 20, threads=1)
    assert env.spec.tasks == ALL
    levels_of_worlds = torch.cat([group.episode.level for group in env.groups])
    counts = torch.stack([(levels_of_worlds.view(21, 20) == level).sum(1) for level in range(10)])  # (10, K)
    assert [level for level in range(10) if counts[level].any()] == list(levels)
    if suite == "parkour-hard-cl":
        census = env.world_metrics()
        assert torch.equal(torch.stack([census[f"worlds_on_level/{level}"] for level in range(10)]), counts.float())
    else:
        assert counts.tolist() == [[2] * 21] * 10
        assert env.world_metrics() == {}


def test_curriculum_moves_worlds_to_other_tiles_and_others_stay() -> None:
    env = make("block-climb", num_envs=3, levels="curriculum")
    group = only(env)
    group.episode.level.fill_(4)
    group.episode.own_level.fill_(4)
    group.episode.goal.copy_(torch.tensor([7, 0, 5]))
    qpos = group.batch.qpos.clone()
    qpos[:2, 2] = -0.3  # the first two fall
    group.batch.reset(torch.ones(3, dtype=torch.bool), qpos, torch.zeros_like(group.batch.qvel))
    group.conclude()
    assert group.episode.level.tolist() == [5, 3, 4]
    model = group.batch.model.__copy__()
    group.batch.copy_layout(0, model)
    assert model.geom_pos[: len(group.tiles.shapes.pos[5])] == pytest.approx(group.tiles.shapes.pos[5].numpy())


def test_shortened_first_episodes_do_not_move_the_curriculum() -> None:
    env = make("flat", num_envs=40, levels="curriculum", stagger=True, episode_length=20)
    first = torch.cat([group.episode.level for group in env.groups])
    shortened = torch.cat([~group.buffers.counts for group in env.groups])
    assert 0 < shortened.sum() < 40 or shortened.all()
    still = torch.zeros(40, 12)
    for _ in range(19):  # every shortened episode ends, with no waypoint reached
        env.step(still)
    assert torch.equal(torch.cat([group.episode.level for group in env.groups])[shortened], first[shortened])
    for _ in range(20):  # now whole episodes end, and those without waypoints move down
        env.step(still)
    assert torch.equal(torch.cat([group.episode.level for group in env.groups]), (first - 1).clamp_min(0))


def test_a_revisited_level_is_easier_and_does_not_move_the_world() -> None:
    env = make("flat", num_envs=3, levels="curriculum", curriculum=CurriculumOptions(revisit=0.5))
    group = only(env)
    group.episode.level.copy_(torch.tensor([4, 4, 2]))
    group.episode.own_level.fill_(4)  # the third world revisits level 2
    group.episode.goal.fill_(8)
    group.buffers.uniform[:, 0, 13] = torch.tensor([0.49, 0.5, 0.9])
    group.buffers.uniform[:, 0, 14] = 0.7
    group._change_levels(torch.ones(3, dtype=torch.bool))
    assert group.episode.own_level.tolist() == [5, 5, 4]
    assert group.episode.level.tolist() == [3, 5, 4]  # floor(0.7 * 5), the own level, the own level
    assert torch.equal(env.world_metrics()["worlds_on_level/5"], torch.tensor([2.0]))


def test_a_state_that_knows_one_level_per_world_loads() -> None:
    env = make("flat", num_envs=2, levels="curriculum")
    state = env.state_dict()
    del state["groups"][0]["episode"]["own_level"]
    state["groups"][0]["episode"]["level"].fill_(6)
    env.load_state_dict(state)
    assert only(env).episode.own_level.tolist() == [6, 6]


def test_revisiting_needs_levels() -> None:
    with pytest.raises(UserError, match=r"the settings curriculum\.\* do not apply: tasks of manipulation"):
        polytask.make(tasks=["reach"], curriculum=CurriculumOptions(revisit=0.2))


def test_without_a_curriculum_levels_never_change() -> None:
    env = make("block-climb", num_envs=10, levels="hard", episode_length=2)
    for _ in range(6):
        env.step(torch.zeros(10, 12))
    assert only(env).episode.level.tolist() == list(range(10))
