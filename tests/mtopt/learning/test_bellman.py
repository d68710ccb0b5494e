"""Targets against numbers worked out by hand, with networks whose values are known."""

import math
from types import SimpleNamespace

import torch
from helpers.known_q import KnownQ
from torch.testing import assert_close

from polytask.mtopt.config.learning import BellmanConfig, CEMConfig
from polytask.mtopt.learning.bellman import return_to_go, targets


def transitions(reward, done):
    count = len(reward)
    return SimpleNamespace(
        next_image=torch.zeros(count, 4, 4, 3, dtype=torch.uint8),
        next_closed=torch.zeros(count),
        next_height=torch.zeros(count),
        next_pose=None,
        reward=torch.tensor(reward),
        done=torch.tensor(done),
        task=torch.zeros(count, dtype=torch.long),
    )


def compute(q1, q2, reward, done, lower_bound=None, **options):
    config = BellmanConfig(cem=CEMConfig(iterations=8), **options)
    generator = torch.Generator().manual_seed(0)
    return targets(q1, q2, transitions(reward, done), config, generator, lower_bound)


def test_target_by_hand():
    # Q1 is at most 0.8, at x = 0.5, where Q2 says 0.6: V = 0.6, and 0.9 * 0.6 = 0.54.
    target = compute(KnownQ(0.8, 0.5), KnownQ(0.6, 0.5), [0.0, 0.0, 1.0, 1.0], [False, True, True, False])
    assert_close(target, torch.tensor([0.54, 0.0, 1.0, 1.0]), atol=0.01, rtol=0)  # the last is 1.54, clipped


def test_the_first_network_chooses_and_the_second_only_values():
    # Q2 would like x = -0.5 (0.9), but at Q1's x = 0.5 it says sigmoid(logit(0.9) - 3).
    expected = 0.9 / (1 + math.exp(-(math.log(9) - 3)))
    assert_close(
        compute(KnownQ(0.8, 0.5), KnownQ(0.9, -0.5), [0.0], [False]), torch.tensor([expected]), atol=0.01, rtol=0
    )


def test_the_smaller_of_the_two_counts_either_way():
    low_first = compute(KnownQ(0.3, 0.0), KnownQ(0.7, 0.0), [0.0], [False])
    assert_close(low_first, torch.tensor([0.27]), atol=0.01, rtol=0)


def test_options():
    networks = KnownQ(0.8, 0.0), KnownQ(0.8, 0.0)
    assert_close(compute(*networks, [0.0], [False], gamma=0.5), torch.tensor([0.4]), atol=0.01, rtol=0)
    assert_close(compute(*networks, [0.0, 0.0], [False, True], cost=0.05), torch.tensor([0.67, 0.0]), atol=0.01, rtol=0)
    bounded = compute(*networks, [0.0, 0.0], [False, False], lower_bound=torch.tensor([0.81, 0.1]))
    assert_close(bounded, torch.tensor([0.81, 0.72]), atol=0.01, rtol=0)


def test_return_to_go_by_hand():
    success, remaining = torch.tensor([True, True, True, False, True]), torch.tensor([0, 1, 2, 1, 9])
    free = return_to_go(success, remaining, BellmanConfig(gamma=0.5))
    assert_close(free, torch.tensor([1.0, 0.5, 0.25, 0.0, 0.5**9]))
    # Two steps to go: 0.5 ** 2 - 0.1 (1 + 0.5 + 0.25) = 0.075; a failure and a long way cost more than they bring.
    dear = return_to_go(success, remaining, BellmanConfig(gamma=0.5, cost=0.1))
    assert_close(dear, torch.tensor([0.9, 0.35, 0.075, 0.0, 0.0]))
    same = return_to_go(success, remaining, BellmanConfig(gamma=1.0, cost=0.05))
    assert_close(same, torch.tensor([0.95, 0.9, 0.85, 0.0, 0.5]))
    # It is what targets give step by step where each step's value is exact: 0.9 -> 0.5 * 0.9 - 0.1 = 0.35 -> 0.075.
    assert_close(0.5 * dear[:2] - 0.1, dear[1:3])


def test_pictures_are_processed_once_for_all_samples():
    q1, q2 = KnownQ(0.8, 0.0), KnownQ(0.8, 0.0)
    compute(q1, q2, [0.0], [False])
    assert (q1.looks, q2.looks) == (1, 1)
