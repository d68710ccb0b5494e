"""The interface of both physics backends: N worlds of one compiled scene as torch tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import mujoco
import torch
from torch import Tensor


@dataclass(frozen=True)
class Shapes:
    """Poses and sizes of static geoms, in the order of the scene; the meaning of a size depends on the geom type."""

    pos: Tensor  # (N, G, 3)
    quat: Tensor  # (N, G, 4)
    size: Tensor  # (N, G, 3)


@dataclass(frozen=True)
class Drive:
    """How position servos follow their targets: late, and with less torque the faster a joint turns.

    A motor's torque falls linearly from its maximum at rest to zero at its highest speed. A joint that is moved faster
    than that is braked, because the motor is then a generator. Against its motion a motor has its full torque.
    """

    target: Tensor  # (N, nu) written by the caller instead of `ctrl`
    previous: Tensor  # (N, nu) target of the control step before
    delay: Tensor  # (N,) int32 time steps of a control step in which the motors still follow `previous`
    torque: Tensor  # (nu,) N m at rest
    speed: Tensor  # (nu,) rad/s


class Batch(Protocol):
    """N worlds of one scene.

    Callers may write `ctrl` and `mocap_pos` between calls, but `qpos` and `qvel` only through `reset`. After `step` and
    `forward` the other tensors describe the current state, with two exceptions: `step(refresh=False)` does not update
    the poses, and `forward` of the Warp backend does not update `sensordata`. No tensor ever changes its address.
    """

    model: mujoco.MjModel
    num_worlds: int
    device: torch.device
    qpos: Tensor  # (N, nq)
    qvel: Tensor  # (N, nv)
    ctrl: Tensor  # (N, nu)
    mocap_pos: Tensor  # (N, nmocap, 3)
    mocap_quat: Tensor  # (N, nmocap, 4)
    time: Tensor  # (N,)
    xpos: Tensor  # (N, nbody, 3) body positions
    xquat: Tensor  # (N, nbody, 4) body orientations
    site_xpos: Tensor  # (N, nsite, 3)
    sensordata: Tensor  # (N, nsensordata)
    diverged: Tensor  # (N,) bool: the last step made this world's state or buffers invalid
    overflowed: Tensor  # (N,) bool: diverged because contact or constraint slots ran out

    def step(self, substeps: int, *, refresh: bool = True) -> None:
        """Advance every world by `substeps` time steps and refresh all tensors.

        Without `refresh`, only `qpos`, `qvel`, `time` and `sensordata` are refreshed, and `sensordata` is read within
        the last time step. This saves a forward pass when nothing else is needed.
        """
        ...

    def check(self) -> None:
        """Set `diverged` and `overflowed` from the last step."""
        ...

    def warn_of_overflow(self) -> None:
        """Warn once if worlds ran out of contact or constraint slots, and name the settings to raise."""
        ...

    def forward(self) -> None:
        """Recompute the poses that derive from `qpos` and `mocap_pos`, without advancing time.

        The CPU backend also computes `sensordata`. The Warp backend does not, because that needs a whole forward pass.
        """
        ...

    def reset(self, mask: Tensor, qpos: Tensor, qvel: Tensor) -> None:
        """Write state rows and zero time where `mask` (N,) is true; `forward` updates what derives from them."""
        ...

    def vary(self, fields: dict[str, Tensor]) -> None:
        """Set fields of the model, by MuJoCo's names, to a value per world (N, ...), and update derived constants."""
        ...

    def rewrite(self, mask: Tensor, fields: dict[str, Tensor]) -> None:
        """Set fields that `vary` has set before to other values (N, ...) where `mask` (N,) is true.

        A captured graph may contain this. The Warp backend keeps the derived constants of the last `vary`: they are a
        whole forward pass, and only scale the softness of constraints. `body_subtreemass` is the caller's to give.
        """
        ...

    def drive(self, drive: Drive) -> None:
        """Let the motors follow `drive.target` from now on. Every time step sets `ctrl` and the torque limits."""
        ...

    def place(self, mask: Tensor, shapes: Shapes) -> None:
        """Move and resize the first G geoms of the scene, which must be static, where `mask` (N,) is true."""
        ...

    def copy_layout(self, world: int, model: mujoco.MjModel) -> None:
        """Write the layout of a world's geoms into a copy of the model, for rendering."""
        ...

    def state_dict(self) -> dict[str, Tensor]:
        """Return everything that the next step depends on."""
        ...

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore what `state_dict` returned and refresh all tensors."""
        ...
