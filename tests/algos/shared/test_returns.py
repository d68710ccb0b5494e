"""Advantages and targets, compared with results computed by hand."""

from __future__ import annotations

import math

import torch
from torch.testing import assert_close

from polytask.algos.shared.returns import discounted_sum, gae, group_advantage, peng_q_lambda, td_error


def column(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32).unsqueeze(-1)  # (T, 1)


def advantage_of(terminated: list[bool], truncated: list[bool], lam: float) -> torch.Tensor:
    terminated, truncated = torch.tensor(terminated).unsqueeze(-1), torch.tensor(truncated).unsqueeze(-1)
    reward, value, next_value = column(1.0, 2.0, 3.0), column(0.5, 1.0, 2.0), column(1.0, 2.0, 4.0)
    delta = td_error(reward, value, next_value, terminated, gamma=0.5)
    return gae(delta, terminated | truncated, gamma=0.5, lam=lam)


def test_plain_steps_sum_discounted_errors() -> None:
    # Errors 1 + .5*1 - .5 = 1, 2 + .5*2 - 1 = 2, 3 + .5*4 - 2 = 3; decay gamma * lam = .25.
    expected = column(1 + 0.25 * (2 + 0.25 * 3), 2 + 0.25 * 3, 3)
    assert_close(advantage_of([False] * 3, [False] * 3, lam=0.5), expected)


def test_termination_neither_bootstraps_nor_reads_the_next_episode() -> None:
    # The middle error loses its bootstrap: 2 - 1 = 1.
    expected = column(1 + 0.25 * 1, 1, 3)
    assert_close(advantage_of([False, True, False], [False] * 3, lam=0.5), expected)


def test_truncation_bootstraps_but_does_not_read_the_next_episode() -> None:
    expected = column(1 + 0.25 * 2, 2, 3)
    assert_close(advantage_of([False] * 3, [False, True, False], lam=0.5), expected)


def test_lambda_zero_is_the_one_step_error() -> None:
    assert_close(advantage_of([False] * 3, [False] * 3, lam=0.0), column(1, 2, 3))


def test_lambda_one_is_the_return_less_the_value() -> None:
    # Return 1 + .5*2 + .25*3 + .125*4 = 3.25 from the first step.
    assert_close(advantage_of([False] * 3, [False] * 3, lam=1.0)[0], column(3.25 - 0.5)[0])


def test_worlds_do_not_mix() -> None:
    x = torch.tensor([[1.0, 10.0], [2.0, 20.0]])
    done = torch.tensor([[True, False], [False, False]])
    assert_close(discounted_sum(x, done, 0.5), torch.tensor([[1.0, 20.0], [2.0, 20.0]]))


def target_of(terminated: list[bool], truncated: list[bool], lam: float = 0.5) -> torch.Tensor:
    ends = (torch.tensor(flags).unsqueeze(-1) for flags in (terminated, truncated))
    return peng_q_lambda(column(1.0, 2.0, 3.0), column(1.0, 2.0, 4.0), *ends, gamma=0.5, lam=lam)


def test_q_lambda_mixes_the_greedy_value_with_the_next_target() -> None:
    # 3 + .5*4 = 5; 2 + .5*(.5*2 + .5*5) = 3.75; 1 + .5*(.5*1 + .5*3.75) = 2.1875
    assert_close(target_of([False] * 3, [False] * 3), column(2.1875, 3.75, 5.0))


def test_q_lambda_ends_with_a_terminated_step() -> None:
    # No value after the second reward: 2, then 1 + .5*(.5*1 + .5*2) = 1.75.
    assert_close(target_of([False, True, False], [False] * 3), column(1.75, 2.0, 5.0))
    # 3; 2 + .5*(.5*2 + .5*3) = 3.25; 1 + .5*(.5*1 + .5*3.25) = 2.0625
    assert_close(target_of([False, False, True], [False] * 3), column(2.0625, 3.25, 3.0))


def test_q_lambda_bootstraps_a_truncated_step_from_what_it_led_to() -> None:
    # 2 + .5*2 = 3, without the rewards of the next episode, then 1 + .5*(.5*1 + .5*3) = 2.
    assert_close(target_of([False] * 3, [False, True, False]), column(2.0, 3.0, 5.0))


def test_q_lambda_at_its_limits() -> None:
    assert_close(target_of([False] * 3, [False] * 3, lam=0.0), column(1.5, 3.0, 5.0))  # r + gamma v
    assert_close(target_of([False] * 3, [False] * 3, lam=1.0)[0], column(3.25)[0])  # 1 + .5*2 + .25*3 + .125*4


def test_q_lambda_leaves_its_inputs_alone() -> None:
    ends = torch.zeros(2, 1, dtype=torch.bool), torch.zeros(2, 1, dtype=torch.bool)
    peng_q_lambda(column(1, 1), column(1, 1), *ends, gamma=0.5, lam=0.5)
    assert not ends[0].any() and not ends[1].any()


SCORE = torch.tensor([[4.0, 2.0, 7.0, 7.0], [2.0, 0.0, 7.0, 7.0]])  # (T, N), two worlds of each of two tasks
TASK = torch.tensor([0, 0, 1, 1])
ALL = torch.ones(2, 4, dtype=torch.bool)


def test_group_advantage_standardises_over_all_steps_and_worlds_of_a_task() -> None:
    # Task 0 has mean 2 and variance (4 + 0 + 0 + 4) / 4 = 2. Task 1 has equal scores, so its advantages are zero.
    root = math.sqrt(2)
    expected = torch.tensor([[root, 0, 0, 0], [0, -root, 0, 0]])
    assert_close(group_advantage(SCORE, ALL, TASK, 2), expected)


def test_group_advantage_by_time_compares_the_worlds_at_the_same_step() -> None:
    # Means 3 and 1 at the two steps leave differences of one.
    expected = torch.tensor([[1.0, -1, 0, 0], [1, -1, 0, 0]])
    assert_close(group_advantage(SCORE, ALL, TASK, 2, by_time=True), expected)
    # The scale is the task's, not the step's: differences 3 and 1, variance (9 + 9 + 1 + 1) / 4 = 5.
    uneven = torch.tensor([[6.0, 0.0], [2.0, 0.0]])
    expected = torch.tensor([[3.0, -3.0], [1.0, -1.0]]) / math.sqrt(5)
    assert_close(group_advantage(uneven, ALL[:, :2], TASK[:2], 1, by_time=True), expected)


def test_group_advantage_may_only_subtract_the_mean() -> None:
    expected = torch.tensor([[2.0, 0, 0, 0], [0, -2, 0, 0]])
    assert_close(group_advantage(SCORE, ALL, TASK, 2, is_scaled=False), expected)
    expected = torch.tensor([[1.0, -1, 0, 0], [1, -1, 0, 0]])
    assert_close(group_advantage(SCORE, ALL, TASK, 2, by_time=True, is_scaled=False), expected)


def test_group_advantage_leaves_out_what_does_not_count() -> None:
    score, counted = torch.tensor([[4.0, 2.0], [3.0, 100.0]]), torch.tensor([[True, True], [True, False]])
    # 4, 2 and 3 have mean 3 and variance 2/3.
    expected = torch.tensor([[1.0, -1.0], [0.0, 0.0]]) / math.sqrt(2 / 3)
    assert_close(group_advantage(score, counted, TASK[:2], 1), expected)
    # At the second step world 0 is alone and equals the mean: differences 1, -1, 0.
    assert_close(group_advantage(score, counted, TASK[:2], 1, by_time=True), expected)
