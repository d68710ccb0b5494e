"""Targets and update in one call give the same result as two calls."""

import importlib
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from polytask.mtopt.config.learning import BellmanConfig, CEMConfig, LearnerConfig
from polytask.mtopt.config.network import NetworkConfig
from polytask.mtopt.learning.learner import QLearner, TrainBatch
from polytask.mtopt.learning.transitions import Transitions

FOLDER = Path(__file__).parents[2] / "benchmarks" / "mtopt"


def transitions(seed, count=6):
    generator = torch.Generator().manual_seed(seed)
    image = torch.randint(0, 256, (2, count, 32, 32, 3), dtype=torch.uint8, generator=generator)
    some, zero = torch.rand(count, generator=generator), torch.zeros(count, dtype=torch.long)
    pose = torch.tensor([0.15, 0.6, 0.0]).expand(count, 3)
    done = torch.arange(count) % 2 == 0
    return Transitions(
        image=image[0],
        closed=some.round(),
        height=some * 0.2,
        action=torch.rand(count, 8, generator=generator) * 2 - 1,
        next_image=image[1],
        next_closed=some.round(),
        next_height=some * 0.2,
        reward=(done & (some > 0.5)).float(),
        done=done,
        task=zero,
        success=some > 0.5,
        remaining=(~done).long(),
        pose=pose,
        next_pose=pose,
        policy=zero,
    )


def make(cost=0.0):
    cem = CEMConfig(samples=8, elites=2)
    config = LearnerConfig(network=NetworkConfig("small", image_size=32), bellman=BellmanConfig(cost=cost, cem=cem))
    return QLearner(config, 1), torch.Generator().manual_seed(1)


def weights(learner):
    return torch.cat([value.flatten() for net in (learner.net, learner.q1, learner.q2) for value in net.parameters()])


def by_hand(target_of, cost=0.0):
    learner, generator = make(cost)
    for seed in range(3):
        row = transitions(seed)
        target = target_of(learner, row, generator)
        example = TrainBatch(row.image, row.closed, row.height, row.task, row.action, target, row.pose)
        learner.update(example, generator)
    return weights(learner)


@pytest.fixture
def captured(monkeypatch):
    """Import the class as if its folder's script were run, and return a function that trains with it."""
    monkeypatch.syspath_prepend(str(FOLDER))
    kind = importlib.import_module("captured").CapturedUpdate

    def train(cost=0.0, **options):
        learner, generator = make(cost)
        update = kind(learner, generator, **options)
        for seed in range(3):
            metrics = update(transitions(seed))
        assert learner.step == 3 and metrics["done"] == 0.5
        return weights(learner)

    return train


def test_the_same_weights_as_by_two_calls(captured):
    assert_close(captured(), by_hand(lambda learner, row, generator: learner.targets(row, generator)), atol=0, rtol=0)


def test_a_bound_and_the_reward_alone(captured):
    def bounded(learner, row, generator):
        return learner.targets(row, generator, row.success * 0.9 ** row.remaining.float())

    assert_close(captured(has_bound=True), by_hand(bounded), atol=0, rtol=0)
    assert_close(captured(has_next=False), by_hand(lambda learner, row, generator: row.reward), atol=0, rtol=0)


def test_a_steps_cost_counts_in_the_bound_and_in_the_reward_alone(captured):
    def bounded(learner, row, generator):
        # All steps are the last or the last but one, which pays for two.
        got = torch.where(row.done, 1 - 0.2, 0.9 - 0.2 - 0.9 * 0.2)
        return learner.targets(row, generator, row.success * got)

    def alone(learner, row, generator):
        return torch.where(row.reward > 0, 0.8, 0.0)

    assert_close(captured(cost=0.2, has_bound=True), by_hand(bounded, cost=0.2))
    assert_close(captured(cost=0.2, has_next=False), by_hand(alone, cost=0.2))
