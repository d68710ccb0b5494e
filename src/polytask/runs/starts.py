"""What `init_from` names: a finished run, a policy file, or a suite whose policy comes with the package.

A policy file has the network that acts and the statistics of its observations. It has no critic and no noise, so those
of the new run are newly initialized.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from polytask.config.compose import to_plain
from polytask.config.schema import TrainConfig
from polytask.envs.make import DOMAINS
from polytask.envs.tasks import TASKS
from polytask.errors import UserError
from polytask.policies.policy import Policy
from polytask.runs.changes import text_of
from polytask.runs.checkpoint import load
from polytask.runs.policy import is_file_of_policy, layout_of_actor, load_policy
from polytask.runs.transfer import Initialization, initialize
from polytask.types import Algo


def load_start(config: TrainConfig) -> dict[str, Any] | None:
    """Return the state that `initialize` reads, or None if the run starts from nothing.

    Raises:
        UserError: If there is no such run or policy, or its file is damaged.
    """
    name = config.init_from
    if name is None:
        return None
    state = state_of(load_policy(name), config) if is_file_of_policy(name) else load(name)
    old, new = (_kind(tasks) for tasks in (state["spec"]["tasks"], config.task_names))
    if None not in (old, new) and old != new:
        raise UserError(f"{name} was trained in {old}, and this run is {new}: init_from needs a run of the same kind")
    return state


def _kind(tasks: Sequence[str]) -> str | None:
    """Return the domain of tasks; None if no such task is known, because its plug-in is not loaded."""
    return next((DOMAINS[type(TASKS[task])].name for task in tasks if task in TASKS), None)


def begin(algo: Algo, tasks: Sequence[str], state: dict[str, Any], config: TrainConfig) -> Initialization:
    """Initialize an algorithm with what `load_start` returned.

    Raises:
        UserError: If no layer of any network fits. The message says which setting of the network differs, if one does.
    """
    source = str(config.init_from)
    try:
        return initialize(algo, tasks, state, source, config.init_rows)
    except UserError as error:
        old, new = state["config"]["net"], to_plain(config.net)
        key = next((key for key in ("name", *new) if key in old and text_of(old[key]) != text_of(new.get(key))), None)
        if key is None:
            raise
        word = "net" if key == "name" else f"net.{key}"
        had, now = (f"{word}={text_of(net.get(key))}" for net in (old, new))
        raise UserError(f"{source} has {had}, this run {now}; use {had}") from error


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
        "config": {"net": policy.info.net},
        "spec": {"tasks": policy.tasks},
        "algo": {"learners": {layout.learner: {"net": net}}, "obs_norm": statistics},
        "demonstrations": policy.info.run.get("demonstrations"),
    }
