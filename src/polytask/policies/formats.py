"""The file formats of policies: how each is written, and how it is run again, which checks what was written.

safetensors is our own and `polytask.load_policy` reads it. The others are for programs without polytask: an ONNX model,
and a program of `torch.export`. Both take raw observations `obs` (N, O) and task numbers `task` (N,), return `action`
(N, A), and have the policy's description as JSON. Those of a walking robot also return `joint_targets` (N, A), in rad.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from polytask.errors import UserError
from polytask.policies.actor import NoiselessActor
from polytask.policies.files import SUFFIX, open_policy, save_policy
from polytask.policies.info import KEY
from polytask.policies.policy import Policy

Run = Callable[[Tensor, Tensor], Tensor]  # obs (N, O), task (N,) -> action (N, A)
TORCH_DESCRIPTION = f"{KEY}.json"  # name of the description inside a program of torch


@dataclass(frozen=True)
class FileFormat:
    """How policies are written to a file and run from it."""

    suffix: str
    write: Callable[[Path, Policy], None]
    run: Callable[[Path], Run]
    about: str


def write_onnx(path: Path, policy: Policy) -> None:
    """Write an ONNX model in one file."""
    onnx = _import("onnx")
    _import("onnxscript")  # torch's exporter needs it
    with _quiet():
        program = torch.onnx.export(
            _traced(policy), input_names=["obs", "task"], output_names=_outputs(policy), dynamo=True, verbose=False
        )
    assert program is not None
    model = program.model_proto
    model.producer_name = KEY
    for entry in (*model.graph.input, *model.graph.output):
        entry.type.tensor_type.shape.dim[0].dim_param = "N"
    onnx.helper.set_model_props(model, {KEY: policy.info.to_json()})
    onnx.save(model, path)


def run_onnx(path: Path) -> Run:
    """Return a function that runs an ONNX model on the CPU."""
    session = _import("onnxruntime").InferenceSession(path, providers=["CPUExecutionProvider"])

    def run(obs: Tensor, task: Tensor) -> Tensor:
        (action,) = session.run(["action"], {"obs": obs.numpy(), "task": task.numpy()})
        return torch.from_numpy(action)

    return run


def write_torch(path: Path, policy: Policy) -> None:
    """Write a program of `torch.export`."""
    with _quiet(), path.open("wb") as file:
        torch.export.save(_traced(policy), file, extra_files={TORCH_DESCRIPTION: policy.info.to_json()})


def run_torch(path: Path) -> Run:
    """Return a function that runs a program of `torch.export`."""
    with _quiet(), path.open("rb") as file:
        module: Any = torch.export.load(file).module()

    def run(obs: Tensor, task: Tensor) -> Tensor:
        found: Tensor | tuple[Tensor, Tensor] = module(obs, task)
        return found if isinstance(found, Tensor) else found[0]

    return run


def run_safetensors(path: Path) -> Run:
    """Return a function that runs a policy file."""
    return open_policy(path).actor


FORMATS: dict[str, FileFormat] = {
    "safetensors": FileFormat(SUFFIX, save_policy, run_safetensors, "weights, for polytask.load_policy"),
    "onnx": FileFormat(".onnx", write_onnx, run_onnx, "a model for onnxruntime"),
    "torch": FileFormat(".pt2", write_torch, run_torch, "a program for torch.export.load"),
}


class _WalkingActor(nn.Module):
    """An actor whose actions are offsets of joint angles, with these angles."""

    offsets: Tensor

    def __init__(self, actor: NoiselessActor, offsets: list[float]) -> None:
        super().__init__()
        self.actor = actor
        self.register_buffer("offsets", torch.tensor(offsets))

    def forward(self, obs: Tensor, task: Tensor) -> tuple[Tensor, Tensor]:
        """Return actions and joint targets. Both (N, A)"""
        action = self.actor(obs, task)
        return action, action + self.offsets


def _outputs(policy: Policy) -> list[str]:
    """Return the names of what an exported policy returns."""
    return ["action"] if policy.info.joint_offsets is None else ["action", "joint_targets"]


def _traced(policy: Policy) -> torch.export.ExportedProgram:
    """Record the actor for any number of observations."""
    actor, offsets = policy.actor.cpu(), policy.info.joint_offsets
    recorded = actor if offsets is None else _WalkingActor(actor, offsets)
    rows = torch.export.Dim("N", min=1)
    # Two different rows: a batch of one would be recorded as a constant.
    example = (torch.zeros(2, policy.info.obs_dim), torch.zeros(2, dtype=torch.int64))
    shapes = {"obs": {0: rows}, "task": {0: rows}}
    with _quiet():
        return torch.export.export(recorded, example, dynamic_shapes=shapes)


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide what torch's exporters say about packages that they do not need and about their own deprecated calls."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _import(name: str) -> Any:
    """Import an optional package."""
    try:
        return __import__(name)
    except ImportError as error:
        raise UserError(f"to=onnx needs an extra: pip install 'polytask[export]' ({name} is missing)") from error
