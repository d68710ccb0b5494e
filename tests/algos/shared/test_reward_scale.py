"""The scale of rewards, computed by hand from one running return per world."""

from __future__ import annotations

import pytest
import torch

from polytask.algos.fast_td3 import FastTD3Config
from polytask.algos.pqn import PQNConfig
from polytask.algos.sac import SACConfig
from polytask.algos.shared.reward_scale import RewardNormalizer
from polytask.errors import UserError
from polytask.settings import check_values
from polytask.types import EnvSpec

TASK = torch.tensor([0, 0, 1])


def normalizer(bound: float = 10.0) -> RewardNormalizer:
    """Build a normalizer for two worlds of the first task and one world of the second; gamma^L = 1/4."""
    return RewardNormalizer(EnvSpec(1, 1, ("a", "b"), (2, 1), episode_length=2), TASK, gamma=0.5, bound=bound)


def feed(norm: RewardNormalizer, *steps: tuple[list[float], list[bool]]) -> None:
    for reward, done in steps:
        norm.update(torch.tensor(reward), torch.tensor(done))


def test_every_world_has_a_return_of_its_own_that_ends_with_the_episode() -> None:
    norm = normalizer()
    feed(norm, ([1.0, 2.0, 8.0], [False, False, False]))
    feed(norm, ([1.0, 0.0, 0.0], [True, False, False]))
    assert norm.returns.tolist() == [0.0, 1.0, 4.0]  # 1.5 ended; 2 / 2; 8 / 2
    feed(norm, ([3.0, 0.0, 0.0], [False, False, False]))
    assert norm.returns.tolist() == [3.0, 0.5, 2.0]
    assert norm.largest.tolist() == [3.0, 8.0]


def test_scale_is_the_deviation_of_the_returns_seen() -> None:
    norm = normalizer(bound=1e9)
    feed(norm, ([1.0, 2.0, 8.0], [False, False, False]))
    feed(norm, ([1.0, 0.0, 0.0], [True, False, False]))
    first = torch.tensor([1.0, 2.0, 1.5, 1.0]).std(correction=0).item()  # the ended return counts, its reset does not
    second = torch.tensor([8.0, 4.0]).std(correction=0).item()
    assert norm.scale().tolist() == pytest.approx([first, second])


def test_scale_keeps_bootstrapped_values_of_the_largest_return_within_the_bound() -> None:
    norm = normalizer(bound=10.0)
    feed(norm, *[([3.0, 3.0, 0.0], [False, False, False]), ([3.0, 3.0, 0.0], [True, True, True])] * 3)
    # The largest return of an episode is 3 + 1.5 = 4.5. Without end it would be 3 / (1 - 0.5) = 6 = 4.5 / (1 - 1/4).
    assert norm.scale()[0].item() == pytest.approx(max(0.75, 6 / 10))  # 3 and 4.5 have deviation 0.75
    tight = normalizer(bound=2.0)
    feed(tight, *[([3.0, 3.0, 0.0], [False, False, False]), ([3.0, 3.0, 0.0], [True, True, True])] * 3)
    assert tight.scale()[0].item() == pytest.approx(6 / 2)


def test_task_without_rewards_is_left_alone() -> None:
    norm = normalizer()
    feed(norm, ([1.0, 2.0, 0.0], [False, False, False]))
    assert norm.scale()[1] == 1


def test_negative_returns_count_by_their_size() -> None:
    norm = normalizer()
    feed(norm, ([-7.0, 2.0, -1.0], [False, False, False]))
    assert norm.largest.tolist() == [7.0, 1.0]


@pytest.mark.parametrize("config", [SACConfig, FastTD3Config, PQNConfig])
def test_rewards_without_a_discount_have_no_scale(config: type[SACConfig | FastTD3Config | PQNConfig]) -> None:
    with pytest.raises(UserError, match=r"algo.gamma=1.0 is not valid; it must be at least 0.0 and less than 1.0"):
        check_values(config(gamma=1.0), "algo.")
