"""The steps that led to a task's successes, compared with a loop over steps."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from polytask.algos.shared import own_successes
from polytask.algos.shared.own_successes import OwnSuccesses
from polytask.algos.shared.rollout import Rollout
from polytask.types import EnvSpec

HORIZON, ROLLOUTS = 4, 3
SPEC = EnvSpec(1, 1, ("a", "b", "c"), (2, 1, 0), 30)
TASK = torch.tensor([0, 0, 1])


@pytest.fixture(autouse=True)
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_successes, "STEPS", ROLLOUTS * HORIZON - 1)  # whole rollouts are kept


def rollouts(success: list[list[list[int]]], done: list[list[list[int]]]) -> Iterator[Rollout]:
    """Yield rollouts with these flags; step t of world n has the observation 100 n + t and a hundredth as action."""
    for number, (hits, ends) in enumerate(zip(success, done, strict=True)):
        rollout = Rollout.allocate(SPEC, HORIZON, torch.device("cpu"))
        time = number * HORIZON + torch.arange(HORIZON)
        rollout.obs[..., 0] = 100.0 * torch.arange(len(TASK)) + time[:, None]
        rollout.action.copy_(rollout.obs / 100)
        rollout.success[:] = torch.tensor(hits).bool()
        rollout.truncated[:] = torch.tensor(ends).bool()
        yield rollout


def kept(memory: OwnSuccesses, task: int) -> list[int]:
    """Return what a task remembers as the numbers of its observations."""
    count = int(memory.count[task])
    return sorted(memory.state_dict()["_obs"][task, :count, 0].int().tolist())


NOTHING = [[0, 0, 0]] * HORIZON


def test_an_episode_counts_from_its_start_to_its_last_success_by_hand() -> None:
    memory = OwnSuccesses(SPEC, TASK, HORIZON, 100)
    success = [[0, 0, 0], [0, 1, 0], [1, 0, 0], [0, 0, 0]]
    done = [[1, 0, 0], [0, 0, 0], [0, 0, 0], [0, 1, 0]]  # world 0 starts anew at step 1
    (rollout,) = rollouts([success], [done])
    memory.add(rollout)
    assert kept(memory, 0) == [1, 2, 100, 101]
    assert memory.count.tolist() == [4, 0, 0]


def test_steps_of_earlier_rollouts_count_and_an_episode_counts_once() -> None:
    memory = OwnSuccesses(SPEC, TASK, HORIZON, 100)
    start, again = [[0, 0, 1], *NOTHING[1:]], [[0, 0, 0], [0, 0, 1], [0, 0, 0], [0, 0, 1]]
    end = [[0, 0, 0], [0, 0, 1], [0, 0, 0], [0, 0, 0]]
    first, second, third = rollouts([NOTHING, start, again], [[[0, 0, 1], *NOTHING[1:]], NOTHING, end])
    memory.add(first)  # the episode of world 2 begins at step 1
    memory.add(second)
    assert kept(memory, 1) == [201, 202, 203, 204]
    memory.add(third)  # its second success, then one of its next episode
    assert kept(memory, 1) == [201, 202, 203, 204, 210, 211]


def test_the_oldest_steps_make_room() -> None:
    memory = OwnSuccesses(SPEC, TASK, HORIZON, 3)
    last = [*NOTHING[:3], [0, 0, 1]]
    for rollout in rollouts([last, [[0, 0, 0], [0, 0, 1], *NOTHING[2:]]], [last, NOTHING]):
        memory.add(rollout)  # steps 0 to 3, then 4 and 5
    assert kept(memory, 1) == [203, 204, 205]


def by_loops(flags: list[tuple[Tensor, Tensor]], world: int) -> list[int]:
    """Return the steps of a world that led to successes, each rollout's as it learns of them."""
    found: list[int] = []
    start, succeeded = 0, False
    for number, (success, done) in enumerate(flags):
        oldest, hit = max(0, (number + 1 - ROLLOUTS) * HORIZON), -1
        for t in range(HORIZON):
            now = number * HORIZON + t
            if success[t, world] and not succeeded:
                hit = now
            if done[t, world] or t == HORIZON - 1:
                found += range(max(start, oldest), hit + 1)
                succeeded, hit = (False, -1) if done[t, world] else (succeeded or hit >= 0, -1)
            if done[t, world]:
                start = now + 1
    return sorted(found)


def test_agrees_with_a_loop_over_steps_and_resumes() -> None:
    generator = torch.Generator().manual_seed(0)
    memory = OwnSuccesses(SPEC, TASK, HORIZON, 1000)
    flags = [tuple(torch.rand(HORIZON, 3, generator=generator) < p for p in (0.15, 0.1)) for _ in range(30)]
    for rollout in rollouts([s.tolist() for s, _ in flags], [d.tolist() for _, d in flags]):
        memory.add(rollout)
        resumed = OwnSuccesses(SPEC, TASK, HORIZON, 1000)
        resumed.load_state_dict(memory.state_dict())
        memory = resumed
    expected = by_loops(flags, 0), [100 + t for t in by_loops(flags, 1)], [200 + t for t in by_loops(flags, 2)]
    assert min(len(each) for each in expected) > 20
    assert kept(memory, 0) == sorted([*expected[0], *expected[1]])
    assert kept(memory, 1) == expected[2]


def test_draws_steps_of_the_same_task_with_their_actions_inside_the_range() -> None:
    memory = OwnSuccesses(SPEC, TASK, HORIZON, 100)
    memory.add(next(rollouts([[[1, 0, 1], [1, 0, 1], *NOTHING[2:]]], [NOTHING])))
    task = torch.tensor([0, 1, 2]).repeat(200)
    obs, action = memory.draw(task, torch.Generator().manual_seed(0))
    assert set(obs[task == 0].flatten().tolist()) == {0.0, 1.0}
    assert set(obs[task == 1].flatten().tolist()) == {200.0, 201.0}
    assert not obs[task == 2].any() and not action[task == 2].any()  # it has none
    assert_close(action, (obs / 100).clamp(max=1.0))
