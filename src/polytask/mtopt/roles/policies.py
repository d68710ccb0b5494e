"""Policies that act in the bins: published weights, scripts, and both in one batch of worlds."""

from __future__ import annotations

import torch
from torch import Tensor

from polytask.mtopt.config.learning import CEMConfig
from polytask.mtopt.config.world import ScriptConfig
from polytask.mtopt.learning.acting import Exploration, best_action, explore
from polytask.mtopt.learning.weights import Weights
from polytask.mtopt.records import Observation
from polytask.mtopt.world import BinWorld, Policy, ScriptedPick, ScriptedPlace


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
        """Return actions (N, 8) for tasks (N,)."""
        action, _ = best_action(self.weights.q1, observation, task, self.cem, self.generator)
        return explore(action, observation.closed, self.exploration, self.cem, self.generator)


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
        """Return actions (N, 8)."""
        action = self.script.act(observation, task)
        if self.learned is None:
            return action
        return torch.where(self.is_scripted[:, None], action, self.learned.act(observation, self.acts_as))


def script_of(skill: str, world: BinWorld, config: ScriptConfig) -> ScriptedPick | ScriptedPlace:
    """Make the script of a skill: a pick for lifting, a place for the others, which release an object."""
    if skill == "lift":
        return ScriptedPick(world, config)
    return ScriptedPlace(world, config, covers=skill == "cover")
