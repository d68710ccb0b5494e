"""Targets of Q-learning: the reward, or what the best next action is worth to two older networks.

    V(s') = min(Q1(s', a*), Q2(s', a*)),   a* = argmax_a Q1(s', a), found by CEM
    target = clip(r - cost + gamma (1 - done) V(s'), 0, 1)

Differences from the paper: an optional lower bound. A stored episode proves that its discounted return, less the cost
of its steps, can be had, so a target need not lie below it; that carries a reward through a whole episode at once
instead of one step for each copy of the lagged network. It is biased upwards where the same actions sometimes fail,
hence off unless it is passed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from polytask.mtopt.config.learning import BellmanConfig, CEMConfig
from polytask.mtopt.learning.cem import maximise
from polytask.mtopt.networks import QNetwork


class Observed(Protocol):
    """What the robot sees: any record with these fields will do."""

    @property
    def image(self) -> Tensor:
        """Pictures (B, H, W, 3) of bytes."""
        ...

    @property
    def closed(self) -> Tensor:
        """Whether the gripper is closed, (B,)."""
        ...

    @property
    def height(self) -> Tensor:
        """Height (B,) of the fingertips above the bin's floor, m."""
        ...

    @property
    def pose(self) -> Tensor | None:
        """Commanded x, y (m) and yaw (rad) of the hand, (B, 3); None will do for networks that merge by adding."""
        ...


class Followed(Protocol):
    """What a target needs of transitions: where they led, and what that was worth."""

    @property
    def next_image(self) -> Tensor:
        """Pictures (B, H, W, 3) of bytes after the action."""
        ...

    @property
    def next_closed(self) -> Tensor:
        """Whether the gripper is closed after the action, (B,)."""
        ...

    @property
    def next_height(self) -> Tensor:
        """Height (B,) of the fingertips after the action, m."""
        ...

    @property
    def next_pose(self) -> Tensor | None:
        """Pose (B, 3) of the hand after the action."""
        ...

    @property
    def reward(self) -> Tensor:
        """Reward (B,) of the transition."""
        ...

    @property
    def done(self) -> Tensor:
        """Whether the episode ended with it, (B,)."""
        ...

    @property
    def task(self) -> Tensor:
        """Index (B,) of the task."""
        ...


@dataclass(frozen=True)
class View:
    """A plain observation."""

    image: Tensor  # (B, H, W, 3) uint8
    closed: Tensor  # (B,)
    height: Tensor  # (B,) m
    pose: Tensor | None = None  # (B, 3) x, y (m) and yaw (rad) of the hand


@torch.no_grad()
def best_action(
    q: QNetwork, observed: Observed, task: Tensor, config: CEMConfig, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Return the action (B, 8) that `q` likes best in each state, and its logit (B,)."""
    image_map = q.image_part(observed.image)

    def score(action: Tensor) -> Tensor:
        # Logits order actions as probabilities do, and still tell them apart where the sigmoid is flat.
        return q.action_part(image_map, observed.closed, observed.height, task, action, observed.pose)

    return maximise(score, len(task), config, generator)


def return_to_go(success: Tensor, remaining: Tensor, config: BellmanConfig) -> Tensor:
    """Return what episodes got from a step on, (B,) in [0, 1]: the reward at their ends less the cost of all steps.

    Args:
        success: (B,) whether the episode succeeded.
        remaining: (B,) actions of the episode after this one.
        config: Discount and cost.
    """
    gamma, left = config.gamma, remaining.float()
    # Each step from this one to the last costs: 1 + gamma + ... + gamma ** remaining.
    steps = left + 1 if gamma == 1 else (1 - gamma ** (left + 1)) / (1 - gamma)
    return (success * gamma**left - config.cost * steps).clamp(0, 1)


@torch.no_grad()
def targets(
    q1: QNetwork,
    q2: QNetwork,
    batch: Followed,
    config: BellmanConfig,
    generator: torch.Generator,
    lower_bound: Tensor | None = None,
) -> Tensor:
    """Return the targets (B,) in [0, 1] of a batch of transitions.

    Args:
        q1: Chooses the next action and values it: the Polyak average.
        q2: Values the same action: the lagged copy.
        batch: Transitions.
        config: Discount, cost and search.
        generator: Source of the CEM samples, on the batch's device.
        lower_bound: What each transition's episode got from it on (B,), as `return_to_go` says; None for the paper's
            target.
    """
    after = View(batch.next_image, batch.next_closed, batch.next_height, batch.next_pose)
    action, logit = best_action(q1, after, batch.task, config.cem, generator)
    second = q2(after.image, after.closed, after.height, batch.task, action.unsqueeze(1), after.pose).squeeze(1)
    value = torch.minimum(logit, second).sigmoid()
    target = batch.reward - config.cost + config.gamma * (1 - batch.done.to(value.dtype)) * value
    if lower_bound is not None:
        target = torch.maximum(target, lower_bound)
    return target.clamp(0, 1)
