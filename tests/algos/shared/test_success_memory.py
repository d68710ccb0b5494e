"""The steps that led to a task's successes, compared with a loop over steps."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from polytask.algos.shared import success_memory
from polytask.algos.shared.rollout import Rollout
from polytask.algos.shared.success_memory import SuccessMemory
from polytask.errors import UserError
from polytask.types import EnvSpec

HORIZON, ROLLOUTS = 4, 3
SPEC = EnvSpec(1, 1, ("a", "b", "c"), (2, 1, 0), 30)
TASK = torch.tensor([0, 0, 1])


@pytest.fixture(autouse=True)
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(success_memory, "STEPS", (ROLLOUTS - 1) * HORIZON)


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


def kept(memory: SuccessMemory, task: int) -> list[int]:
    """Return what a task remembers as the numbers of its observations."""
    count = int(memory.count[task])
    return sorted(memory.state_dict()["_obs"][task, :count, 0].int().tolist())


NOTHING = [[0, 0, 0]] * HORIZON


def test_an_episode_counts_from_its_start_to_its_last_success_by_hand() -> None:
    memory = SuccessMemory(SPEC, TASK, HORIZON, 100)
    success = [[0, 0, 0], [0, 1, 0], [1, 0, 0], [0, 0, 0]]
    done = [[1, 0, 0], [0, 0, 0], [0, 0, 0], [0, 1, 0]]  # world 0 starts anew at step 1
    (rollout,) = rollouts([success], [done])
    memory.add(rollout)
    assert kept(memory, 0) == [1, 2, 100, 101]
    assert memory.count.tolist() == [4, 0, 0]


def test_steps_of_earlier_rollouts_count_and_an_episode_counts_once() -> None:
    memory = SuccessMemory(SPEC, TASK, HORIZON, 100)
    start, again = [[0, 0, 1], *NOTHING[1:]], [[0, 0, 0], [0, 0, 1], [0, 0, 0], [0, 0, 1]]
    end = [[0, 0, 0], [0, 0, 1], [0, 0, 0], [0, 0, 0]]
    first, second, third = rollouts([NOTHING, start, again], [[[0, 0, 1], *NOTHING[1:]], NOTHING, end])
    memory.add(first)  # the episode of world 2 begins at step 1
    memory.add(second)
    assert kept(memory, 1) == [201, 202, 203, 204]
    memory.add(third)  # its second success, then one of its next episode
    assert kept(memory, 1) == [201, 202, 203, 204, 210, 211]


def test_the_oldest_steps_make_room() -> None:
    memory = SuccessMemory(SPEC, TASK, HORIZON, 3)
    last = [*NOTHING[:3], [0, 0, 1]]
    for rollout in rollouts([last, [[0, 0, 0], [0, 0, 1], *NOTHING[2:]]], [last, NOTHING]):
        memory.add(rollout)  # steps 0 to 3, then 4 and 5
    assert kept(memory, 1) == [203, 204, 205]


def test_a_success_at_the_start_of_a_long_rollout_has_steps_of_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(success_memory, "STEPS", 2)
    memory = SuccessMemory(SPEC, TASK, HORIZON, 100)
    for rollout in rollouts([NOTHING, [[1, 0, 0], *NOTHING[1:]]], [[[1, 0, 0], *NOTHING[1:]], NOTHING]):
        memory.add(rollout)
    assert kept(memory, 0) == [2, 3, 4]  # the episode began at step 1


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
    memory = SuccessMemory(SPEC, TASK, HORIZON, 1000)
    flags = [tuple(torch.rand(HORIZON, 3, generator=generator) < p for p in (0.15, 0.1)) for _ in range(30)]
    for rollout in rollouts([s.tolist() for s, _ in flags], [d.tolist() for _, d in flags]):
        memory.add(rollout)
        resumed = SuccessMemory(SPEC, TASK, HORIZON, 1000)
        resumed.load_state_dict(memory.state_dict())
        memory = resumed
    expected = by_loops(flags, 0), [100 + t for t in by_loops(flags, 1)], [200 + t for t in by_loops(flags, 2)]
    assert min(len(each) for each in expected) > 20
    assert kept(memory, 0) == sorted([*expected[0], *expected[1]])
    assert kept(memory, 1) == expected[2]


def test_nothing_waits_for_the_device() -> None:
    """Tensors on the meta device have shapes but no numbers, so whatever asks for one fails."""
    memory = SuccessMemory(SPEC, TASK.to("meta"), HORIZON, 100)
    memory.add(Rollout.allocate(SPEC, HORIZON, torch.device("meta")))
    assert memory.count.is_meta


def test_draws_steps_of_the_same_task_with_their_actions_inside_the_range() -> None:
    memory = SuccessMemory(SPEC, TASK, HORIZON, 100)
    memory.add(next(rollouts([[[1, 0, 1], [1, 0, 1], *NOTHING[2:]]], [NOTHING])))
    task = torch.tensor([0, 1, 2]).repeat(200)
    obs, action = memory.draw(task, torch.Generator().manual_seed(0))
    assert set(obs[task == 0].flatten().tolist()) == {0.0, 1.0}
    assert set(obs[task == 1].flatten().tolist()) == {200.0, 201.0}
    assert not obs[task == 2].any() and not action[task == 2].any()  # it has none
    assert_close(action, (obs / 100).clamp(max=1.0))


def test_after_a_reset_of_all_worlds_no_step_before_it_counts() -> None:
    memory = SuccessMemory(SPEC, TASK, HORIZON, 100)
    first, second = rollouts(
        [[[0, 0, 0], [1, 0, 0], *NOTHING[2:]], [[0, 0, 0], [1, 1, 0], *NOTHING[2:]]], 2 * [NOTHING]
    )
    memory.add(first)
    memory.restart()
    memory.add(second)
    assert kept(memory, 0) == [0, 1, 4, 5, 104, 105]  # world 0 succeeds again, in another episode


def test_demonstrations_fill_the_memory_until_own_successes_overwrite_them() -> None:
    memory = SuccessMemory(SPEC, TASK, HORIZON, 5)
    task, obs = torch.tensor([1, 0, 0, 1, 1]), torch.tensor([[50.0], [7.0], [8.0], [51.0], [52.0]])
    memory.fill(task, obs, torch.tensor([[0.5], [-0.7], [3.0], [0.1], [0.2]]))
    assert memory.count.tolist() == [5, 5, 0]
    assert kept(memory, 0) == [7, 7, 7, 8, 8] and kept(memory, 1) == [50, 50, 51, 51, 52]
    assert memory.state_dict()["_action"][0, :, 0].tolist() == pytest.approx([-0.7, 1.0, -0.7, 1.0, -0.7])  # clipped
    memory.add(next(rollouts([[[1, 0, 0], [1, 0, 0], *NOTHING[2:]]], [NOTHING])))
    assert kept(memory, 0) == [0, 1, 7, 7, 8] and kept(memory, 1) == [50, 50, 51, 51, 52]


def test_of_too_many_demonstrated_steps_every_part_is_kept() -> None:
    memory = SuccessMemory(SPEC, TASK, HORIZON, 4)
    obs = torch.arange(10.0).unsqueeze(-1)
    memory.fill(torch.zeros(10, dtype=torch.int64), obs, obs / 10)
    assert kept(memory, 0) == [0, 2, 5, 7]


@pytest.mark.parametrize(
    ("horizon", "steps", "known"),
    [(8, 8, [8, 9, 10, 11, 12]), (3, 3, [9, 10, 11, 12])],  # more and fewer steps than the run had
)
def test_a_run_may_continue_with_another_horizon(
    horizon: int, steps: int, known: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = SuccessMemory(SPEC, TASK, HORIZON, 100)
    monkeypatch.setattr(success_memory, "STEPS", steps)
    resumed = SuccessMemory(SPEC, TASK, horizon, 100)
    last = [*NOTHING[1:], [0, 1, 0]]  # world 1 succeeds at step 11
    done = [*NOTHING[1:], [1, 0, 0]]
    for rollout in rollouts([NOTHING, NOTHING, last], [NOTHING, done, NOTHING]):
        memory.add(rollout)
    resumed.load_state_dict(memory.state_dict())
    assert kept(resumed, 1) == kept(memory, 1) and kept(resumed, 0) == kept(memory, 0) == list(range(100, 112))
    rollout = Rollout.allocate(SPEC, horizon, torch.device("cpu"))
    rollout.obs[:, 0, 0] = 12.0 + torch.arange(horizon)
    rollout.success[0] = True
    resumed.add(rollout)
    assert sorted(set(kept(resumed, 0)) - set(range(100, 112))) == known  # its episode began at step 8


def test_a_run_cannot_continue_with_another_number_of_steps() -> None:
    state = SuccessMemory(SPEC, TASK, HORIZON, 100).state_dict()
    with pytest.raises(UserError, match=r"has algo.imitation_steps=100, which cannot be changed"):
        SuccessMemory(SPEC, TASK, HORIZON, 50).load_state_dict(state)


def test_what_another_version_saved_is_named() -> None:
    state = SuccessMemory(SPEC, TASK, HORIZON, 100).state_dict()
    del state["_succeeded"]
    with pytest.raises(UserError, match=r"another version of polytask saved .* has no '_succeeded'; continue"):
        SuccessMemory(SPEC, TASK, HORIZON, 100).load_state_dict(state)
