"""Keep the last transitions of all worlds on the device and draw batches that give every task the same number of rows.

The memory is a ring over time: every step writes one row (N, ...) for all worlds at a shared position. Returns over
several steps are put together when rows are drawn, so a window never leaves its episode or passes the newest row; where
it must stop early it bootstraps from there, with the discount of the steps it really has.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from polytask.errors import UserError
from polytask.types import EnvSpec


class Transition(NamedTuple):
    """One step of all worlds."""

    obs: Tensor  # (N, O) raw observation acted on
    action: Tensor  # (N, A) in [-1, 1]
    reward: Tensor  # (N,)
    next_obs: Tensor  # (N, O) raw observation the action led to, before any reset
    terminated: Tensor  # (N,) bool, a true end: nothing to bootstrap
    done: Tensor  # (N,) bool, any end: the next row belongs to another episode

    @classmethod
    def zeros(cls, spec: EnvSpec, device: torch.device, *leading: int) -> Transition:
        """Allocate (*leading, N, ...); on the CPU memory is not taken before it is written."""
        rows = (*leading, spec.num_envs)
        return cls(
            obs=torch.zeros(*rows, spec.obs_dim, device=device),
            action=torch.zeros(*rows, spec.action_dim, device=device),
            reward=torch.zeros(rows, device=device),
            next_obs=torch.zeros(*rows, spec.obs_dim, device=device),
            terminated=torch.zeros(rows, dtype=torch.bool, device=device),
            done=torch.zeros(rows, dtype=torch.bool, device=device),
        )


class ReplayBatch(NamedTuple):
    """Rows of every task, the task axis first, whose target is `reward + discount * value(next_obs)`."""

    obs: Tensor  # (K, b, O)
    task: Tensor  # (K, b)
    action: Tensor  # (K, b, A)
    reward: Tensor  # (K, b) discounted sum over the k steps of the row's window, 1 <= k <= n
    next_obs: Tensor  # (K, b, O) observation the window led to, before any reset
    discount: Tensor  # (K, b) gamma^k, or 0 where the window ended in a termination


class ReplayBuffer:
    """A ring of T steps of N worlds; adding and drawing are free of host synchronization and can be captured."""

    def __init__(self, spec: EnvSpec, capacity: int, n_step: int, gamma: float, device: torch.device) -> None:
        """Reserve the memory.

        Args:
            spec: Worlds, sorted by task.
            capacity: Transitions to keep over all worlds, rounded down to whole steps of all of them.
            n_step: Longest window n.
            gamma: Discount per step.
            device: Where everything lives.
        """
        self.num_steps, self.num_worlds = capacity // spec.num_envs, spec.num_envs
        if not 1 <= n_step <= self.num_steps:
            raise UserError(
                f"a replay of {capacity} transitions keeps {self.num_steps} steps of {spec.num_envs} worlds, "
                f"which must be at least n_step={n_step}, itself at least 1"
            )
        self.ring = Transition.zeros(spec, device, self.num_steps)  # (T, N, ...)
        self.count = torch.zeros((), dtype=torch.int64, device=device)  # steps added so far
        self._worlds = torch.tensor(spec.envs_per_task, device=device).unsqueeze(-1)  # (K, 1)
        self._first_world = self._worlds.cumsum(0) - self._worlds  # (K, 1)
        self._task = torch.arange(spec.num_tasks, device=device).unsqueeze(-1)  # (K, 1)
        self._offset = torch.arange(n_step, device=device)  # (n,)
        self._powers = gamma ** torch.arange(n_step + 1, device=device, dtype=torch.float32)  # (n + 1,)

    @torch.no_grad()
    def add(self, row: Transition) -> None:
        """Write one step of all worlds, over the oldest once the ring is full."""
        position = (self.count % self.num_steps).unsqueeze(0)
        for kept, new in zip(self.ring, row, strict=True):
            kept.index_copy_(0, position, new.unsqueeze(0))
        self.count += 1

    @torch.no_grad()
    def sample(self, rows_per_task: int, generator: torch.Generator) -> ReplayBatch:
        """Draw b rows of every task, uniformly and with replacement from all that is kept; at least one step must be.

        Args:
            rows_per_task: Number of rows b.
            generator: Source of the draw.
        """
        age, world = self._draw(rows_per_task, generator)  # (K, b) each
        first = self.count - 1 - age
        steps = first.unsqueeze(-1) + self._offset  # (K, b, n) may pass the newest, see `taken`
        index = steps % self.num_steps * self.num_worlds + world.unsqueeze(-1)  # (K, b, n) into flat rows

        flat = Transition(*(tensor.flatten(0, 1) for tensor in self.ring))
        done = flat.done[index]
        taken = self._offset <= age.unsqueeze(-1)
        taken &= done.cumsum(-1) - done.long() == 0  # no earlier step of the window ended the episode
        length = taken.sum(-1)  # (K, b)
        start, last = index[..., 0], index.gather(-1, length.unsqueeze(-1) - 1).squeeze(-1)
        return ReplayBatch(
            obs=flat.obs[start],
            task=self._task.expand(-1, rows_per_task),
            action=flat.action[start],
            reward=(flat.reward[index] * self._powers[:-1] * taken).sum(-1),
            next_obs=flat.next_obs[last],
            discount=self._powers[length] * ~flat.terminated[last],
        )

    def _draw(self, rows_per_task: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Pick steps, by their age, and worlds (K, b) of each task."""
        device = self.count.device
        # 62 random bits and a remainder: the bound lives on the device, and the bias of the remainder is nil.
        bits = torch.randint(2**62, (len(self._worlds), rows_per_task), generator=generator, device=device)
        kept = self.count.clamp_max(self.num_steps)
        pick = bits % (kept * self._worlds)
        return pick // self._worlds, self._first_world + pick % self._worlds

    def state_dict(self) -> dict[str, Any]:
        """Return the part of the ring that is in use; this waits for the device."""
        kept = min(int(self.count), self.num_steps)
        # Cloned, because saving a view would save the whole ring behind it.
        ring = {name: tensor[:kept].clone() for name, tensor in self.ring._asdict().items()}
        return {"count": self.count.clone(), "num_steps": self.num_steps, "ring": ring}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what a replay of the same size returned."""
        if state["num_steps"] != self.num_steps:
            raise ValueError(f"its replay keeps {state['num_steps']} steps, not {self.num_steps}")
        for name, tensor in self.ring._asdict().items():
            tensor[: len(state["ring"][name])].copy_(state["ring"][name])
        self.count.copy_(state["count"])
