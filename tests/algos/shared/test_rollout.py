"""The order of collected steps, and the properties of task-major minibatches."""

from __future__ import annotations

import torch
from helpers.toy import STRIDE, PointMass
from torch.testing import assert_close

from polytask.algos.shared.rollout import Choice, Rollout, TaskMajorSampler, num_minibatches, roll_out, task_index


def draw(counts: tuple[int, ...], horizon: int, minibatches: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Return an epoch's index (M, K, b) and the task of every flat row."""
    task = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    sampler = TaskMajorSampler(task, len(counts), horizon, minibatches)
    return sampler.draw(torch.Generator().manual_seed(seed)), task.repeat(horizon)


def test_collect_pairs_each_observation_with_the_action_it_led_to() -> None:
    env = PointMass((2, 3))
    rollout = Rollout.allocate(env.spec, 40, env.device)
    roll_out(env, lambda obs: Choice(-0.5 * obs[:, :2], obs[:, 0]), rollout)
    moved = rollout.next_obs[..., :2] - rollout.obs[..., :2]
    assert_close(moved, STRIDE * rollout.action.clamp(-1, 1))
    assert_close(rollout.action, -0.5 * rollout.obs[..., :2])
    assert_close(rollout.log_prob, rollout.obs[..., 0])
    # The next row starts at this row's next observation, unless the episode ended.
    goes_on = ~rollout.done[:-1]
    assert_close(rollout.obs[1:][goes_on], rollout.next_obs[:-1][goes_on])
    assert (rollout.obs[1:] != rollout.next_obs[:-1]).any(-1)[~goes_on].all()
    # Clocks start at 0, 7, 14, 21, 28, so within 40 steps three worlds reach step thirty once and two twice.
    assert rollout.truncated.sum() == 7 and not rollout.terminated.any()


def test_collect_goes_on_where_it_stopped() -> None:
    env = PointMass((2,))
    rollout = Rollout.allocate(env.spec, 3, env.device)
    roll_out(env, lambda obs: Choice(obs[:, 1:] - 0.5), rollout)
    last, end = env.obs.clone(), [rollout.obs[-1].clone(), rollout.action[-1].clone()]
    assert_close([*rollout.end], end)
    roll_out(env, lambda obs: Choice(torch.ones(2, 2)), rollout)
    assert_close(rollout.obs[0], last)
    assert_close([*rollout.before], end)


def test_task_index_lists_worlds_in_order() -> None:
    assert task_index(PointMass((2, 1, 3)).spec, torch.device("cpu")).tolist() == [0, 0, 1, 2, 2, 2]


def test_number_of_minibatches_is_rounded_and_positive() -> None:
    assert [num_minibatches(rows, 32768) for rows in (786432, 40000, 60000, 10)] == [24, 1, 2, 1]


def test_every_minibatch_row_belongs_to_its_task() -> None:
    index, task = draw((5, 1, 3), horizon=7, minibatches=4)
    assert index.shape == (4, 3, 6)  # ceil(63 / 12) rows per task
    assert (task[index] == torch.arange(3).view(1, 3, 1)).all()


def test_equal_tasks_visit_every_row_once_an_epoch() -> None:
    index, _ = draw((4, 4), horizon=6, minibatches=3)
    assert sorted(index.flatten().tolist()) == list(range(48))


def test_small_task_is_repeated_evenly_and_large_one_subsampled() -> None:
    index, _ = draw((3, 1), horizon=4, minibatches=2)  # 12 and 4 rows, 8 drawn of each
    large, small = index[:, 0].flatten(), index[:, 1].flatten()
    assert len(set(large.tolist())) == 8
    assert torch.bincount(small)[small.unique()].tolist() == [2, 2, 2, 2]


def test_worlds_that_do_not_count_are_not_drawn_and_the_others_evenly() -> None:
    task = task_index(PointMass((3, 2, 1)).spec, torch.device("cpu"))
    counted = torch.tensor([True, False, True, False, True, True])
    index = TaskMajorSampler(task, 3, 4, 2).draw(torch.Generator().manual_seed(0), counted)
    assert index.shape == (2, 3, 4)
    assert (task.repeat(4)[index] == torch.arange(3).view(1, 3, 1)).all()
    worlds, draws = index % 6, torch.bincount(index.flatten(), minlength=24).view(4, 6)
    assert set(worlds.flatten().tolist()) == {0, 2, 4, 5}
    assert draws.tolist() == [[1, 0, 1, 0, 2, 2]] * 4  # 8 rows of each task, which has 8, 4 and 4


def test_epochs_differ_and_seeds_repeat() -> None:
    task = torch.arange(2).repeat_interleave(4)
    sampler = TaskMajorSampler(task, 2, 16, 2)
    generator = torch.Generator().manual_seed(3)
    first, second = sampler.draw(generator), sampler.draw(generator)
    assert (first != second).any()
    assert (sampler.draw(torch.Generator().manual_seed(3)) == first).all()


def test_minibatches_mix_time_steps_and_worlds() -> None:
    index, _ = draw((64, 64), horizon=32, minibatches=4)
    time = (index // 128).float()
    # Uniform over 0..31: mean 15.5, deviation of a mean over 1024 draws .29.
    assert ((time.mean(-1) - 15.5).abs() < 1.5).all()
