"""Episodes of another robot, before they have the sizes of a run: what the readers of `mtopt import` produce."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polytask.errors import UserError, require_known
from polytask.mtopt.config.action import ActionConfig
from polytask.mtopt.records import COMMANDED, POSE_DIM

MAX_BYTES, MAX_PIXELS = 64 * 2**20, 2**26  # of a picture


@dataclass(frozen=True)
class Incoming:
    """One episode of T actions and T + 1 frames; pictures are encoded files."""

    name: str  # for messages
    task: str  # name or sentence
    frames: Sequence[bytes]
    outcome: Sequence[bytes]  # V views of the end
    actions: NDArray[np.float32]  # (T, A)
    closed: NDArray[np.float32]  # (T + 1,)
    height: NDArray[np.float32]  # (T + 1,)
    pose: NDArray[np.float32] | None  # (T + 1, 3)
    policy: str = "import"
    seed: int = 0
    success: Mapping[str, bool] = field(default_factory=dict)  # task, by name or sentence -> what the data set states


def numbers(values: Any, shape: tuple[int | None, ...], what: str, hint: str = "") -> NDArray[np.float32]:
    """Return numbers as an array.

    Args:
        values: A list, or an array.
        shape: Its wanted shape; None means any length.
        what: Episode and field, for the message.
        hint: What the numbers are, for the message.

    Raises:
        UserError: If the shape differs, or a value is not a finite number.
    """
    try:
        array = np.asarray(values, np.float32)
    except (TypeError, ValueError) as error:
        raise UserError(f"{what} must be rows of numbers of the same length") from error
    fits = array.ndim == len(shape) and all(want in (None, size) for size, want in zip(array.shape, shape, strict=True))
    if not fits:
        wanted = " x ".join("any" if want is None else str(want) for want in shape)
        raise UserError(f"{what} has the shape {array.shape}, not {wanted}{f'; {hint}' if hint else ''}")
    if not np.isfinite(array).all():
        raise UserError(f"{what} has values that are not finite")
    return array


def hand(actions: NDArray[np.float32], values: Mapping[str, Any], what: str, layout: ActionConfig) -> dict[str, Any]:
    """Return gripper, height and pose of T + 1 frames from those that are known.

    Without `closed`, the gripper starts open and follows the commands; without `height`, it is 0 everywhere.
    """
    frames = len(actions) + 1
    closed = commanded(actions, layout) if values.get("closed") is None else values["closed"]
    height = np.zeros(frames) if values.get("height") is None else values["height"]
    pose = values.get("pose")
    return {
        "closed": numbers(closed, (frames,), f"{what}: closed"),
        "height": numbers(height, (frames,), f"{what}: height"),
        "pose": None if pose is None else numbers(pose, (frames, POSE_DIM), f"{what}: pose"),
    }


def commanded(actions: NDArray[np.float32], layout: ActionConfig) -> NDArray[np.float32]:
    """Return (T + 1,) 1 where the gripper is closed, if it starts open and follows the commands, if there are any."""
    if not {"close", "open"} <= set(layout.commands):
        return np.zeros(len(actions) + 1, np.float32)
    state, found = 0.0, [0.0]
    for closes, opens in (actions[:, [layout.entry("close"), layout.entry("open")]] > COMMANDED).tolist():
        state = 1.0 if closes else 0.0 if opens else state
        found.append(state)
    return np.array(found, np.float32)


def choose_camera(name: str | None, cameras: Sequence[str], where: str) -> str:
    """Return the camera that the user named, or the only one.

    Raises:
        UserError: If there is no such camera, or several and none is named.
    """
    if not cameras:
        raise UserError(f"{where} has no pictures")
    if name is None and len(cameras) > 1:
        raise UserError(f"{where} has {len(cameras)} cameras; name one: camera=..., of {', '.join(cameras)}")
    return cameras[0] if name is None else require_known("camera", name, cameras)


def picture(data: bytes, what: str) -> Any:
    """Decode a picture file.

    Raises:
        UserError: If it is none.
    """
    from polytask.mtopt.label.pictures import UploadLimits, decode

    try:
        return decode(data, UploadLimits(MAX_BYTES, MAX_PIXELS))
    except UserError as error:
        raise UserError(f"{what}: {error}") from error
