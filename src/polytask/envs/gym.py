"""Many worlds as a `gymnasium.vector.VectorEnv`: `gymnasium.make_vec("polytask/MT10-v0", num_envs=40)`.

By default, observations, rewards and flags are NumPy arrays, as Gymnasium's wrappers expect, and the next episode of a
world starts in the step that ends the last one. `info["task"]` has the task index of each world and `info["success"]`
whether its success test holds. `docs/adapters.md` lists the options.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from torch import Tensor

from polytask.envs.gym_options import Pictures, VectorOptions, split_options
from polytask.envs.make import make
from polytask.envs.task_code import CodedObs
from polytask.errors import UserError
from polytask.settings import MAX_SEED


class GymVectorEnv(VectorEnv, AbstractContextManager["GymVectorEnv"]):
    """A `MultiTaskEnv` behind Gymnasium's interface."""

    def __init__(self, suite: str = "mt10", num_envs: int | None = None, **options: Any) -> None:
        """Build the environment; the options are those of `VectorOptions` and of `polytask.make`.

        Episodes start at their first step (`stagger=False`) unless told otherwise.
        """
        self.options, others = split_options(VectorOptions, options)
        if others.get("envs_per_task") is not None and num_envs in (1, sum(others["envs_per_task"])):
            num_envs = None  # `make_vec` always gives a number
        self.env = make(suite, num_envs=num_envs, **{"stagger": False, **others})
        self.num_envs, self.render_mode = self.env.num_envs, self.options.render_mode
        self.autoreset_mode = AutoresetMode[self.options.autoreset_mode.upper()]
        self.metadata = {
            "autoreset_mode": self.autoreset_mode,
            "render_modes": ["rgb_array"],
            "render_fps": self.env.config.domain.control_rate,
        }
        self._coded = CodedObs(self.env, self.options.task_code)
        self.single_observation_space, self.single_action_space = self._coded.space, self.env.action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._pictures = Pictures(self.env, self.options)
        self._ended = torch.zeros(self.num_envs, dtype=torch.bool, device=self.env.device)
        self._last_obs = self.env.obs

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start a new episode in every world, or where `options["reset_mask"]` (N,) is true.

        With a list of seeds, the start of a world depends on its own seed only, and everything after that on the list.
        With one seed, everything depends on this seed.
        """
        seeds: list[int | None] | None = None
        if isinstance(seed, int | np.integer):
            super().reset(seed=check_seed(seed))
            self.env.seed(int(seed))
        elif seed is not None:
            seeds = [None if one is None else check_seed(one) for one in seed]
            if numbers := [one for one in seeds if one is not None]:
                self.env.seed(int(np.random.SeedSequence(numbers).generate_state(1)[0]))
        mask = self._reset_mask((options or {}).get("reset_mask"))
        obs = self.env.reset(mask, seeds)
        if mask is not None and self.autoreset_mode is not AutoresetMode.SAME_STEP:
            obs = torch.where((self._ended & ~mask)[:, None], self._last_obs, obs)
        self._ended = torch.zeros_like(self._ended) if mask is None else self._ended & ~mask
        self._last_obs = obs
        return self._out(self._coded(obs)), self._out({"task": self.env.task})

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Apply actions (N, A), given as an array or a tensor."""
        if self.render_mode is not None and self.autoreset_mode is not AutoresetMode.SAME_STEP:
            self._pictures.remember()
        action = torch.as_tensor(actions, dtype=torch.float32, device=self.env.device)
        if action.shape != self.action_space.shape:
            raise UserError(f"the actions have shape {tuple(action.shape)}; it must be {self.action_space.shape}")
        if self.autoreset_mode is AutoresetMode.DISABLED and bool(self._ended.any()):
            raise UserError("an episode has ended; with autoreset_mode=disabled, call reset with a reset_mask")
        step = self.env.step(action)
        info: dict[str, Any] = {"task": self.env.task, "success": step.success}
        obs, ended = step.obs, step.terminated | step.truncated
        if self.autoreset_mode is AutoresetMode.SAME_STEP:
            # With arrays, as with Gymnasium's own environments, these are there only if an episode ended.
            if self.options.output == "torch" or bool(ended.any()):
                info |= {"final_obs": self._coded(step.next_obs), "_final_obs": ended}
                info |= {"final_info": {"task": self.env.task, "success": step.success}, "_final_info": ended}
        else:
            obs = step.next_obs
            if bool(self._ended.any()):  # only in next_step: the world of an ended episode starts the next one
                new = self._ended
                obs = torch.where(new[:, None], self.env.reset(new), obs)
                step.reward.masked_fill_(new, 0.0)
                for flags in (step.terminated, step.truncated, step.success, ended):
                    flags.masked_fill_(new, False)
        self._ended, self._last_obs = ended, obs
        outputs = (self._coded(obs), step.reward, step.terminated, step.truncated, info)
        return self._out(outputs)

    def render(self) -> tuple[np.ndarray[Any, Any], ...] | None:
        """Draw every world, each (H, W, 3); None without a render mode."""
        if self.render_mode is None:
            return None
        is_same_step = self.autoreset_mode is AutoresetMode.SAME_STEP
        return self._pictures.draw(None if is_same_step else self._ended.cpu().numpy())

    def close_extras(self, **kwargs: Any) -> None:
        """Stop the worker threads and free the OpenGL contexts."""
        if hasattr(self, "_pictures"):  # not if building the worlds has failed
            self._pictures.close()
            self.env.close()

    def __exit__(self, *exception: object) -> None:
        """Close the environment."""
        self.close()

    def _out(self, value: Any) -> Any:
        """Convert a tensor, or all tensors in a tuple or dictionary, to the chosen output."""
        if isinstance(value, tuple):
            return tuple(map(self._out, value))
        if isinstance(value, dict):
            return {name: self._out(one) for name, one in value.items()}
        return value.numpy(force=True) if self.options.output == "numpy" else value

    def _reset_mask(self, mask: Any) -> Tensor | None:
        """Check and convert the option `reset_mask`."""
        if mask is None:
            return None
        flags = torch.as_tensor(mask, device=self.env.device)
        if flags.dtype != torch.bool or flags.shape != (self.num_envs,) or not bool(flags.any()):
            raise UserError(f"reset_mask must be {self.num_envs} booleans, at least one of them true")
        return flags


def check_seed(seed: Any) -> int:
    """Return a seed as a number, or raise an error if it is not valid."""
    if not isinstance(seed, int | np.integer) or not 0 <= seed <= MAX_SEED:
        raise UserError(f"seed={seed} is not valid; it must be a whole number from 0 to {MAX_SEED}")
    return int(seed)
