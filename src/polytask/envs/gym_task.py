"""One world as a `gymnasium.Env`: `gymnasium.make("polytask/reach-v0", render_mode="rgb_array")`."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray

from polytask.envs.gym import check_seed
from polytask.envs.gym_options import PictureOptions, Pictures, split_options
from polytask.envs.make import make


class GymTaskEnv(gymnasium.Env):
    """One world of one task. After an episode has ended, call `reset`."""

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"]}  # noqa: RUF012  Gymnasium asks the class

    def __init__(self, **options: Any) -> None:
        """Build the world; the options are those of `PictureOptions` and of `polytask.make`."""
        pictures, others = split_options(PictureOptions, options)
        self.env = make(num_envs=1, **{"stagger": False, **others})
        self.metadata = {**type(self).metadata, "render_fps": self.env.config.domain.control_rate}
        self.observation_space, self.action_space = self.env.observation_space, self.env.action_space
        self.render_mode = pictures.render_mode
        self._pictures = Pictures(self.env, pictures)
        self._ended = np.zeros(1, dtype=bool)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Start a new episode."""
        if seed is not None:
            self.env.seed(check_seed(seed))
        super().reset(seed=seed, options=options)
        self._ended[:] = False
        return self.env.reset()[0].numpy(force=True), {"success": False}

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Apply an action (A,). `info["success"]` tells whether the success test holds."""
        if self.render_mode is not None:
            self._pictures.remember()
        step = self.env.step(torch.as_tensor(action, dtype=torch.float32, device=self.env.device)[None])
        terminated, truncated, success = bool(step.terminated), bool(step.truncated), bool(step.success)
        self._ended[:] = terminated or truncated
        return step.next_obs[0].numpy(force=True), float(step.reward), terminated, truncated, {"success": success}

    def render(self) -> NDArray[np.uint8] | None:
        """Draw the world (H, W, 3); None without a render mode. An ended episode is shown before its last step."""
        return None if self.render_mode is None else self._pictures.draw(self._ended)[0]

    def close(self) -> None:
        """Free the world and the OpenGL context."""
        self._pictures.close()
        self.env.close()
