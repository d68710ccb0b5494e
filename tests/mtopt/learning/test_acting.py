"""The best action of a network, and exploration around it."""

import pytest
import torch
from helpers.known_q import KnownQ
from torch.testing import assert_close

from polytask.mtopt.config.learning import CEMConfig
from polytask.mtopt.learning.acting import Exploration, best_action, explore
from polytask.mtopt.records import Observation


def view(count):
    zero = torch.zeros(count)
    return Observation(torch.zeros(count, 4, 4, 3, dtype=torch.uint8), zero, zero, torch.zeros(count, 3))


def test_the_best_action_has_the_highest_value():
    generator = torch.Generator().manual_seed(0)
    action, logit = best_action(
        KnownQ(0.9, -0.4), view(3), torch.zeros(3, dtype=torch.long), CEMConfig(iterations=8), generator
    )
    assert_close(action[:, 0], torch.full((3,), -0.4), atol=0.02, rtol=0)
    assert_close(logit.sigmoid(), torch.full((3,), 0.9), atol=0.01, rtol=0)


def test_epsilon_and_noise_explore():
    def act(**options):
        generator = torch.Generator().manual_seed(0)
        action, _ = best_action(KnownQ(0.9, 0.2), view(100), torch.zeros(100, dtype=torch.long), CEMConfig(), generator)
        return explore(action, torch.zeros(100), Exploration(**options), CEMConfig(), generator)

    greedy = act()
    assert torch.equal(act(), greedy)
    changed = (act(epsilon=0.3) != greedy).any(-1).float().mean()
    assert 0.15 < changed < 0.45
    noisy = act(noise=0.1)
    assert torch.equal(noisy[:, 3:], greedy[:, 3:]) and noisy[:, :3].abs().max() <= 1
    assert 0.05 < (noisy - greedy)[:, :3].abs().mean() < 0.1


@pytest.mark.parametrize("axes", [[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]])
def test_no_noise_along_axes_that_are_not_searched(axes):
    config = CEMConfig(axes=axes)
    action = torch.zeros(50, 8)
    noisy = explore(action, torch.zeros(50), Exploration(noise=0.2), config, torch.Generator().manual_seed(0))
    assert (noisy[:, :3] != 0).all(0).tolist() == [part > 0 for part in axes]
    assert (noisy[:, :3] == 0).all(0).tolist() == [part == 0 for part in axes]


def test_noise_is_in_proportion_on_all_axes_and_stays_in_the_searched_part():
    config = CEMConfig(axes=[1.0, 0.5, 0.1])
    noisy = explore(torch.zeros(5000, 8), torch.zeros(5000), Exploration(noise=0.2), config, torch.Generator())
    assert_close(noisy[:, :3].std(0), torch.tensor([0.2, 0.1, 0.02]), rtol=0.1, atol=0)
    wide = explore(torch.zeros(500, 8), torch.zeros(500), Exploration(noise=9.0), config, torch.Generator())
    assert_close(wide[:, :3].abs().amax(0), torch.tensor([1.0, 0.5, 0.1]))


def test_neither_the_search_nor_chance_opens_an_open_hand_or_closes_a_closed_one():
    def share(closed, mode):
        state = view(400)
        state = Observation(state.image, torch.full((400,), closed), state.height, state.pose)
        generator = torch.Generator().manual_seed(0)
        action, _ = best_action(KnownQ(0.9, 0.0), state, torch.zeros(400, dtype=torch.long), CEMConfig(), generator)
        random = explore(action, state.closed, Exploration(epsilon=1.0), CEMConfig(), generator)
        return float(torch.cat((action, random))[:, mode].mean())

    assert share(0.0, 6) == 0 and share(1.0, 5) == 0
    assert share(0.0, 5) > 0.1 and share(1.0, 6) > 0.1
