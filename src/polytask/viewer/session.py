"""What is watched: worlds, the policy that acts in them, and a clock. It knows nothing of web pages."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from polytask.envs.captions import Caption, CaptionReader
from polytask.envs.goals import MovableGoals
from polytask.envs.multi_task import MultiTaskEnv
from polytask.runs.setup import Policy
from polytask.viewer.shapes import Floats

MEMORY = 400  # control steps that the plots show
_PATIENCE = 0.1  # seconds of stepping between two pictures; what is still due then is left out


class Clock:
    """Says how many control steps are due, at a speed: 1 is real time, 0.1 slow motion."""

    def __init__(self, rate: float, speed: float = 1.0) -> None:
        """Start a clock for `rate` control steps per second of simulated time."""
        self.rate, self.speed = rate, speed
        self._owed = 0.0

    def due(self, seconds: float) -> int:
        """Return how many steps are due after some more seconds; a part of a step is kept for the next time."""
        self._owed += seconds * self.rate * self.speed
        steps = int(self._owed)
        self._owed -= steps
        return steps


@dataclass(frozen=True)
class Numbers:
    """What is plotted, for T control steps of N worlds."""

    step: Floats  # (T,) number of the control step since the worlds were built
    reward: Floats  # (T, N)
    score: Floats  # (T, N) largest share of the task that was done in the episode so far
    action: Floats  # (T, N, A)


class Session:
    """Worlds, a policy and a clock.

    Attributes:
        env: The worlds.
        policy: What acts in them. It may be replaced at any time.
        is_paused: Time stands still, except for `step`.
        steps: Number of control steps so far.
        captions: What is written over each world.
        goals: The goals that may be moved.
    """

    def __init__(
        self, env: MultiTaskEnv, policy: Policy, speed: float = 1.0, now: Callable[[], float] = time.perf_counter
    ) -> None:
        """Begin to watch; `now` is the wall clock."""
        self.env, self.policy, self.is_paused, self.steps = env, policy, False, 0
        self.clock = Clock(env.config.domain.control_rate, speed)
        self.goals = MovableGoals(env)
        self._now = now
        self._reader = CaptionReader(env, all_worlds=True)
        self.captions: list[Caption] = self._reader.read()
        self._rows: list[tuple[int, Floats, Floats, Floats]] = []

    def advance(self, seconds: float) -> int:
        """Let some seconds of wall time pass; return the number of control steps taken."""
        if self.is_paused:
            return 0
        deadline, taken = self._now() + _PATIENCE, 0
        for _ in range(self.clock.due(seconds)):
            self.step()
            taken += 1
            if self._now() > deadline:
                break
        return taken

    @torch.no_grad()
    def step(self) -> None:
        """Take one control step."""
        env = self.env
        action = self.policy(env.obs, env.task)
        result = env.step(action)
        self.steps += 1
        reward, shown = result.reward.cpu().numpy().copy(), action.clamp(-1.0, 1.0).cpu().numpy().copy()
        self.captions = self._reader.read()
        score = np.array([caption.score for caption in self.captions], np.float32)
        self._rows = [*self._rows[1 - MEMORY :], (self.steps, reward, score, shown)]

    def reset(self) -> None:
        """Start new episodes everywhere, and empty the plots."""
        self.env.reset()
        self.captions, self._rows = self._reader.read(), []

    def numbers(self) -> Numbers:
        """Return the last control steps for the plots."""
        worlds, actions = self.env.num_envs, self.env.spec.action_dim
        if not self._rows:
            nothing = np.zeros((0, worlds), np.float32)
            return Numbers(np.zeros(0, np.float32), nothing, nothing, np.zeros((0, worlds, actions), np.float32))
        step, reward, score, action = zip(*self._rows, strict=True)
        return Numbers(np.array(step, np.float32), np.stack(reward), np.stack(score), np.stack(action))

    def close(self) -> None:
        """Free the worlds."""
        self.env.close()
