"""Scripted policies and whole episodes."""

import numpy as np
import pytest
import torch

from polytask.mtopt.config.world import ScriptConfig, WorldConfig
from polytask.mtopt.tasks import ALL_TASKS
from polytask.mtopt.world import BinWorld, ScriptedPick, ScriptedPlace, run_episodes, task_indices

WORLDS = 6


def scripted_picks(seed):
    world = BinWorld(WorldConfig(num_envs=WORLDS, seed=seed, image_size=16, outcome_size=16))
    return run_episodes(world, ScriptedPick(world, ScriptConfig(seed=seed)), ["lift-any"])


@pytest.fixture(scope="module")
def picks():
    return scripted_picks(6)


def test_episodes_are_cut_to_their_length(picks):
    assert picks.images.shape == (WORLDS, 13, 16, 16, 3)
    assert ((picks.length >= 1) & (picks.length <= 12)).all()
    assert picks.length.min() < picks.length.max()  # some ended early
    for row, episode in enumerate(picks.episodes()):
        length = int(picks.length[row])
        assert episode.images.shape == (length + 1, 16, 16, 3)
        assert episode.actions.shape == (length, 8)
        assert episode.closed.shape == episode.height.shape == (length + 1,)
        assert episode.outcome.shape == (3, 16, 16, 3)
        assert np.abs(episode.actions).max() <= 1.0
        assert episode.task == "lift-any"
        assert episode.truth.keys() == set(ALL_TASKS)
        assert episode.images[-1].any()
        if length < 12:
            assert episode.actions[-1, 7] > 0.5
        assert (episode.actions[:-1, 7] <= 0.5).all()


def test_the_data_hold_commands_at_the_wrong_time():
    world = BinWorld(WorldConfig(num_envs=2, image_size=8, outcome_size=8))
    script = ScriptedPick(world, ScriptConfig(early_end=0.2, early_grip=0.1))
    # The hand is high up, where the script itself asks for none of close, open and end.
    given = torch.cat([script.act(None, None)[:, 5:] > 0.5 for _ in range(300)])
    assert given.float().mean(0).tolist() == pytest.approx([0.1, 0.1, 0.2], abs=0.05)
    assert (given.sum(1) <= 1).all()
    quiet = ScriptedPick(world, ScriptConfig(early_end=0.0, early_grip=0.0))
    assert not any((quiet.act(None, None)[:, 5:] > 0.5).any() for _ in range(20))


def test_a_command_at_the_wrong_time_replaces_the_scripts():
    world = BinWorld(WorldConfig(num_envs=64, assisted=True, reach=0.14, image_size=8, outcome_size=8))
    script = ScriptedPick(world, ScriptConfig(noise=0.0, early_end=0.2, early_grip=0.2))
    given = []
    for _ in range(10):  # an assisted pick closes at once
        script.reset()
        given.append(script.act(None, None)[:, 5:] > 0.5)
    commands = torch.cat(given)
    assert (commands.sum(1) == 1).all(), "to close and open at once would teach neither"
    assert commands.float().mean(0).tolist() == pytest.approx([0.6, 0.2, 0.2], abs=0.06)


def test_detours_make_assisted_picks_longer_and_always_end_in_a_grip():
    world = BinWorld(WorldConfig(num_envs=32, assisted=True, reach=0.14, image_size=16, outcome_size=16))
    quiet = {"noise": 0.0, "early_end": 0.0, "early_grip": 0.0}
    direct = run_episodes(world, ScriptedPick(world, ScriptConfig(**quiet)), ["lift-any"], max_steps=6)
    assert (direct.length == 1).all()
    world.reset()
    wandering = run_episodes(world, ScriptedPick(world, ScriptConfig(**quiet, detour=0.5)), ["lift-any"], max_steps=6)
    first = wandering.actions[:, 0]
    wanders = wandering.length > 1
    assert 8 <= wanders.sum() <= 24  # half of 32
    assert (first[wanders, 5:] == 0).all() and (first[~wanders, 5] == 1).all()
    last = wandering.actions[torch.arange(32), wandering.length - 1]
    assert (last[wandering.length < 6, 5] == 1).all()


def test_a_seed_gives_the_same_episodes_again(picks):
    again = scripted_picks(6)
    assert torch.equal(again.actions, picks.actions)
    assert torch.equal(again.images, picks.images)
    assert torch.equal(again.truth, picks.truth)


@pytest.mark.slow
def test_scripted_placing_succeeds_on_every_section():
    world = BinWorld(WorldConfig(num_envs=32, seed=8, image_size=8, outcome_size=8))
    world.hand_over()
    batch = run_episodes(world, ScriptedPlace(world), ["place-any"])
    rate = batch.truth.float().mean(0)
    assert 0.3 < rate[ALL_TASKS.index("place-any")] < 0.9
    assert all(rate[ALL_TASKS.index(f"place-{name}")] > 0 for name in ("bottom", "top-left", "top-right"))


def test_scripted_picks_lift_some_and_what_is_lifted_can_be_placed():
    world = BinWorld(WorldConfig(num_envs=16, seed=9, assisted=True, reach=0.14, image_size=8, outcome_size=8))
    pick = run_episodes(world, ScriptedPick(world), ["lift-any"], max_steps=2)
    lifted = pick.truth[:, ALL_TASKS.index("lift-any")]
    world.settle()
    place = run_episodes(world, ScriptedPlace(world, ScriptConfig(early_end=0.0)), ["place-any"], max_steps=4)
    placed = place.truth[:, ALL_TASKS.index("place-any")]
    assert lifted.any()
    assert (placed & lifted).any()
    assert not (placed & ~lifted).any()


def test_tasks_are_one_for_all_or_one_for_each():
    world = BinWorld(WorldConfig(num_envs=2, image_size=8, outcome_size=8))
    assert task_indices(["lift-any"], world).tolist() == [0, 0]
    assert task_indices(["lift-any", "place-any"], world).tolist() == [0, ALL_TASKS.index("place-any")]
    with pytest.raises(ValueError, match="3 tasks for 2 worlds"):
        task_indices(["lift-any"] * 3, world)
