"""The level of a world after an episode of the curriculum."""

from __future__ import annotations

import pytest
import torch

from polytask.config.compose import compose
from polytask.config.schema import TrainConfig
from polytask.envs.parkour.curriculum import next_level
from polytask.errors import UserError
from polytask.runs.setup import check_worlds


@pytest.mark.parametrize(
    ("level", "goals", "chance", "draw", "expected"),
    [
        (4, 8, 0.9, 0.0, 5),
        (4, 7, 0.0, 0.0, 5),  # promotion does not depend on random numbers
        (4, 3, 0.9, 0.0, 3),
        (4, 0, 0.0, 0.0, 3),
        (0, 2, 0.9, 0.0, 0),  # no level below the first
        (4, 5, 0.25, 0.0, 4),  # in between: stay
        (4, 6, 0.24, 0.6, 2),  # or, with probability 1/4, a random lower level, floor(0.6 * 4)
        (4, 4, 0.10, 0.99, 3),
        (0, 5, 0.10, 0.99, 0),
        (9, 7, 0.9, 0.0, 0),  # past the last level: a random level
        (9, 8, 0.9, 0.99, 9),
    ],
)
def test_level_follows_the_goals_reached(level: int, goals: int, chance: float, draw: float, expected: int) -> None:
    after = next_level(torch.tensor([level]), torch.tensor([goals]), torch.tensor([[chance, draw]]))
    assert after.tolist() == [expected]


def test_levels_stay_in_range_whatever_happens() -> None:
    generator = torch.Generator().manual_seed(0)
    level = torch.randint(10, (4000,), generator=generator)
    for _ in range(20):
        goals = torch.randint(9, (4000,), generator=generator)
        level = next_level(level, goals, torch.rand(4000, 2, generator=generator))
        assert int(level.min()) >= 0
        assert int(level.max()) <= 9
    assert len(level.unique()) == 10


@pytest.mark.parametrize("suite", ["parkour-hard", "mt10"])
def test_settings_of_a_curriculum_need_one(suite: str) -> None:
    words = ["curriculum.revisit=0.2", "threads=1"]
    with pytest.raises(UserError, match=r"settings curriculum\.\* do not apply"):
        check_worlds(compose(TrainConfig, [*words, f"suite={suite}"]))
    check_worlds(compose(TrainConfig, [*words, "suite=parkour-hard-cl"]))
    check_worlds(compose(TrainConfig, [*words, "tasks=[dome]", "levels=curriculum"]))
