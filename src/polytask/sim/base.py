"""The protocol that both physics backends fulfil: N worlds of one compiled scene as torch tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import mujoco
import torch
from torch import Tensor


@dataclass(frozen=True)
class Shapes:
    """Poses and sizes of static geoms, in the order of the scene; the meaning of a size depends on the geom's type."""

    pos: Tensor  # (N, G, 3)
    quat: Tensor  # (N, G, 4)
    size: Tensor  # (N, G, 3)


class Batch(Protocol):
    """N worlds of one scene.

    `ctrl` and `mocap_pos` may be written between calls. `qpos` and `qvel` are written through `reset` alone. The other
    tensors are refreshed by `step` and `forward` and always describe the current state. All keep their address.
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
    site_xmat: Tensor  # (N, nsite, 3, 3)
    sensordata: Tensor  # (N, nsensordata)
    diverged: Tensor  # (N,) bool: the last step made this world's state or buffers invalid
    overflowed: Tensor  # (N,) bool: it did so because contact or constraint slots ran out

    def step(self, substeps: int, *, refresh: bool = True) -> None:
        """Advance every world by `substeps` time steps and refresh all tensors.

        Without `refresh` only `qpos`, `qvel`, `time` and `sensordata` are refreshed, the last as read within the last
        time step: whoever looks at nothing else saves a forward pass.
        """
        ...

    def check(self) -> None:
        """Set `diverged` and `overflowed` from what the last step did."""
        ...

    def warn_of_overflow(self) -> None:
        """Say once, and with the setting to raise, that worlds ran out of contact or constraint slots."""
        ...

    def forward(self) -> None:
        """Refresh what derives from `qpos` and `mocap_pos` without advancing time."""
        ...

    def reset(self, mask: Tensor, qpos: Tensor, qvel: Tensor) -> None:
        """Write state rows where `mask` (N,) holds, with zero time; what derives from them waits for `forward`."""
        ...

    def vary(self, fields: dict[str, Tensor]) -> None:
        """Give fields of the model, named as MuJoCo does, a value per world (N, ...); derived constants follow."""
        ...

    def place(self, mask: Tensor, shapes: Shapes) -> None:
        """Lay out the scene's first G geoms, which must be fixed to the world, anew where `mask` (N,) holds."""
        ...

    def copy_layout(self, world: int, model: mujoco.MjModel) -> None:
        """Write the layout of a world's geoms into a copy of the model, for pictures."""
        ...

    def state_dict(self) -> dict[str, Tensor]:
        """Return all that the next step depends on."""
        ...

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore what `state_dict` returned and refresh all tensors."""
        ...
