"""The spaces of an environment in Gymnasium's words."""

from __future__ import annotations

import numpy as np
from gymnasium.spaces import Box

from polytask.types import EnvSpec


def observation_space(spec: EnvSpec, codes: int = 0) -> Box:
    """Return the space of the observation of one world, with `codes` entries for the task at its end."""
    size = spec.obs_dim
    low, high = np.full(size + codes, -np.inf, np.float32), np.full(size + codes, np.inf, np.float32)
    low[size:], high[size:] = 0.0, 1.0
    return Box(low, high, dtype=np.float32)


def action_space(spec: EnvSpec) -> Box:
    """Return the space of the action of one world."""
    return Box(-1.0, 1.0, (spec.action_dim,), np.float32)
