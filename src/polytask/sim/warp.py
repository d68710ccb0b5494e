"""The GPU backend: MuJoCo Warp, one captured CUDA graph per batch, zero-copy torch views of Warp's arrays.

Warp captures the physics graph, because its solver loops on a condition that only Warp can capture. Torch captures
everything else. Both run on torch's current stream. On the CPU device, which is for tests, nothing is captured. Two GPU
runs with the same seed may differ in the last bits; only the CPU backend is bit-exact.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import mujoco
import mujoco_warp as mjw
import torch
import warp as wp
from torch import Tensor

from polytask.cuda_graph import no_collection
from polytask.sim.base import Drive, Shapes
from polytask.sim.config import WarpSettings
from polytask.sim.geometry import rotation_matrix
from polytask.sim.kernels import is_recording  # also initializes Warp
from polytask.sim.pair_types import with_shared_pairs

_INVALID = int(
    mjw.OverflowType.NEFC
    | mjw.OverflowType.NJMAX_NNZ
    | mjw.OverflowType.BROADPHASE
    | mjw.OverflowType.NARROWPHASE
    | mjw.OverflowType.CCD
)
_STATE = ("qpos", "qvel", "ctrl", "mocap_pos", "mocap_quat", "time", "qacc_warmstart")
# The search for close pairs is compiled for the number of rows of these fields. So they get a number of rows that many
# sizes of a batch have in common; a batch reads only as many as it has worlds.
_COUNTED = ("geom_aabb", "geom_rbound", "geom_margin", "geom_gap")
_ROWS = 2**16
# Constants of the model that derive from masses and centres of mass.
_DERIVED = ("body_subtreemass", "body_invweight0", "dof_invweight0", "actuator_acc0")


@wp.kernel  # type: ignore[untyped-decorator]  # Warp is not typed
def _replace_non_finite(broken: wp.array[bool], rows: wp.array2d[float]) -> None:
    """Set non-finite entries of broken worlds to zero; launched with (N, width) threads."""
    world, entry = wp.tid()  # type: ignore[misc]  # the number of results depends on the launch
    if broken[world] and not wp.isfinite(rows[world, entry]):
        rows[world, entry] = 0.0


@wp.kernel  # type: ignore[untyped-decorator]  # Warp is not typed
def _prepare_motors(  # noqa: PLR0913  # a kernel takes its arrays one by one
    index: int,
    dofs: wp.array[int],
    target: wp.array2d[float],
    previous: wp.array2d[float],
    delay: wp.array[int],
    torque: wp.array[float],
    speed: wp.array[float],
    qvel: wp.array2d[float],
    ctrl: wp.array2d[float],
    limits: wp.array2d[wp.vec2],
) -> None:
    """Set targets and torque limits for the time step `index` of a control step; launched with (N, nu) threads."""
    world, motor = wp.tid()  # type: ignore[misc]  # the number of results depends on the launch
    if index < delay[world]:
        ctrl[world, motor] = previous[world, motor]
    else:
        ctrl[world, motor] = target[world, motor]
    share = qvel[world, dofs[motor]] / speed[motor]
    low = -torque[motor] * wp.clamp(1.0 + share, -1.0, 1.0)
    high = torque[motor] * wp.clamp(1.0 - share, -1.0, 1.0)
    limits[world, motor] = wp.vec2(low, high)


class WarpBatch:
    """N worlds on MuJoCo Warp; implements `sim.base.Batch`."""

    def __init__(self, model: mujoco.MjModel, num_worlds: int, device: torch.device, config: WarpSettings) -> None:
        """Create the worlds in the scene's initial state."""
        self.model = model
        self.num_worlds = num_worlds
        self.device = device
        limited = copy.copy(model)
        limited.opt.iterations = config.iterations
        limited.opt.ls_iterations = config.line_search_iterations
        limited.opt.ccd_tolerance = config.collision_tolerance
        with self.on_stream():
            self.warp_model = mjw.put_model(limited)
            # This flag selects the collision of two boxes that MuJoCo has on the CPU. Otherwise Warp finds the contacts
            # of two boxes by a search for convex bodies, which takes longer and gives other contacts.
            self.warp_model.opt.disableflags |= int(mjw.DisableBit.NATIVECCD)
            self.warp_model.geom_pair_type_count = with_shared_pairs(self.warp_model.geom_pair_type_count)
            self.warp_model.opt.warn_overflow = 0  # `diverged` reports overflows, so kernels need not print them
            self.warp_data = mjw.make_data(
                model,
                nworld=num_worlds,
                nconmax=config.contacts_per_world,
                njmax=config.constraints_per_world,
            )
        data = self.warp_data
        self.qpos, self.qvel, self.time = wp.to_torch(data.qpos), wp.to_torch(data.qvel), wp.to_torch(data.time)
        self.ctrl = wp.to_torch(data.ctrl)
        self.mocap_pos, self.mocap_quat = wp.to_torch(data.mocap_pos), wp.to_torch(data.mocap_quat)
        self.xpos, self.xquat = wp.to_torch(data.xpos), wp.to_torch(data.xquat)
        self.site_xpos = wp.to_torch(data.site_xpos)
        self.sensordata = wp.to_torch(data.sensordata)
        self._geom_xpos, self._geom_xmat = wp.to_torch(data.geom_xpos), wp.to_torch(data.geom_xmat)
        self.qacc_warmstart = wp.to_torch(data.qacc_warmstart)
        self.overflow = wp.to_torch(data.overflow)  # (N,) bits of mjw.OverflowType of the last step
        self.diverged = torch.zeros(num_worlds, dtype=torch.bool, device=device)
        self._config = config
        self.overflowed = torch.zeros_like(self.diverged)
        self._ever_overflowed = torch.zeros((), dtype=torch.bool, device=device)
        self._warned = False
        self._any_diverged = torch.zeros(1, dtype=torch.int32, device=device)
        self._memory = [*_float_rows(data, num_worlds), *_float_rows(data.efc, num_worlds)]
        self._graphs: dict[tuple[int, bool], wp.Graph] = {}
        self._motors: tuple[wp.array, ...] = ()  # of a `Drive`, with what it reads and writes
        self._varied: dict[str, Tensor] = {}  # fields of the model that have a value per world
        kinds = torch.from_numpy(model.geom_type.copy())[:, None].to(device)
        self._is_box = kinds == int(mujoco.mjtGeom.mjGEOM_BOX)  # (ngeom, 1)
        self._is_capsule = kinds == int(mujoco.mjtGeom.mjGEOM_CAPSULE)
        self.forward()

    def step(self, substeps: int, *, refresh: bool = True) -> None:
        """Advance every world by `substeps` time steps; refresh all tensors or, without `refresh`, the state only."""
        with self.on_stream():
            if self.device.type != "cuda" or is_recording():
                self._advance(substeps, refresh)
            else:
                key = (substeps, refresh)
                if key not in self._graphs:
                    self._graphs[key] = self._capture(substeps, refresh)
                wp.capture_launch(self._graphs[key])

    def check(self) -> None:
        """Set `diverged` and `overflowed` from the last step; separate from `step`, so that torch can capture it."""
        finite = torch.isfinite(self.qpos).all(-1) & torch.isfinite(self.qvel).all(-1)
        torch.ne(self.overflow & _INVALID, 0, out=self.overflowed)
        self._ever_overflowed.logical_or_(self.overflowed.any())
        torch.logical_or(~finite, self.overflowed, out=self.diverged)
        self._any_diverged.copy_(self.diverged.any())

    def warn_of_overflow(self) -> None:
        """Warn once if worlds ran out of contact or constraint slots, and name the settings to raise."""
        if not self._warned and bool(self._ever_overflowed):
            self._warned = True
            warnings.warn(
                "worlds ran out of contact or constraint slots and were reset; "
                f"raise sim.contacts_per_world={self._config.contacts_per_world} "
                f"or sim.constraints_per_world={self._config.constraints_per_world}",
                RuntimeWarning,
                stacklevel=2,
            )

    def forward(self) -> None:
        """Refresh poses without advancing time; sensors keep the values of the last step."""
        with self.on_stream():
            mjw.kinematics(self.warp_model, self.warp_data)

    def reset(self, mask: Tensor, qpos: Tensor, qvel: Tensor) -> None:
        """Write state rows and zero time where `mask` (N,) is true."""
        rows = mask[:, None]
        self.qpos.copy_(torch.where(rows, qpos, self.qpos))
        self.qvel.copy_(torch.where(rows, qvel, self.qvel))
        self.qacc_warmstart.masked_fill_(rows, 0.0)
        self.time.masked_fill_(mask, 0.0)

    def vary(self, fields: dict[str, Tensor]) -> None:
        """Set model fields to a value per world and update the constants that derive from them."""
        with self.on_stream():
            for name, values in fields.items():
                self.per_world(name).copy_(values)
            for name in _DERIVED:
                self.per_world(name)
            mjw.set_const(self.warp_model, self.warp_data, mjw.SetConstGroup.FIXED | mjw.SetConstGroup.INERT0)

    def rewrite(self, mask: Tensor, fields: dict[str, Tensor]) -> None:
        """Set model fields where `mask` is true; only their own memory changes, so a graph may contain this."""
        for name, values in fields.items():
            tensor = self.per_world(name)
            tensor.copy_(torch.where(mask.view(-1, *[1] * (values.dim() - 1)), values, tensor))

    def drive(self, drive: Drive) -> None:
        """Let the motors follow `drive.target` from now on."""
        dofs = torch.from_numpy(self.model.jnt_dofadr[self.model.actuator_trnid[:, 0]].copy()).to(self.device)
        tensors = (dofs, drive.target, drive.previous, drive.delay, drive.torque, drive.speed, self.qvel, self.ctrl)
        limits = self.per_world("actuator_forcerange")
        self._motors = (*(wp.from_torch(tensor) for tensor in tensors), wp.from_torch(limits, dtype=wp.vec2))
        self._graphs.clear()  # they do without it

    def place(self, mask: Tensor, shapes: Shapes) -> None:
        """Move and resize the first geoms and their bounds where `mask` is true; Warp never updates static geoms."""
        count = shapes.pos.shape[1]
        is_box, is_capsule = self._is_box[:count], self._is_capsule[:count]  # the rest are spheres
        radius, half = shapes.size[..., :1], shapes.size[..., 1:2]
        reach = torch.cat([radius, radius, radius + torch.where(is_capsule, half, 0.0)], -1)
        extent = torch.where(is_box, shapes.size, reach)  # (N, G, 3) half sizes of the bounding boxes
        bound = torch.where(is_box, torch.linalg.vector_norm(extent, dim=-1, keepdim=True), extent[..., 2:])
        fields = (
            (self._geom_xpos, shapes.pos),
            (self._geom_xmat, rotation_matrix(shapes.quat)),
            (self.per_world("geom_size"), shapes.size),
            (self.per_world("geom_aabb"), torch.stack([torch.zeros_like(extent), extent], -2)),
            (self.per_world("geom_rbound"), bound[..., 0]),
        )
        for tensor, values in fields:
            rows = mask.view(-1, *[1] * (values.dim() - 1))
            tensor[:, :count] = torch.where(rows, values, tensor[:, :count])

    def place_static_geoms(self) -> None:
        """Compute the poses of the geoms that are fixed to the world; Warp does so only once, for all worlds alike."""
        static = slice(0, int(self.model.body_geomnum[0]))
        self._geom_xpos[:, static] = self.per_world("geom_pos")[:, static]
        self._geom_xmat[:, static] = rotation_matrix(self.per_world("geom_quat")[:, static])

    def copy_layout(self, world: int, model: mujoco.MjModel) -> None:
        """Write poses and sizes of a world's static geoms into a copy of the model."""
        if "geom_size" in self._varied:
            static = int(model.body_geomnum[0])
            model.geom_size[:] = self._varied["geom_size"][world].cpu().numpy()
            model.geom_pos[:static] = self._geom_xpos[world, :static].cpu().numpy()
            for index, matrix in enumerate(self._geom_xmat[world, :static].cpu().numpy()):
                mujoco.mju_mat2Quat(model.geom_quat[index], matrix.astype(float).reshape(9))

    def per_world(self, name: str) -> Tensor:
        """Return a field of the model with one row per world; the first call allocates the rows."""
        if name not in self._varied:
            array = getattr(self.warp_model, name)
            shared = wp.to_torch(array)
            count = self.num_worlds if name not in _COUNTED else max(_ROWS, 1 << (self.num_worlds - 1).bit_length())
            rows = torch.empty(count, *shared.shape[1:], dtype=shared.dtype, device=shared.device)
            setattr(self.warp_model, name, wp.from_torch(rows, dtype=array.dtype))
            self._varied[name] = rows[: self.num_worlds].copy_(shared)
            self._graphs.clear()  # they use the shared field
        return self._varied[name]

    def shared(self, name: str) -> Tensor:
        """Return a field of the model that all worlds share. (1, ...)"""
        return wp.to_torch(getattr(self.warp_model, name))

    def state_dict(self) -> dict[str, Tensor]:
        """Return everything that the next step depends on."""
        return {name: getattr(self, name).clone() for name in _STATE}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore what `state_dict` returned and refresh all tensors."""
        for name in _STATE:
            getattr(self, name).copy_(state[name])
        self.forward()

    def _advance(self, substeps: int, refresh: bool) -> None:
        self.warp_data.overflow.zero_()
        wp.capture_if(wp.from_torch(self._any_diverged), on_true=self._forget_divergence)
        flags = int(self.warp_model.opt.disableflags)
        for left in range(substeps - 1, -1, -1):
            # Nothing reads sensors within a control step: only the last time step computes them.
            is_read = left == 0 and not refresh
            self.warp_model.opt.disableflags = flags if is_read else flags | int(mjw.DisableBit.SENSOR)
            if self._motors:
                launch = (self.num_worlds, self.model.nu)
                wp.launch(_prepare_motors, dim=launch, inputs=[substeps - 1 - left, *self._motors])
            mjw.step(self.warp_model, self.warp_data)
        self.warp_model.opt.disableflags = flags
        if refresh:
            # Poses need only kinematics; sensors of contact forces need the whole forward pass.
            derive = mjw.forward if self.model.nsensor else mjw.kinematics
            derive(self.warp_model, self.warp_data)

    def _forget_divergence(self) -> None:
        """Remove NaN from intermediate results: zero times NaN would carry it into the restarted world."""
        broken = wp.from_torch(self.diverged)
        for rows in self._memory:
            wp.launch(_replace_non_finite, dim=rows.shape, inputs=[broken], outputs=[rows])

    def _capture(self, substeps: int, refresh: bool) -> wp.Graph:
        """Capture a control step; an eager time step loads the kernels first, and the state before it is restored."""
        before = self.state_dict()
        self._advance(1, refresh)  # all time steps launch the same kernels
        for name, value in before.items():
            getattr(self, name).copy_(value)
        torch.cuda.synchronize(self.device)
        # On a new stream: CUDA cannot capture the default stream, which the caller may use.
        stream = torch.cuda.stream(torch.cuda.Stream(self.device))
        with no_collection(), stream, self.on_stream(), wp.ScopedCapture() as capture:
            self._advance(substeps, refresh)
        return capture.graph

    @contextmanager
    def on_stream(self) -> Iterator[None]:
        """Make Warp launch on torch's current stream (CUDA) or on its CPU device."""
        if self.device.type == "cuda":
            with wp.ScopedStream(wp.stream_from_torch(torch.cuda.current_stream(self.device)), sync_enter=False):
                yield
        else:
            with wp.ScopedDevice("cpu"):
                yield


def _float_rows(holder: object, num_worlds: int) -> list[wp.array]:
    """Return all float arrays of a Warp record that have one row per world, flattened to (N, width)."""
    arrays = [array for array in vars(holder).values() if isinstance(array, wp.array) and array.size > 0]
    tensors = [wp.to_torch(array) for array in arrays if array.shape[0] == num_worlds]
    return [wp.from_torch(t.view(num_worlds, -1)) for t in tensors if t.dtype == torch.float32 and t.dim() > 1]
