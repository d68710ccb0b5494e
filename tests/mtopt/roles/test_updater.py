"""From transitions to examples with targets."""

import pytest
import torch
from helpers.transitions import transitions


def test_the_target_of_a_last_action_is_its_reward_and_examples_carry_versions(updater):
    examples = updater.step(transitions(), "run-3")
    assert examples.target.tolist() == [1.0, 1.0, 0.0, 0.0]
    assert examples.policy.tolist() == [0, 1, 2, 3]
    assert (examples.weights, examples.detector) == (1, "run-3")


def test_the_lower_bound_is_the_discounted_return(updater):
    updater.config.updater.lower_bound = True
    updater.config.learner.bellman.gamma = 0.5
    unfinished = transitions(
        reward=torch.zeros(4), done=torch.zeros(4, dtype=torch.bool), remaining=torch.full((4,), 2)
    )
    target = updater.step(unfinished, "").target
    assert (target[:2] >= 0.25 - 1e-6).all()  # 0.5 ** 2
    assert (target[2:] < 0.25).all()  # an untrained network says about 0.05


def test_the_lower_bound_pays_for_the_steps(updater):
    updater.config.updater.lower_bound = True
    updater.config.learner.bellman.gamma, updater.config.learner.bellman.cost = 0.9, 0.1
    unfinished = transitions(
        reward=torch.zeros(4), done=torch.zeros(4, dtype=torch.bool), remaining=torch.full((4,), 1)
    )
    target = updater.step(unfinished, "").target
    assert target[:2].tolist() == pytest.approx([0.9 - 0.1 - 0.09] * 2)  # an untrained network says about 0.05
    assert target[2:].tolist() == [0.0, 0.0]


def test_an_updater_follows_new_weights(updater, trainer):
    trainer.publish()
    assert updater.weights.version == 1
    updater.sync()
    assert updater.weights.version == 2
