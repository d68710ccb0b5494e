"""A replay buffer on the device that keeps the last transitions of all worlds and samples equally from every task.

The memory is a ring over time: every step writes one row (N, ...) for all worlds at a shared position. Returns over
several steps are computed when rows are sampled. A window of steps never crosses the end of its episode or the newest
row. Where it stops early, it bootstraps from its last step, with the discount of the steps that it contains.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from polytask.errors import UserError
from polytask.types import EnvSpec


class Transition(NamedTuple):
    """One step of all worlds."""

    obs: Tensor  # (N, O) raw observation before the action
    action: Tensor  # (N, A) in [-1, 1]
    reward: Tensor  # (N,)
    next_obs: Tensor  # (N, O) raw observation after the action, before any reset
    terminated: Tensor  # (N,) bool, a true end: no bootstrap
    done: Tensor  # (N,) bool, any end: the next row belongs to another episode

    @classmethod
    def zeros(cls, spec: EnvSpec, device: torch.device, *leading: int) -> Transition:
        """Allocate (*leading, N, ...); the CPU reserves memory only when it is written."""
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
    """Sampled rows with the task axis first; the target of a row is `reward + discount * value(next_obs)`."""

    obs: Tensor  # (K, b, O)
    task: Tensor  # (K, b)
    action: Tensor  # (K, b, A)
    reward: Tensor  # (K, b) discounted sum over the k steps of the row's window, 1 <= k <= n
    next_obs: Tensor  # (K, b, O) observation after the window, before any reset
    discount: Tensor  # (K, b) gamma^k, or 0 where the window ended with a termination


class ReplayBuffer:
    """A ring of T steps of N worlds; adding and sampling need no host synchronization and can be captured."""

    def __init__(self, spec: EnvSpec, capacity: int, n_step: int, gamma: float, device: torch.device) -> None:
        """Allocate the memory.

        Args:
            spec: Sizes and the number of worlds per task; worlds are sorted by task.
            capacity: Transitions to keep over all worlds, rounded down to whole steps of all worlds.
            n_step: Longest window n.
            gamma: Discount per step.
            device: Device of all tensors.
        """
        self.num_steps, self.num_worlds = capacity // spec.num_envs, spec.num_envs
        if not 1 <= n_step <= self.num_steps:
            raise UserError(
                f"a replay of {capacity} transitions keeps {self.num_steps} steps of {spec.num_envs} worlds; "
                f"this number of steps must be at least n_step={n_step}, and n_step at least 1"
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
        """Write one step of all worlds; once the ring is full, overwrite the oldest step."""
        position = (self.count % self.num_steps).unsqueeze(0)
        for kept, new in zip(self.ring, row, strict=True):
            kept.index_copy_(0, position, new.unsqueeze(0))
        self.count += 1

    def sample(self, rows_per_task: int, generator: torch.Generator) -> ReplayBatch:
        """Sample b rows of every task, uniformly and with replacement; the ring must hold at least one step.

        Args:
            rows_per_task: Number of rows b.
            generator: Source of random numbers.
        """
        return self.rows_at(self.draw(rows_per_task, generator))

    def draw(self, rows_per_task: int, generator: torch.Generator) -> Tensor:
        """Draw the random bits (K, b) of a batch; apart from `rows_at`, because compiled kernels cannot draw them."""
        shape = (len(self._worlds), rows_per_task)
        return torch.randint(2**62, shape, generator=generator, device=self.count.device)

    @torch.no_grad()
    def rows_at(self, bits: Tensor) -> ReplayBatch:
        """Return the rows (K, b, ...) that the bits of `draw` choose."""
        # A remainder, because the bound is on the device. With 62 bits its bias is negligible.
        pick = bits % (self.count.clamp_max(self.num_steps) * self._worlds)
        age, world = pick // self._worlds, self._first_world + pick % self._worlds  # (K, b) each
        first = self.count - 1 - age
        steps = first.unsqueeze(-1) + self._offset  # (K, b, n) may pass the newest step; `taken` masks this
        index = steps % self.num_steps * self.num_worlds + world.unsqueeze(-1)  # (K, b, n) into flat rows

        flat = Transition(*(tensor.flatten(0, 1) for tensor in self.ring))
        done = flat.done[index]
        taken = self._offset <= age.unsqueeze(-1)
        taken &= done.cumsum(-1) - done.long() == 0  # no earlier step of the window ended the episode
        length = taken.sum(-1)  # (K, b)
        start, last = index[..., 0], index.gather(-1, length.unsqueeze(-1) - 1).squeeze(-1)
        return ReplayBatch(
            obs=flat.obs[start],
            task=self._task.expand_as(bits).contiguous(),  # once here, not in every loss that flattens it
            action=flat.action[start],
            reward=(flat.reward[index] * self._powers[:-1] * taken).sum(-1),
            next_obs=flat.next_obs[last],
            discount=self._powers[length] * ~flat.terminated[last],
        )

    def state_dict(self) -> dict[str, Any]:
        """Return the part of the ring that is in use; this synchronizes with the device."""
        kept = min(int(self.count), self.num_steps)
        # Cloned, because saving a view would save the whole ring behind it.
        ring = {name: tensor[:kept].clone() for name, tensor in self.ring._asdict().items()}
        return {"count": self.count.clone(), "num_steps": self.num_steps, "ring": ring}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state of a replay buffer of the same size."""
        if state["num_steps"] != self.num_steps:
            raise ValueError(f"the saved replay keeps {state['num_steps']} steps, not {self.num_steps}")
        for name, tensor in self.ring._asdict().items():
            tensor[: len(state["ring"][name])].copy_(state["ring"][name])
        self.count.copy_(state["count"])
