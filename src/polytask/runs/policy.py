"""Load a trained policy: from the checkpoint of a run, from a policy file, or one that comes with the package."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from polytask.algos.shared.actor_layout import ActorLayout
from polytask.algos.shared.normalize import SharedNormalizer, TaskNormalizer
from polytask.config.compose import compose, to_plain
from polytask.config.saved import upgrade
from polytask.config.schema import BenchConfig, PolicyConfig, TrainConfig
from polytask.envs.layouts import layout_of
from polytask.envs.options import WorldOptions
from polytask.envs.suites import SUITES
from polytask.errors import UserError
from polytask.files import exists, read_json
from polytask.plugins.needs import WORLDS
from polytask.policies.actor import NoiselessActor, load_weights
from polytask.policies.files import SUFFIX, open_info, open_policy
from polytask.policies.info import PolicyInfo
from polytask.policies.policy import Policy
from polytask.policies.pretrained import find_pretrained
from polytask.runs.checkpoint import load, load_to_act, locate, require_no_name
from polytask.runs.file_names import SUMMARY_FILE
from polytask.runs.transfer import saved_parts

# The options of the worlds that a policy was trained in, and that another evaluation of it should have, too.
WORLD_OPTIONS = ("robot", "episode_length", "reward", "goals", "levels", "scan", "reality", "privileged")


def load_policy(path_or_name: str | Path, device: torch.device | str = "cpu") -> Policy:
    """Load a trained policy, which needs no simulator.

    Args:
        path_or_name: A run directory, a checkpoint file, a policy file (`polytask export to=safetensors`), or the name
            of a suite whose policy comes with the package.
        device: Device of the policy.

    Returns:
        A function `policy(obs, task)` that returns actions without noise, see `Policy`.

    Raises:
        UserError: If there is no such policy, or its file is damaged.
    """
    if is_name(path_or_name):
        return open_policy(find_pretrained(str(path_or_name)), device)
    path = Path(path_or_name).expanduser()
    if path.suffix == SUFFIX:
        return open_policy(path, device)
    return policy_of(load_to_act(path, without=WORLDS), locate(path), device)


def is_name(path_or_name: str | Path) -> bool:
    """Return whether this names a suite, whose policy comes with the package, and no file or folder."""
    return isinstance(path_or_name, str) and path_or_name in SUITES and not exists(Path(path_or_name))


def is_file_of_policy(path_or_name: str | Path) -> bool:
    """Return whether `load_policy` reads this from a policy file, not from a run."""
    return is_name(path_or_name) or Path(path_or_name).suffix == SUFFIX


def policy_file(config: PolicyConfig | BenchConfig) -> Path | None:
    """Return the policy file that acts: that of `policy=pretrained`, or `checkpoint=`, if it is one."""
    if config.checkpoint is not None:
        require_no_name(config.checkpoint, "policy=pretrained suite={}")
        path = Path(config.checkpoint).expanduser()
        return path if path.suffix == SUFFIX else None
    if config.policy != "pretrained":
        return None
    task = getattr(config, "task", None)  # of `polytask record`
    return find_pretrained(config.suite, config.tasks if task is None else [task])


def saved_settings(config: PolicyConfig | BenchConfig) -> dict[str, Any] | None:
    """Return the settings that come with a policy: those of a run, or those of the worlds of a policy file.

    What a parkour run added to the benchmark's training (`tuning`) is for its training only.
    """
    file = policy_file(config)
    if file is None:
        if config.checkpoint is None:
            return None
        is_training = isinstance(config, TrainConfig)  # `polytask bench` builds all that the run has
        saved = (load if is_training else load_to_act)(config.checkpoint)["config"]
        return {name: value for name, value in saved.items() if name != "tuning"}
    info = open_info(file)
    if config.checkpoint is None:  # its tasks were asked for
        return info.worlds
    suite = info.run.get("suite")
    return {**info.worlds, **({"tasks": list(info.tasks)} if suite is None else {"suite": suite})}


def policy_of(state: dict[str, Any], path: Path, device: torch.device | str = "cpu") -> Policy:
    """Build the policy of a checkpoint.

    Args:
        state: The checkpoint.
        path: Its file, for messages and for the summary of the run beside it.
        device: Device of the policy.

    Raises:
        UserError: If the algorithm does not say where its policy is.
    """
    # Without the plug-ins of its worlds, the names of suite and robot would be unknown.
    known = {"suite": TrainConfig.suite, "tasks": list(state["spec"]["tasks"]), "robot": None}
    config: TrainConfig = compose(TrainConfig, [], saved={**state["config"], **known})
    layout = layout_of_actor(config)
    info = describe(config, layout, state, path)
    actor = NoiselessActor(info)
    parts = saved_parts(state["algo"])
    tensors = weights_of(parts, layout, path)
    load_weights(actor, tensors | statistics_of(parts, config, info, state["spec"], path), str(path))
    return Policy(info, actor, device)


def layout_of_actor(config: TrainConfig) -> ActorLayout:
    """Return where an algorithm has its actor."""
    if not hasattr(config.algo, "actor_layout"):
        raise UserError(f"algo={config.algo.name} does not say where its policy is: its config has no 'actor_layout'")
    layout: ActorLayout = config.algo.actor_layout()
    return layout


def demonstrations_of(config: PolicyConfig) -> dict[str, int] | None:
    """Return how many episodes of each task the policy that a config names was shown before its training, if any."""
    if (file := policy_file(config)) is not None:
        return open_info(file).run.get("demonstrations")
    return None if config.checkpoint is None else load_to_act(config.checkpoint).get("demonstrations")


def weights_of(parts: dict[str, dict[str, Tensor]], layout: ActorLayout, path: Path) -> dict[str, Tensor]:
    """Return the weights of the actor's network, by the names of `NoiselessActor`."""
    saved = parts.get(layout.learner)
    if saved is None:
        raise UserError(f"'{path}' is damaged: it has no learner '{layout.learner}'")
    return {
        f"net.{name.removeprefix(layout.prefix)}": tensor
        for name, tensor in saved.items()
        if name.startswith(layout.prefix)
    }


def statistics_of(
    parts: dict[str, dict[str, Tensor]],
    config: TrainConfig,
    info: PolicyInfo,
    spec: Mapping[str, Any],
    path: Path,
) -> dict[str, Tensor]:
    """Return what the actor subtracts from observations and multiplies them by, (K, O) each.

    Args:
        parts: The tensors of the checkpoint, by the part of the algorithm.
        config: The settings of the run.
        info: What the policy is.
        spec: The spec of the worlds: sizes, and the factors of `normalize=fixed`.
        path: The checkpoint, for messages.
    """
    kind, floor = getattr(config.algo, "normalize", "per_task"), getattr(config.algo, "min_obs_std", 0.0)
    tasks, width = len(info.tasks), spec["obs_dim"]  # a critic may see more than the policy
    seen = slice(info.obs_dim)
    if kind in ("fixed", "none"):
        scale = torch.tensor(spec.get("obs_scale", ()))[seen] if kind == "fixed" else torch.ones(info.obs_dim)
        return {"mean": torch.zeros(tasks, len(scale)), "scale": scale.expand(tasks, -1)}
    norm = SharedNormalizer(width, min_std=floor) if kind == "shared" else TaskNormalizer(tasks, width, min_std=floor)
    try:
        norm.load_state_dict(parts.get("obs_norm", {}))
    except RuntimeError as error:
        raise UserError(f"'{path}' is damaged: its statistics of the observations do not fit") from error
    found = {"mean": norm.mean, "scale": norm.scale()}
    return {name: statistic[:, seen].float().expand(tasks, -1) for name, statistic in found.items()}


def describe(config: TrainConfig, layout: ActorLayout, state: dict[str, Any], path: Path) -> PolicyInfo:
    """Describe the policy of a checkpoint."""
    spec, saved = state["spec"], upgrade(state["config"])
    obs_dim = spec.get("actor_dim") or spec["obs_dim"]
    words = layout_of(obs_dim, spec["action_dim"], config.reality.history, has_foot_scan=config.scan.feet)
    worlds = worlds_of(saved, is_apart=spec.get("actor_dim") is not None)
    beside = path.with_name(SUMMARY_FILE)
    summary = read_json(beside, "summary of a run", {}) if exists(beside) else {}
    run = {
        "name": path.resolve().parent.name,
        "seed": config.seed,
        "suite": None if saved.get("tasks") else saved.get("suite"),
        "iterations": state["iteration"],
        "frames": state.get("frames"),
        "seconds": state["seconds"],
        **{name: summary.get(name) for name in ("version", "commit", "device")},
    }
    if state.get("demonstrations"):
        run["demonstrations"] = state["demonstrations"]
    return PolicyInfo(
        tasks=tuple(spec["tasks"]),
        obs_dim=obs_dim,
        action_dim=spec["action_dim"],
        out_dim=layout.outputs * spec["action_dim"],
        net=to_plain(config.net),
        decode=layout.decode,
        obs_clip=config.algo.obs_clip,
        algo=config.algo.name,
        robot=saved.get("robot") or (words.robot if words else None),
        observation=words.observation() if words else [],
        action=words.entries() if words else [],
        control_rate=words.control_rate if words else None,
        worlds=worlds,
        run=run,
        plugins={what: origin for what, origin in (state.get("plugins") or {}).items() if what.startswith("net ")},
    )


def worlds_of(saved: Mapping[str, Any], *, is_apart: bool) -> dict[str, Any]:
    """Return the options of worlds for a policy: those of its run that differ from the defaults.

    Args:
        saved: The settings of the run.
        is_apart: The policy sees only what a robot measures, so its worlds need not show more.
    """
    default = to_plain(WorldOptions())
    worlds = {
        name: value for name in WORLD_OPTIONS if (value := saved.get(name)) is not None and value != default[name]
    }
    return {**worlds, "privileged": "none"} if is_apart else worlds
