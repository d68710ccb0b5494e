"""Policies that act in worlds: published weights, scripts, and both in one batch of worlds."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from polytask.mtopt.config.learning import CEMConfig
from polytask.mtopt.config.run import RunConfig
from polytask.mtopt.learning.acting import Exploration, best_action, explore
from polytask.mtopt.learning.weights import Weights
from polytask.mtopt.records import Observation
from polytask.mtopt.roles.simple_policies import RANDOM_SCRIPT, RandomPolicy
from polytask.mtopt.world import Policy, World


class LearnedPolicy:
    """Takes the action with the highest value, with exploration while collecting."""

    def __init__(self, weights: Weights, cem: CEMConfig, seed: int, exploration: Exploration | None = None) -> None:
        """Use weights.

        Args:
            weights: On the device of the worlds.
            cem: How actions are searched.
            seed: Of all randomness.
            exploration: None for none.
        """
        self.name = weights.policy
        self.weights, self.cem, self.exploration = weights, cem, exploration or Exploration()
        device = next(weights.q1.parameters()).device
        self.generator = torch.Generator(device).manual_seed(seed)

    def reset(self, mask: Tensor | None = None) -> None:
        """Do nothing: the policy has no memory."""

    def act(self, observation: Observation, task: Tensor) -> Tensor:
        """Return actions (N, A) for tasks (N,)."""
        q1 = self.weights.q1
        action, _ = best_action(q1, observation, task, self.cem, self.generator)
        return explore(action, observation.closed, self.exploration, self.cem, self.generator, q1.action)


class MixedPolicy:
    """A script in some worlds and a learned policy, which acts for a given task, in the others."""

    name = "mixed"

    def __init__(self, script: Policy, learned: Policy | None, is_scripted: Tensor, acts_as: Tensor) -> None:
        """Divide the worlds.

        Args:
            script: Acts where `is_scripted` (N,) holds.
            learned: Acts in the other worlds; None if there are none.
            is_scripted: (N,)
            acts_as: (N,) task that the learned policy acts for.
        """
        self.script, self.learned = script, learned
        self.is_scripted, self.acts_as = is_scripted, acts_as

    def reset(self, mask: Tensor | None = None) -> None:
        """Start new episodes."""
        self.script.reset(mask)
        if self.learned is not None:
            self.learned.reset(mask)

    def act(self, observation: Observation, task: Tensor) -> Tensor:
        """Return actions (N, A)."""
        action = self.script.act(observation, task)
        if self.learned is None:
            return action
        return torch.where(self.is_scripted[:, None], action, self.learned.act(observation, self.acts_as))


def script_of(skill: str, world: World, config: RunConfig, seed: int) -> Policy:
    """Return the world's script of a skill, or random actions where it has none."""
    script = world.script(skill, replace(config.script, seed=seed))
    if script is not None:
        return script
    learner = config.learner
    return RandomPolicy(learner.bellman.cem, seed, world.device, learner.network.action, RANDOM_SCRIPT)
