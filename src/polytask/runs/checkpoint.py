"""The checkpoint of a run: one file with everything that is needed to continue.

It contains only tensors and plain values. So opening a file from an untrusted source runs no code in it. A checksum
protects the whole file. A checkpoint whose networks are not finite is refused, since nothing can be learned from it.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from torch import Tensor

from polytask.config.compose import groups_of
from polytask.config.schema import TrainConfig
from polytask.errors import UserError
from polytask.files import Fields, can_read, check_fields, exists, load_tensors, save_tensors
from polytask.plugins.needs import ORIGINS, require_plugins
from polytask.policies.pretrained import pretrained
from polytask.runs.changes import CHANGE_FIELDS
from polytask.runs.divergence import not_finite
from polytask.runs.file_names import CHECKPOINT_FILE
from polytask.runs.transfer import shorten

FOREIGN = (".onnx", ".pt2")  # exports for other programs
FORMAT = 1  # increased when the layout of the file changes
FIELDS: Fields = {
    "config": dict,
    "plugins": dict | None,  # those that the run needs; earlier versions did not save them
    "spec": {
        "obs_dim": int,
        "action_dim": int,
        "tasks": [str],
        "envs_per_task": [int],
        "episode_length": int,
        "obs_scale": list | tuple | None,  # earlier versions did not save this
        "actor_dim": int | None,  # nor this
        "places": list | tuple | None,  # nor this
    },
    "algo": {"learners": dict},
    "env": dict,  # of several ranks: {"ranks": [their environments]}
    "ranks": int | None,  # of a single process: missing
    "window": dict,
    "history": dict | None,  # of a run that keeps one
    "iteration": int,
    "frames": int | None,  # version 0.1 did not save them
    "seconds": float,
    "initialization": dict | None,
    "runs_on_device": int | None,
    "demonstrations": dict | None,  # of a run that began with some: episodes of each task
    "changes": list | None,  # of the settings since the start; earlier versions did not save them
}
LEARNER_FIELDS: Fields = {"net": dict, "optimizer": dict, "grads": dict | None}
INITIALIZATION_FIELDS: Fields = {
    "checkpoint": str,
    "loaded": list,
    "partly": list,
    "fresh": list,
    "unused": list,
    "remark": str,
    "demonstrations": dict | None,
}


def locate(path: str | Path) -> Path:
    """Return the checkpoint file for a path to a file or to a run directory.

    Raises:
        UserError: If there is none. For a folder that contains runs, the line names them.
    """
    given = Path(path).expanduser()
    with can_read(given):
        is_folder = given.is_dir()
        if given.suffix in FOREIGN and not is_folder:
            raise UserError(f"'{given}' is for other programs; load the run, or export it with to=safetensors")
        file = given / CHECKPOINT_FILE if is_folder else given
        if not file.is_file():
            raise UserError(f"no checkpoint at '{file}'{_runs_inside(given) if is_folder else ''}")
    return file


def require_no_name(path: str | Path, instead: str) -> None:
    """Check that a path is not the name of a policy that comes with the package, unless there is such a file.

    Args:
        path: What the user gave as checkpoint.
        instead: The words that use the policy, with {} for its name.

    Raises:
        UserError: If it is.
    """
    if str(path) in pretrained() and not exists(Path(path)):
        raise UserError(f"no checkpoint at '{path}', which is a pretrained policy: use {instead.format(path)}")


def _runs_inside(folder: Path) -> str:
    """Say which runs a folder contains, directly or, as that of a sweep, one level deeper."""
    found = sorted(folder.glob(f"*/{CHECKPOINT_FILE}")) or sorted(folder.glob(f"*/*/{CHECKPOINT_FILE}"))
    names = ", ".join(str(file.parent) for file in found[:3])
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    return f"; name one of the runs in this folder: {names}{more}" if found else ""


def save(path: Path, state: dict[str, Any]) -> None:
    """Write a checkpoint to `path`, atomically."""
    save_tensors(path, {"format": FORMAT, **state})


def load(path: str | Path, without: Collection[str] = ()) -> dict[str, Any]:
    """Read a checkpoint into CPU tensors and plain values.

    Args:
        path: A file or a run directory.
        without: Kinds of plug-ins that are not needed, see `require_plugins`.

    Raises:
        UserError: If there is no checkpoint, it cannot be read, it is damaged, its networks are not finite, or a
            plug-in that it needs is not loaded.
    """
    file = locate(path)
    state = load_tensors(file, "polytask checkpoint", format=FORMAT)
    check_fields(state, FIELDS, file)
    check_settings(state["config"], file, "config.")
    plugins = state.get("plugins") or {}
    check_fields(plugins, dict.fromkeys(plugins, str), file, "plugins.")
    require_plugins(plugins, file, without)
    worlds = state["spec"]["envs_per_task"]
    if len(worlds) != len(state["spec"]["tasks"]) or min(worlds, default=0) < 1:
        raise UserError(f"'{file}' is damaged: field 'spec.envs_per_task' must have a positive number for every task")
    if state.get("ranks") is not None:
        check_fields(state["env"], {"ranks": [dict]}, file, "env.")
        if len(state["env"]["ranks"]) != state["ranks"]:
            raise UserError(f"'{file}' is damaged: field 'env.ranks' must have {state['ranks']} entries")
    learners = state["algo"]["learners"]
    check_fields(learners, dict.fromkeys(learners, LEARNER_FIELDS), file, "algo.learners.")
    for name, learner in learners.items():
        check_fields(learner["net"], dict.fromkeys(learner["net"], Tensor), file, f"algo.learners.{name}.net.")
        moments = dict.fromkeys(learner["optimizer"], dict)
        check_fields(learner["optimizer"], moments, file, f"algo.learners.{name}.optimizer.")
    if state.get("initialization") is not None:
        check_fields(state["initialization"], INITIALIZATION_FIELDS, file, "initialization.")
    shown = state.get("demonstrations") or {}
    check_fields(shown, dict.fromkeys(shown, int), file, "demonstrations.")
    if state.get("changes"):
        check_fields(state, {"changes": [CHANGE_FIELDS]}, file)
    if names := not_finite(state["algo"]):
        raise UserError(f"'{file}' holds non-finite weights ({shorten(names)}); use an older checkpoint")
    return state


def load_to_act(path: str | Path, without: Collection[str] = ()) -> dict[str, Any]:
    """Read a checkpoint whose policy only acts, which needs no gradient method.

    That of a plug-in that is not loaded is replaced by the default, so that the algorithm can be built.

    Args:
        path: A file or a run directory.
        without: Other kinds of plug-ins that are not needed, see `require_plugins`.

    Raises:
        UserError: As `load`.
    """
    state = load(path, ("grads", *without))
    name = state["config"]["grads"]["name"]
    if f"grads {name}" in (state.get("plugins") or {}) and ("grads", name) not in ORIGINS:
        state["config"] = {**state["config"], "grads": {"name": TrainConfig.grads}}
    return state


def check_settings(settings: dict[str, Any], path: Path, inside: str = "") -> None:
    """Check the fields of saved settings that are read before the settings are composed.

    Raises:
        UserError: If a field is missing or has another type.
    """
    # A group contains the name of the chosen option. In version 0.1 suite and robot were groups, too.
    groups = {name for name in groups_of(TrainConfig) if settings.get(name) is not None}
    old = {name for name in ("suite", "robot") if isinstance(settings.get(name), dict)}
    for name in sorted({"algo", "net", "grads"} | groups | old):
        check_fields(settings, {name: {"name": str}}, path, inside)


def saved_settings(config: Any) -> dict[str, Any] | None:
    """Return the settings of the run that a command continues or uses, if it names one."""
    if config.checkpoint is None:
        return None
    require_no_name(config.checkpoint, "init_from={}")
    settings: dict[str, Any] = load(config.checkpoint)["config"]
    return settings
