"""Windows at episode ends and at the end of the ring, computed by hand; how often each task's rows are sampled."""

from __future__ import annotations

import io

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from polytask.algos.shared.replay import ReplayBatch, ReplayBuffer, Transition
from polytask.errors import UserError
from polytask.types import EnvSpec

CPU = torch.device("cpu")


def spec_of(*envs_per_task: int) -> EnvSpec:
    return EnvSpec(1, 1, tuple("abc"[: len(envs_per_task)]), envs_per_task, episode_length=10)


def row(step: int, worlds: int = 1, terminated: bool = False, truncated: bool = False) -> Transition:
    """Return a step with observation 10 * step + world, reward 2^step and a next observation that is 0.5 larger."""
    world = torch.arange(worlds)
    obs = (10.0 * step + world).unsqueeze(-1)
    flags = torch.full((worlds,), terminated), torch.full((worlds,), terminated or truncated)
    return Transition(obs, obs / 100, torch.full((worlds,), 2.0**step), obs + 0.5, *flags)


def filled(steps: int, capacity: int, n_step: int, ends: dict[int, str] | None = None) -> ReplayBuffer:
    """Return the replay buffer of one world after `steps` steps; `ends` has the steps that end an episode."""
    replay = ReplayBuffer(spec_of(1), capacity, n_step, gamma=0.5, device=CPU)
    for step in range(steps):
        end = (ends or {}).get(step)
        replay.add(row(step, terminated=end == "terminated", truncated=end == "truncated"))
    return replay


def table(replay: ReplayBuffer, draws: int = 500) -> dict[float, tuple[float, float, float]]:
    """Sample enough rows to see all of them: {observation: (reward, next observation, discount)}."""
    batch = replay.sample(draws, torch.Generator().manual_seed(0))
    columns = (batch.obs[0, :, 0], batch.reward[0], batch.next_obs[0, :, 0], batch.discount[0])
    found: dict[float, tuple[float, float, float]] = {}
    for obs, *rest in zip(*(column.tolist() for column in columns), strict=True):
        assert found.setdefault(obs, tuple(rest)) == tuple(rest)
    return found


def test_window_sums_n_discounted_rewards_and_bootstraps_after_them() -> None:
    # gamma 0.5: 1 + 0.5 * 2 + 0.25 * 4 = 3, then the observation after step 2.
    assert table(filled(4, 8, 3))[0.0] == (3.0, 20.5, 0.125)


def test_window_near_the_newest_row_is_shorter_and_discounted_less() -> None:
    assert table(filled(4, 8, 3)) == {
        0.0: (3.0, 20.5, 0.125),
        10.0: (6.0, 30.5, 0.125),
        20.0: (8.0, 30.5, 0.25),
        30.0: (8.0, 30.5, 0.5),
    }


def test_termination_stops_the_window_and_the_bootstrap() -> None:
    found = table(filled(5, 8, 3, {1: "terminated"}))
    assert found[0.0] == (2.0, 10.5, 0.0)  # 1 + 0.5 * 2
    assert found[10.0] == (2.0, 10.5, 0.0)
    assert found[20.0] == (12.0, 40.5, 0.125)  # 4 + 0.5 * 8 + 0.25 * 16: a full window in the next episode


def test_truncation_stops_the_window_and_bootstraps_from_the_final_observation() -> None:
    found = table(filled(5, 8, 3, {1: "truncated"}))
    assert found[0.0] == (2.0, 10.5, 0.25)  # two steps, then the observation before the reset
    assert found[10.0] == (2.0, 10.5, 0.5)
    assert found[20.0] == (12.0, 40.5, 0.125)


def test_termination_at_the_last_step_of_a_full_window_is_seen() -> None:
    assert table(filled(5, 8, 3, {2: "terminated"}))[0.0] == (3.0, 20.5, 0.0)


def test_ring_forgets_the_oldest_and_windows_cross_its_seam() -> None:
    found = table(filled(6, 4, 3))  # steps 4 and 5 have replaced 0 and 1
    assert found == {
        20.0: (12.0, 40.5, 0.125),  # 4 + 0.5 * 8 + 0.25 * 16, across the end of the ring
        30.0: (24.0, 50.5, 0.125),
        40.0: (32.0, 50.5, 0.25),  # must not continue into step 2, the oldest, in the next slot
        50.0: (32.0, 50.5, 0.5),
    }


def test_episode_end_just_before_the_seam_is_respected() -> None:
    found = table(filled(6, 4, 3, {3: "truncated"}))
    assert found[20.0] == (8.0, 30.5, 0.25)
    assert found[30.0] == (8.0, 30.5, 0.5)


def test_one_step_returns_are_the_plain_transitions() -> None:
    found = table(filled(3, 4, 1, {0: "terminated", 1: "truncated"}))
    assert found == {0.0: (1.0, 0.5, 0.0), 10.0: (2.0, 10.5, 0.5), 20.0: (4.0, 20.5, 0.5)}


def drawn(counts: tuple[int, ...], steps: int, rows_per_task: int) -> tuple[ReplayBatch, Tensor]:
    """Sample from worlds of several tasks; return the batch and the world of every row."""
    replay = ReplayBuffer(spec_of(*counts), 10 * sum(counts), 2, 0.9, CPU)
    for step in range(steps):
        replay.add(row(step, sum(counts)))
    batch = replay.sample(rows_per_task, torch.Generator().manual_seed(1))
    return batch, (batch.obs.squeeze(-1) % 10).long()


def test_every_task_has_equally_many_rows_whatever_its_worlds() -> None:
    batch, world = drawn((1, 4, 2), steps=5, rows_per_task=700)
    assert batch.task.tolist() == [[0] * 700, [1] * 700, [2] * 700]
    histogram = torch.stack([torch.bincount(row, minlength=7) for row in world])
    assert histogram[0].tolist() == [700, 0, 0, 0, 0, 0, 0]
    assert histogram[1, 1:5].sum() == 700 and (histogram[1, 1:5] - 175).abs().max() < 50  # four standard deviations
    assert histogram[2, 5:].sum() == 700 and (histogram[2, 5:] - 350).abs().max() < 54


def test_all_kept_steps_are_equally_likely() -> None:
    batch, _ = drawn((2, 1), steps=14, rows_per_task=5000)  # the ring keeps ten: 4 to 13
    step = (batch.obs.squeeze(-1) // 10).long()
    for task in step:
        histogram = torch.bincount(task, minlength=14)
        assert histogram[:4].sum() == 0
        assert (histogram[4:] - 500).abs().max() < 90  # four standard deviations


def test_actions_stay_with_their_observations() -> None:
    batch, _ = drawn((1, 4, 2), steps=5, rows_per_task=50)
    assert_close(batch.action, batch.obs / 100)


def test_same_generator_draws_the_same_rows() -> None:
    first, second = drawn((1, 4, 2), 5, 50), drawn((1, 4, 2), 5, 50)
    assert_close(first, second, rtol=0, atol=0)


def test_saved_replay_holds_what_is_in_use_and_goes_on_alike() -> None:
    replay = filled(3, 1000, 3)
    file = io.BytesIO()
    torch.save(replay.state_dict(), file)
    assert file.tell() < 10_000  # three rows, not a thousand
    file.seek(0)
    other = filled(7, 1000, 3)
    other.load_state_dict(torch.load(file, weights_only=True))
    for each in (replay, other):
        each.add(row(3))
    assert table(other) == table(replay) == table(filled(4, 1000, 3))


def test_impossible_sizes_are_refused() -> None:
    with pytest.raises(UserError, match=r"20 transitions keeps 2 steps of 10 worlds.*n_step=3"):
        ReplayBuffer(spec_of(6, 4), 20, 3, 0.9, CPU)
    with pytest.raises(ValueError, match="8 steps, not 4"):
        filled(1, 4, 1).load_state_dict(filled(1, 8, 1).state_dict())
