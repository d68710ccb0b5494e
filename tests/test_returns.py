"""Advantages worked out by hand."""

from __future__ import annotations

import torch
from torch.testing import assert_close

from polytask.returns import discounted_sum, gae, td_error


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
