"""What `init_from` names: a finished run, a policy file, or a suite whose policy comes with the package.

A policy file has the network that acts and the statistics of its observations. It has no critic and no noise, so those
of the new run are newly initialized.
"""

from __future__ import annotations

from typing import Any

import torch

from polytask.config.schema import TrainConfig
from polytask.policies.policy import Policy
from polytask.runs.checkpoint import load
from polytask.runs.policy import is_file_of_policy, layout_of_actor, load_policy


def load_start(config: TrainConfig) -> dict[str, Any] | None:
    """Return the state that `initialize` reads, or None if the run starts from nothing.

    Raises:
        UserError: If there is no such run or policy, or its file is damaged.
    """
    name = config.init_from
    if name is None:
        return None
    return state_of(load_policy(name), config) if is_file_of_policy(name) else load(name)


def state_of(policy: Policy, config: TrainConfig) -> dict[str, Any]:
    """Return a policy in the form of a checkpoint of the algorithm that is to start from it."""
    layout, weights = layout_of_actor(config), policy.actor.state_dict()
    net = {
        f"{layout.prefix}{name.removeprefix('net.')}": tensor
        for name, tensor in weights.items()
        if name.startswith("net.")
    }
    mean, scale = weights["mean"].double(), weights["scale"].double()  # (K, O)
    # Statistics of all tasks together are stored as equal rows, one per task. Others do not fit, and are not loaded.
    is_shared = bool((mean == mean[:1]).all() and (scale == scale[:1]).all())
    if is_shared and getattr(config.algo, "normalize", "per_task") == "shared":
        mean, scale = mean[:1], scale[:1]
    count = torch.full((len(mean),), config.init_rows, dtype=torch.float64)  # a file does not have its own
    statistics = {"count": count, "mean": mean, "variance": scale.pow(-2)}
    return {
        "spec": {"tasks": policy.tasks},
        "algo": {"learners": {layout.learner: {"net": net}}, "obs_norm": statistics},
        "demonstrations": policy.info.run.get("demonstrations"),
    }
