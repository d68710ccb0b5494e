"""Meta-World's environments as one vector environment: one world per task, spread over several processes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack

import numpy as np
import torch
from torch import Tensor

from polytask.config.schema import METAWORLD_HINT
from polytask.errors import UserError, shown
from polytask.runs.metaworld.process import Process, Rows
from polytask.runs.metaworld.worker import ACTIONS, COLUMNS, OBS
from polytask.types import EnvSpec, Step


class MetaWorldWorlds(AbstractContextManager["MetaWorldWorlds"]):
    """One world per task. Each episode has the next goal, the same number for all tasks.

    All worlds step at once, and every process steps the worlds of its tasks.
    """

    def __init__(
        self, python: str, tasks: Sequence[str], episode_length: int, *, workers: int, device: torch.device
    ) -> None:
        """Start the processes.

        Args:
            python: An interpreter that has metaworld.
            tasks: Names of the tasks, without Meta-World's version.
            episode_length: Control steps per episode.
            workers: Number of processes; more than one per task are not started.
            device: Where the policy is. Observations are copied to it.

        Raises:
            UserError: If the interpreter does not exist, or does not have metaworld.
        """
        count, workers = len(tasks), min(workers, len(tasks))
        self.spec = EnvSpec(OBS, ACTIONS, tuple(tasks), (1,) * count, episode_length)
        self.device = device
        self.task = torch.arange(count, device=device)
        self.score = torch.zeros(count, device=device)  # 1 for success after the last step, else 0
        self.goals: dict[str, Tensor] = {}  # the random vectors of each task's goals, (E, R)
        self._step, self._episode, self._episodes = 0, -1, 0
        self._is_playing = False  # the processes expect actions
        self._rows = np.zeros((count, COLUMNS), np.float32)
        # Neighbours are often alike, and alike slow, so the tasks are dealt out in turn.
        self._shares = [np.arange(first, count, workers) for first in range(workers)]
        with ExitStack() as stack:
            self._processes = [self._start(python, stack) for _ in self._shares]
            self.versions = self._handshake(python)
            self._stack = stack.pop_all()

    def _start(self, python: str, stack: ExitStack) -> Process:
        process = Process(python)
        stack.callback(process.close)
        return process

    def _handshake(self, python: str) -> dict[str, str]:
        """Check that the interpreter has what is needed, and return the versions of its packages."""
        try:
            return self._processes[0].ask({"ask": "versions"})
        except UserError as error:
            line = f"metaworld_python={shown(python)} cannot run Meta-World ({error}); to make one: {METAWORLD_HINT}"
            raise UserError(line) from error

    def open(self, episodes: int, seed: int) -> None:
        """Build the environments, draw one goal per episode and task, keep their vectors in `goals`, and reset."""
        self._episodes = episodes
        question = {"ask": "open", "episodes": episodes, "seed": seed, "steps": self.spec.episode_length}
        for process, share in zip(self._processes, self._shares, strict=True):
            process.tell({**question, "tasks": [self.spec.tasks[index] for index in share]})
        for process, share in zip(self._processes, self._shares, strict=True):
            for index, vectors in zip(share, process.answer()["vectors"], strict=True):
                self.goals[self.spec.tasks[index]] = torch.tensor(vectors)
        self.reset()

    @property
    def obs(self) -> Tensor:
        """Current observation. (K, 39)"""
        return torch.tensor(self._rows[:, :OBS], device=self.device)

    def reset(self) -> Tensor:
        """Start the episode of the next goal in every world; the first goal follows the last one."""
        if self._is_playing:
            self._send(np.full((len(self._rows), ACTIONS), np.nan, np.float32))
        self._step, self._episode, self._is_playing = 0, (self._episode + 1) % self._episodes, True
        for process in self._processes:
            process.tell({"ask": "play", "episode": self._episode})
        self._receive()
        return self.obs

    def step(self, action: Tensor) -> Step:
        """Apply one action per world (K, 4). After the last step of an episode, all worlds have their next goal."""
        actions: Rows = action.detach().to("cpu", torch.float32).numpy()
        if np.isnan(actions).any():  # which would end the episode, see `worker.py`
            raise UserError("the policy's action is not a number")
        self._send(actions)
        self._receive()
        self._step += 1
        self._is_playing = self._step < self.spec.episode_length
        next_obs, reward, self.score = self.obs, self._column(OBS), self._column(OBS + 1)
        ended = torch.full_like(self.task, not self._is_playing, dtype=torch.bool)
        obs = next_obs if self._is_playing else self.reset()
        return Step(obs, next_obs, reward, torch.zeros_like(ended), ended, self.score > 0)

    def _column(self, index: int) -> Tensor:
        return torch.tensor(self._rows[:, index], device=self.device)

    def _send(self, actions: Rows) -> None:
        """Send every process the actions of its worlds."""
        for process, share in zip(self._processes, self._shares, strict=True):
            process.send(actions[share].tobytes())

    def _receive(self) -> None:
        """Read the rows of all worlds."""
        for process, share in zip(self._processes, self._shares, strict=True):
            self._rows[share] = process.read((len(share), COLUMNS))

    def __exit__(self, *exception: object) -> None:
        """End the processes."""
        self._stack.close()
