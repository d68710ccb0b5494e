"""What a world and a policy must provide. Bins, a drawer, a plug-in's simulation and a fleet of robots are worlds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from polytask.mtopt.config.world import ScriptConfig, WorldConfig
from polytask.mtopt.records import Observation


class Policy(Protocol):
    """Anything that chooses actions for `run_episodes`."""

    name: str

    def reset(self, mask: Tensor | None = None) -> None:
        """Start new episodes where `mask` (N,) holds, or everywhere."""
        ...

    def act(self, observation: Observation, task: Tensor) -> Tensor:
        """Return actions (N, A) for tasks (N,), by their places in the run's table."""
        ...


class World(Protocol):
    """N worlds that run side by side on one device. Its `WorldSpec` declares tasks, pictures and actions.

    A *sequence* is a `reset` and then, skill by skill, a `go_on` and an episode; an evaluation is a `start` and an
    episode. An episode is `observe` and `step` until all worlds are `done` or the steps are used up, then `present`.
    What follows `reseed` depends on the seed and on the actions alone.
    """

    config: WorldConfig
    num_envs: int
    device: torch.device
    done: Tensor  # (N,) bool: the episode is over; `step` leaves these worlds as they are
    broken: Tensor  # (N,) bool: what happened since the reset is not valid, such as physics that diverged

    def reseed(self, seed: int) -> None:
        """Set the seed of all randomness, and remember it in `config.seed`."""
        ...

    def reset(self) -> None:
        """Start all worlds again."""
        ...

    def start(self, skill: str) -> None:
        """Reset all worlds to a fresh start of a skill, such as with an object in the hand for placing."""
        ...

    def go_on(self, skill: str, before: Sequence[str], *, hand_over: bool) -> Tensor:
        """Prepare the next episode of a sequence where the last one ended, or after `reset`.

        Args:
            skill: Of the next episode.
            before: Skills that the sequence has attempted since the reset.
            hand_over: Where the last episode did not reach what this skill starts from, bring it about.

        Returns:
            Which worlds (N,) are at a start of the skill; episodes of the others do not count.
        """
        ...

    def observe(self) -> Observation:
        """Return what the policies see now."""
        ...

    def step(self, action: Tensor) -> None:
        """Apply actions (N, A) where the episode is not done."""
        ...

    def present(self) -> Tensor:
        """End all episodes and return the views (N, V, H, W, 3) of their outcomes, which a later call may overwrite."""
        ...

    def truth(self, tasks: Sequence[str]) -> Tensor:
        """Grade the worlds (N, K) on tasks, for evaluation and the stand-in; only called where the spec has a truth."""
        ...

    def script(self, skill: str, config: ScriptConfig) -> Policy | None:
        """Return a scripted policy for the first data of a skill; None where there is none: actions are random then."""
        ...

    def warn(self) -> None:
        """Print a warning if something needs attention, such as overflowing buffers; called after every sequence."""
        ...

    def close(self) -> None:
        """Free resources, in the thread that used them."""
        ...
