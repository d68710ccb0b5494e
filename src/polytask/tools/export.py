"""`polytask export`: write the policy of a run to a file for other programs, and check it against the original."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from polytask.config.compose import compose
from polytask.config.schema import ExportPolicyConfig, TrainConfig
from polytask.errors import UserError
from polytask.files import restore, write_atomically
from polytask.policies.files import save_policy
from polytask.policies.formats import FORMATS, FileFormat, Run
from polytask.policies.policy import Policy
from polytask.result import Result
from polytask.runs.checkpoint import load, locate
from polytask.runs.policy import is_file_of_policy, load_policy, policy_of
from polytask.runs.setup import build_algo, spec_of
from polytask.tools.model_card import write_card

ROWS = 64  # observations of each task in the check
SPREAD = 3.0  # how far they reach from the mean, in standard deviations
TOLERANCE, HALF_TOLERANCE = 1e-4, 0.05  # largest difference of an action, whose range is -1 to 1
# Share of the actions that may differ more if an action is the best of a few levels: where two levels are almost
# equally good, the last bit decides.
TIES = {"best_levels": 0.005}


@dataclass(frozen=True)
class Difference:
    """How the actions of two policies differ."""

    largest: float
    share: float  # of the action entries that differ by more than the tolerance
    rows: int  # observations that were compared


def export(config: ExportPolicyConfig) -> Result:
    """Run `polytask export`."""
    if config.checkpoint is None:
        raise UserError(
            "name the run to export: checkpoint=RUN, or a suite whose policy comes with polytask: checkpoint=mt10"
        )
    kind = FORMATS[config.to]
    path = Path(config.output or f"policy{kind.suffix}").expanduser()
    if path.suffix != kind.suffix:
        raise UserError(f"output={config.output} must end in {kind.suffix}, which to={config.to} writes")
    if not path.parent.is_dir():
        raise UserError(f"there is no folder '{path.parent}' to write the policy to")
    policy, original, saved = source_of(config.checkpoint)
    if config.card and saved is None:
        raise UserError("card=true describes a run; this policy is a file already")
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / f"policy{kind.suffix}"
        write(written, policy, kind, half=config.half)
        found = compare(original, kind.run(written), policy, tolerance_of(config))
        check(found, config, policy)
        write_atomically(path, lambda part: shutil.copyfile(written, part))
    size = path.stat().st_size
    lines = [
        f"policy: {path} ({size / 1e6:.2f} MB, {len(policy.tasks)} tasks)",
        f"largest difference from the original: {found.largest:.2g} over {found.rows} observations",
    ]
    payload: dict[str, Any] = {
        "output": str(path),
        "to": config.to,
        "bytes": size,
        "largest_difference": found.largest,
        "differing_share": found.share,
        "observations": found.rows,
        "tasks": list(policy.tasks),
    }
    if config.card and saved is not None:
        card = write_card(path, saved, config)
        payload["card"] = str(path.with_suffix(".json"))
        lines.append(f"card: {payload['card']} (success {card['mean_success']:.3f})")
    return Result(payload, lines=lines)


def source_of(name: str) -> tuple[Policy, Run, dict[str, Any] | None]:
    """Return the policy to export, how the original acts, and the settings of its run.

    A policy file, or a policy that comes with the package, has no run here: it is its own original.
    """
    if is_file_of_policy(name):
        return load_policy(name), load_policy(name).actor, None
    state, source = load(name), locate(name)
    return policy_of(state, source), original_of(state, source), state["config"]


def write(path: Path, policy: Policy, kind: FileFormat, *, half: bool) -> None:
    """Write a policy in a format; only safetensors can be halved, which `ExportPolicyConfig` checks."""
    if half:
        save_policy(path, policy, half=True)
    else:
        kind.write(path, policy)


def original_of(state: dict[str, Any], source: Path) -> Run:
    """Build the algorithm of a checkpoint, and return how it acts without noise, in float32."""
    config: TrainConfig = compose(TrainConfig, [], saved=state["config"])
    if getattr(config.algo, "bf16", False):  # a choice of speed, which the exported policy does not have
        config.algo = replace(config.algo, bf16=False)
    spec = spec_of(state)
    algo = build_algo(config, spec, torch.device("cpu"))
    saved = dict(state["algo"])
    if "experience" in saved:  # without the replay buffer, which may be as large as the memory
        saved["experience"] = {name: value for name, value in saved["experience"].items() if name != "replay"}
    restore(algo, saved, "algorithm")
    # The exported policy has only what a robot measures. The rest, which the policy does not read, is zero.
    return lambda obs, task: algo.act(pad(obs, (0, spec.obs_dim - obs.shape[-1])), task, explore=False)


def tolerance_of(config: ExportPolicyConfig) -> float:
    """Return the largest difference of an action that is accepted."""
    if config.tolerance is not None:
        return config.tolerance
    return HALF_TOLERANCE if config.half else TOLERANCE


def observations(policy: Policy) -> tuple[Tensor, Tensor]:
    """Draw observations (K * ROWS, O) around those that the policy was trained on, and their tasks."""
    actor, generator = policy.actor, torch.Generator().manual_seed(0)
    task = torch.arange(len(policy.tasks)).repeat_interleave(ROWS)
    noise = torch.randn(len(task), policy.info.obs_dim, generator=generator)
    return actor.mean[task] + SPREAD * noise / actor.scale[task], task


@torch.no_grad()
def compare(original: Run, exported: Run, policy: Policy, tolerance: float) -> Difference:
    """Compare the actions of two policies, also one observation at a time, as a robot has them."""
    obs, task = observations(policy)
    gap = (exported(obs, task) - original(obs, task)).abs()
    one = (exported(obs[:1], task[:1]) - original(obs[:1], task[:1])).abs()
    both = torch.cat([gap, one])
    return Difference(both.max().item(), (both > tolerance).float().mean().item(), len(obs))


def check(found: Difference, config: ExportPolicyConfig, policy: Policy) -> None:
    """Refuse a file whose actions differ from the original's.

    Raises:
        UserError: If too many do.
    """
    if found.share > TIES.get(policy.info.decode, 0.0):
        raise UserError(
            f"the exported policy differs from the original by up to {found.largest:.2g} in {found.share:.1%} of the "
            f"actions, more than tolerance={tolerance_of(config):g}; nothing was written"
        )
