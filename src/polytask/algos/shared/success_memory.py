"""What a policy did when it succeeded, remembered for tasks that rarely do.

A success that comes once in a hundred episodes is in the rows of one iteration and gone in the next, and most tries
like it fail and cost reward: the policy gradient then leads away from it. So the steps that led to each task's own
successes are kept and imitated until the task succeeds (after Oh et al., "Self-Imitation Learning", ICML 2018, arXiv
1806.05635; there a step counts if its return was above the value, here if its episode succeeded).

A memory may begin with demonstrations, which a task's own successes overwrite in time.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from polytask.algos.shared.rollout import Rollout
from polytask.errors import UserError
from polytask.types import EnvSpec

STEPS = 64  # before a rollout that are kept, until a success in it shows which of them led to it


class SuccessMemory:
    """The latest steps of each task that led to the first success of an episode.

    Attributes:
        count: Number of steps of each task. (K,)
    """

    def __init__(self, spec: EnvSpec, task: Tensor, horizon: int, capacity: int) -> None:
        """Start without steps.

        Args:
            spec: Sizes of observations and actions.
            task: Task of each world. (N,)
            horizon: Steps T of a rollout.
            capacity: Most steps C that each task keeps.
        """
        steps, worlds, device = STEPS + horizon, len(task), task.device
        self._task, self._capacity = task, capacity
        # One row for each place (K, C), and a spare one for steps that are not kept.
        self._obs_rows, self._action_rows = (
            torch.zeros(spec.num_tasks * capacity + 1, width, device=device)
            for width in (spec.obs_dim, spec.action_dim)
        )
        self._obs, self._action = (
            rows[:-1].view(spec.num_tasks, capacity, -1) for rows in (self._obs_rows, self._action_rows)
        )
        self._written = torch.zeros(spec.num_tasks, dtype=torch.int64, device=device)
        self._last_obs = torch.zeros(steps, worlds, spec.obs_dim, device=device)
        self._last_action = torch.zeros(steps, worlds, spec.action_dim, device=device)
        self._last_done = torch.ones(steps, worlds, dtype=torch.bool, device=device)  # no episode has begun
        self._succeeded = torch.zeros(worlds, dtype=torch.bool, device=device)  # the episode that goes on has

    @property
    def count(self) -> Tensor:
        """Number of steps that each task has. (K,)"""
        return self._written.clamp_max(self._capacity)

    def fill(self, task: Tensor, obs: Tensor, action: Tensor) -> None:
        """Fill the memory of tasks with demonstrated steps (M, ...): with each equally often, or with as many as fit.

        Equally often means that the numbers of copies of two steps differ by one at most.
        """
        for number in task.unique():
            rows = (task == number).nonzero().squeeze(-1)
            place = torch.arange(self._capacity, device=task.device)
            turn = place * len(rows) // self._capacity if len(rows) > self._capacity else place % len(rows)
            self._obs[number], self._action[number] = obs[rows[turn]], action[rows[turn]].clamp(-1.0, 1.0)
            self._written[number] = self._capacity

    @torch.no_grad()
    def add(self, rollout: Rollout) -> None:
        """Keep the steps that led to the successes of a rollout."""
        horizon = len(rollout.reward)
        for kept, new in (
            (self._last_obs, rollout.obs),
            (self._last_action, rollout.action),
            (self._last_done, rollout.done),
        ):
            kept[:-horizon] = kept[horizon:].clone()
            kept[-horizon:] = new
        self._write(self._led_to_success(rollout.success))

    def restart(self) -> None:
        """Forget the episodes that go on, because all worlds were reset."""
        self._last_done[-1] = True
        self._succeeded.zero_()

    def _led_to_success(self, success: Tensor) -> Tensor:
        """Find the last steps (S, N) of episodes that first succeeded in the rollout, up to their last success in it.

        Args:
            success: Whether a step of the rollout was a success. (T, N) bool
        """
        done, horizon = self._last_done, len(success)
        ended = done.cumsum(dim=0)
        episode = ended - done.int()  # (S, N) number of the episode of each step
        latest = episode[-horizon:]
        is_same = latest == latest[:1]  # (T, N) as the one that went on when the rollout began
        is_first = success & ~(self._succeeded & is_same)
        time = torch.arange(len(done), device=done.device).unsqueeze(-1)  # (S, 1)
        last = torch.full((len(done) + 1, done.shape[1]), -1, device=done.device)  # of each episode's successes
        last.scatter_reduce_(0, latest, torch.where(is_first, time[-horizon:], -1), "amax")
        goes_on = latest == ended[-1]
        self._succeeded.copy_((success & goes_on).any(dim=0) | (self._succeeded & (is_same & goes_on).all(dim=0)))
        return time <= last.gather(0, episode)

    def _write(self, chosen: Tensor) -> None:
        """Write the chosen (S, N) of the last steps over the oldest ones of their tasks.

        How many these are is known to the device alone. So all S * N steps are written, the others to the spare row.
        """
        num_tasks = len(self._written)
        task = torch.where(chosen, self._task, num_tasks).flatten()  # those that are not chosen come last
        order = torch.argsort(task, stable=True)
        task = task[order]
        count = torch.zeros(num_tasks + 1, dtype=torch.int64, device=task.device)
        count.index_add_(0, task, torch.ones_like(task))
        turn = torch.arange(len(task), device=task.device) - (count.cumsum(0) - count)[task]  # among those of the task
        is_kept = (task < num_tasks) & (turn >= (count - self._capacity)[task])
        number = task.clamp_max(num_tasks - 1)
        place = number * self._capacity + (self._written[number] + turn) % self._capacity
        row = torch.where(is_kept, place, num_tasks * self._capacity)
        self._obs_rows[row] = self._last_obs.flatten(0, 1)[order]
        self._action_rows[row] = self._last_action.flatten(0, 1)[order].clamp(-1.0, 1.0)
        self._written += count[:-1]

    def draw(self, task: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw an observation (R, O) and the action (R, A) taken there for each of the tasks (R,).

        A task without steps gives zeros.
        """
        chance = torch.rand(len(task), generator=generator, device=task.device, dtype=torch.float64)
        place = (chance * self.count[task]).long()
        return self._obs[task, place], self._action[task, place]

    def state_dict(self) -> dict[str, Any]:
        """Return the steps, and those that may still lead to a success."""
        return {name: getattr(self, name).clone() for name in self._saved}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned; with another horizon, the newest of the steps that may still count.

        Raises:
            UserError: If each task kept another number of steps, or another version of the code saved something else.
        """
        if missing := [name for name in self._saved if name not in state]:
            raise UserError(
                f"another version of polytask saved this run: its memory of successes has no '{missing[0]}'; continue "
                "the run with that version, or use init_from instead of checkpoint"
            )
        if len(state["_obs"][0]) != self._capacity:
            raise UserError(
                f"the run has algo.imitation_steps={len(state['_obs'][0])}, which cannot be changed when it continues"
            )
        for name in ("_obs", "_action", "_written", "_succeeded"):
            getattr(self, name).copy_(state[name])
        self._last_done.fill_(True)  # where nothing is known, an episode ended
        for name in ("_last_obs", "_last_action", "_last_done"):
            mine = getattr(self, name)
            newest = min(len(mine), len(state[name]))
            mine[-newest:] = state[name][-newest:]

    @property
    def _saved(self) -> tuple[str, ...]:
        return "_obs", "_action", "_written", "_last_obs", "_last_action", "_last_done", "_succeeded"
