"""A trained policy as a plain function: `action = policy(obs, task)`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polytask.errors import UserError, require_known
from polytask.policies.actor import NoiselessActor
from polytask.policies.info import PolicyInfo

Tasks = Any  # a task's name or number, or an array, a tensor or a list of them: one for each observation


class Policy:
    """A policy without noise. It contains its normalizer and needs no simulator.

    Attributes:
        info: What is known about it: tasks, observation, action, control rate, run.
        actor: The torch module behind it: raw observations (B, O), task numbers (B,) -> actions (B, A).
        device: Device of the module.
    """

    def __init__(self, info: PolicyInfo, actor: NoiselessActor, device: torch.device | str = "cpu") -> None:
        """Put the module on a device."""
        self.info, self.device = info, torch.device(device)
        self.actor = actor.to(self.device)
        self._number = {task: number for number, task in enumerate(info.tasks)}

    @property
    def tasks(self) -> tuple[str, ...]:
        """Names of the tasks, in the order of their numbers."""
        return self.info.tasks

    @overload
    def __call__(self, obs: Tensor, task: Tasks) -> Tensor: ...

    @overload
    def __call__(self, obs: Any, task: Tasks) -> NDArray[np.float32]: ...

    @torch.no_grad()
    def __call__(self, obs: Any, task: Tasks) -> Any:
        """Choose actions.

        Args:
            obs: One observation (O,), or several (..., O). A tensor gives a tensor on the same device; anything else is
                read as a NumPy array and gives one.
            task: Name or number of the task, or one for each observation.

        Returns:
            The actions (A,) or (..., A), within [-1, 1].

        Raises:
            UserError: If the observation has another size, or a task is unknown.
        """
        given = obs if isinstance(obs, Tensor) else torch.from_numpy(np.asarray(obs, dtype=np.float32))
        if given.dim() == 0 or given.shape[-1] != self.info.obs_dim:
            hint = "; worlds with privileged=none show these" if self.info.worlds.get("privileged") == "none" else ""
            raise UserError(f"an observation has {self.info.obs_dim} numbers, not {list(given.shape)}{hint}")
        rows = given.to(self.device, torch.float32).reshape(-1, self.info.obs_dim)
        numbers = self._numbers(task, given.shape[:-1]).reshape(-1)
        action = self.actor(rows, numbers).view(*given.shape[:-1], self.info.action_dim)
        return action.to(given.device) if isinstance(obs, Tensor) else action.cpu().numpy()

    @overload
    def joint_targets(self, obs: Tensor, task: Tasks) -> Tensor: ...
    @overload
    def joint_targets(self, obs: NDArray[Any], task: Tasks) -> NDArray[np.float32]: ...
    def joint_targets(self, obs: Tensor | NDArray[Any], task: Tasks) -> Tensor | NDArray[np.float32]:
        """Return the joint angles (..., A) in rad that a walking robot's servos should follow until the next call.

        Raises:
            UserError: If the actions of this policy are no joint angles.
        """
        offsets = self.info.joint_offsets
        if offsets is None:
            raise UserError("the actions of this policy are not offsets of joint angles")
        action = self(obs, task)
        if isinstance(action, Tensor):
            return action + action.new_tensor(offsets)
        return action + np.asarray(offsets, dtype=np.float32)

    def _numbers(self, task: Tasks, shape: torch.Size) -> Tensor:
        """Return the task numbers of observations with this leading shape."""
        if isinstance(task, Tensor):
            numbers = task.to(self.device, torch.int64)
        else:
            names = np.asarray(task)
            if names.dtype.kind in "US":
                found = [self._number[require_known("task", str(name), self.tasks)] for name in names.reshape(-1)]
                names = np.asarray(found, dtype=np.int64).reshape(names.shape)
            elif names.dtype.kind not in "iu":
                raise UserError("a task is a name or a whole number, or an array of them")
            numbers = torch.from_numpy(names.astype(np.int64)).to(self.device)
        # On a GPU the check would wait for the device.
        if numbers.device.type == "cpu" and bool(((numbers < 0) | (numbers >= len(self.tasks))).any()):
            raise UserError(f"this policy has the tasks 0 to {len(self.tasks) - 1}: {', '.join(self.tasks)}")
        try:
            return numbers.expand(shape)
        except RuntimeError as error:
            raise UserError(f"{list(numbers.shape)} tasks for observations {list(shape)}: give one for each") from error

    def for_tasks(self, tasks: Sequence[str]) -> Callable[[Tensor, Tensor], Tensor]:
        """Return the policy for an environment with these tasks, whose numbers may differ from the policy's.

        Raises:
            UserError: If it was not trained on a task.
        """
        unknown = [task for task in tasks if task not in self._number]
        if unknown:
            known = ", ".join(self.tasks)
            raise UserError(f"the policy does not fit: it was not trained on '{unknown[0]}', only on {known}")
        number = torch.tensor([self._number[task] for task in tasks], device=self.device)
        return lambda obs, task: self(obs, number[task])
