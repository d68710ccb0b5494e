"""The bonus for new places of hand and objects: which cell counts, and from where."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.testing import assert_close

from polytask.algos.shared.novelty import Novelty

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


def test_a_place_is_the_nearest_cell() -> None:
    bonus = novelty([0]).bonus(along_x(0.5, 0.512, 0.508), NEVER)  # cells of 2 cm: 0, 0.6 and 0.4 of them further
    assert_close(bonus, torch.tensor([[2**-0.5], [1.0], [2**-0.5]]))


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


def test_a_place_that_only_borrowed_behaviour_reached_is_still_new() -> None:
    counted = novelty([0, 0])
    obs = torch.cat([along_x(0.5, 0.6, 0.6), along_x(0.5, 0.5, 0.5)], dim=1)
    never = NEVER.expand(3, 2)
    assert counted.bonus(obs, never, torch.tensor([False, True])).isfinite().all()
    assert_close(
        counted.bonus(obs, never, torch.tensor([True, False]))[:, 0], torch.tensor([4**-0.5, 2**-0.5, 2**-0.5])
    )


def test_far_places_count_as_the_edge() -> None:
    bonus = novelty([0]).bonus(along_x(0.0, 5.0, 7.0), NEVER)
    assert_close(bonus, torch.tensor([[1.0], [2**-0.5], [2**-0.5]]))
