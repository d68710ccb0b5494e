"""N bins with a Panda, as torch tensors: drops, actions as in QT-Opt, pictures, and the truth for evaluation.

An episode ends by itself (`done`) when the action terminates it or, in assisted mode, when the action closes or opens
the gripper: `present` then lowers the hand, grips or lets go, and raises it. Either way `present` ends an episode by
holding the hand up before the outcome cameras, so that a picture shows what was lifted or placed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from polytask.cuda_graph import Graphed
from polytask.mtopt.config.world import WorldConfig
from polytask.mtopt.tasks import KINDS
from polytask.mtopt.world import layout
from polytask.mtopt.world.arm import FINGER_OPEN, fingertips, follow, pose_at
from polytask.mtopt.world.drop import draw_objects, parked_lid, put_one_on_plate, uniform
from polytask.mtopt.world.graders import Situation, grade
from polytask.robots.panda_arm import JOINTS, find_arm
from polytask.scenes.bins import compile_bins
from polytask.sim import make_batch
from polytask.sim.base import Batch
from polytask.sim.cameras import Cameras, make_cameras
from polytask.sim.view import constant

_GRIPS = 0.004  # finger joints that stay this far open after closing have something between them


@dataclass(frozen=True)
class Observation:
    """What a policy sees. The image is a buffer that the next look overwrites."""

    image: Tensor  # (N, H, W, 3) uint8
    closed: Tensor  # (N,) 1 where the gripper was told to close
    height: Tensor  # (N,) of the fingertips above the bins' floor, m
    # The paper's robots log a state vector too; networks use this one to find in the picture where an action leads.
    pose: Tensor | None = None  # (N, 3) commanded x, y (m) and yaw (rad) of the hand


class BinWorld:
    """N bins of one scene; actions are (N, 8) as `records.ACTION_DIM` says, in [-1, 1]."""

    def __init__(self, config: WorldConfig) -> None:
        """Compile the scene, create the worlds and drop objects into them."""
        self.config = config
        self.num_worlds, self.device = config.num_envs, torch.device(config.device)
        self.generator = torch.Generator(self.device).manual_seed(config.seed)
        model = compile_bins(config.lid)
        self.batch = make_batch(config.sim, model, config.num_envs, self.device, config.slots)
        self.arm = find_arm(model)
        names = (*KINDS, "lid") if config.lid else KINDS
        self._bodies = [int(model.body(name).id) for name in names]
        self._free = [int(model.joint(name).qposadr[0]) for name in names]
        self._plate = int(model.joint("plate").qposadr[0])
        self._cameras: dict[str, Cameras] = {}
        worlds, device = config.num_envs, self.device
        self.place = torch.zeros(worlds, 3, device=device)  # commanded fingertips
        self.yaw = torch.zeros(worlds, device=device)  # commanded turn
        self.closed = torch.zeros(worlds, dtype=torch.bool, device=device)  # commanded grip
        self.done = torch.zeros(worlds, dtype=torch.bool, device=device)
        self.broken = torch.zeros(worlds, dtype=torch.bool, device=device)  # physics diverged since the reset
        self._grasps = torch.zeros_like(self.done)  # assisted: present() has to grasp
        self._releases = torch.zeros_like(self.done)  # assisted: present() has to let go
        self._everyone = torch.ones_like(self.done)
        self._safe = self.batch.qpos.clone()
        # Not a method of this world: a reference to itself would leave the cameras' OpenGL contexts to the garbage
        # collector, which may free them in a thread that they do not belong to.
        self._aim = Graphed(partial(_send, self.batch, self.place, self.yaw, self.closed), self.device)
        self.reset()

    # --- between episodes -------------------------------------------------------------------------------------------

    def reseed(self, seed: int) -> None:
        """Draw from another seed from now on; what follows a reset depends on nothing before it."""
        self.config = replace(self.config, seed=seed)
        self.generator.manual_seed(seed)

    def reset(self, mask: Tensor | None = None) -> None:
        """Tip the bins out where `mask` (N,) holds: new drop, new plate, open hand above the right bin."""
        mask = self._everyone if mask is None else mask
        qpos = self.batch.qpos.clone()
        poses = draw_objects(self.num_worlds, self.generator)
        if self.config.lid:
            poses = put_one_on_plate(poses, self.generator)
            poses = torch.cat([poses, parked_lid(poses).expand(self.num_worlds, 1, 7)], 1)
        for index, start in enumerate(self._free):
            qpos[:, start : start + 7] = poses[:, index]
        qpos[:, self._plate] = uniform((self.num_worlds,), -torch.pi, torch.pi, self.generator)
        home = layout.PRESENT  # out of the way of what falls
        qpos[:, self.arm.joints] = constant(pose_at(home), qpos)
        qpos[:, self.arm.fingers] = FINGER_OPEN
        self._write(mask, qpos)
        self._begin(mask)
        self.broken &= ~mask
        self.closed &= ~mask
        rows = mask[:, None]
        self.place.copy_(torch.where(rows, constant(home, qpos), self.place))
        self.yaw.masked_fill_(mask, 0.0)
        goal = self._start_above(constant(layout.RIGHT_BIN, qpos).expand(self.num_worlds, 2))
        self._travel(self.place.clone(), self.yaw, self.config.settle_segments)
        self._travel(torch.where(rows, goal, self.place), self.yaw, 8)
        self._safe.copy_(torch.where(rows, self.batch.qpos, self._safe))

    def settle(self) -> None:
        """Go on with the scene as it is: hands that hold go above the plate, the others open above the right bin."""
        holds = self.holds()
        self.closed &= holds
        left, right = constant(layout.LEFT_BIN, self.place), constant(layout.RIGHT_BIN, self.place)
        bins = torch.where(holds[:, None], left, right)
        self._begin(self._everyone)
        above = self.place.clone()
        above[:, 2] = layout.PRESENT[2]
        self._travel(above, self.yaw, 4)
        self._travel(self._start_above(bins), torch.zeros_like(self.yaw), 12)

    def hand_over(self, lid: bool = False, mask: Tensor | None = None) -> None:
        """Put a random object, or the lid, into the hand above the plate: a start for placing without a pick before."""
        mask = self._everyone if mask is None else mask
        qpos = self.batch.qpos.clone()
        above = (*layout.LEFT_BIN, layout.START_HEIGHT)
        width = torch.zeros_like(qpos[:, 0])
        lots = torch.rand(self.num_worlds, len(KINDS), generator=self.generator, device=self.device)
        chosen = lots == lots.amax(-1, keepdim=True)  # (N, 7)
        for index, start in enumerate(self._free):
            half, offset = layout.HALF_WIDTHS[index], layout.GRIP_OFFSETS[index]
            pose = constant((above[0], above[1], above[2] + offset, 1.0, 0.0, 0.0, 0.0), qpos)
            takes = torch.full_like(mask, lid) if index == len(KINDS) else chosen[:, index] & (not lid)
            qpos[:, start : start + 7] = torch.where(takes[:, None], pose, qpos[:, start : start + 7])
            width.masked_fill_(takes, half)
        qpos[:, self.arm.joints] = constant(pose_at(above), qpos)
        qpos[:, self.arm.fingers] = (width - layout.FINGER_REACH + 0.001).clamp(0.0, FINGER_OPEN)[:, None]
        self._write(mask, qpos)
        self._begin(mask)
        self.closed |= mask
        rows = mask[:, None]
        self.place.copy_(torch.where(rows, constant(above, qpos), self.place))
        self.yaw.masked_fill_(mask, 0.0)
        self._travel(self.place.clone(), self.yaw, 3)
        goal = self._start_above(constant(layout.LEFT_BIN, qpos).expand(self.num_worlds, 2))
        self._travel(torch.where(rows, goal, self.place), self.yaw, 3)

    # --- within an episode ------------------------------------------------------------------------------------------

    def observe(self) -> Observation:
        """Draw what the policies see now."""
        image = self._look("observation", layout.OBSERVATION_CAMERAS, self.config.image_size)[:, 0]
        pose = torch.cat([self.place[:, :2], self.yaw[:, None]], -1)
        return Observation(image, self.closed.float(), fingertips(self.batch)[:, 2].clone(), pose)

    def step(self, action: Tensor) -> None:
        """Carry out actions (N, 8) where the episode goes on."""
        goes = ~self.done
        action = action.clamp(-1.0, 1.0) * goes[:, None]
        closes, opens, ends = (action[:, 5:] > 0.5).unbind(-1)
        # The gripper looks the same after half a turn: the action's angle counts half.
        turn = 0.5 * torch.atan2(action[:, 3], action[:, 4]) * goes
        yaw = (self.yaw + turn).clamp(-layout.YAW_LIMIT, layout.YAW_LIMIT)
        if self.config.assisted:
            is_low = self.place[:, 2] + self.config.reach * action[:, 2] < layout.ASSIST_HEIGHT
            self._grasps |= (closes | is_low) & ~self.closed & goes
            self._releases |= opens & ~closes & self.closed
            ends = ends | self._grasps | self._releases
        else:
            self.closed |= closes
            self.closed &= closes | ~opens
        self._travel(self.place + self.config.reach * action[:, :3], yaw, self.config.segments)
        self.done |= ends

    def present(self) -> Tensor:
        """End the episode: finish an assisted grasp or release, hold the hand up and draw the outcome. (N, V, S, S, 3)

        The views are a buffer that the next call overwrites.
        """
        if self.config.assisted:
            release = layout.COVER_HEIGHT if self.config.lid else layout.PLACE_HEIGHT
            low = torch.where(self._grasps, layout.PICK_HEIGHT, release)
            height = torch.where(self._grasps | self._releases, low, self.place[:, 2])
            self._travel(torch.cat([self.place[:, :2], height[:, None]], -1), self.yaw, 7)
            self.closed |= self._grasps
            self.closed &= ~self._releases
            self._travel(self.place.clone(), self.yaw, 4)
        self.done.fill_(True)
        above = torch.cat([self.place[:, :2], self.place[:, 2:].clamp(min=layout.START_HEIGHT)], -1)
        self._travel(above, self.yaw, 6)
        self._travel(constant(layout.PRESENT, self.place).expand_as(self.place), torch.zeros_like(self.yaw), 12)
        return self._look("outcome", layout.OUTCOME_CAMERAS, self.config.outcome_size)

    # --- what is where ----------------------------------------------------------------------------------------------

    def holds(self) -> Tensor:
        """Tell which closed hands feel something between their fingers; a robot can know that much. (N,)"""
        return self.closed & (self.batch.qpos[:, self.arm.fingers].amin(-1) > _GRIPS)

    def situation(self) -> Situation:
        """Read where everything is."""
        bodies = torch.stack([self.batch.xpos[:, body] for body in self._bodies], 1)
        count = len(KINDS)
        lid = bodies[:, count] if self.config.lid else None
        return Situation(bodies[:, :count], self.batch.qpos[:, self._plate], lid)

    def truth(self, tasks: Sequence[str]) -> Tensor:
        """Grade the worlds from simulator state; only evaluation and the oracle may ask. (N, K) bool"""
        return grade(self.situation(), tasks) & ~self.broken[:, None]

    def close(self) -> None:
        """Free the cameras' contexts, in the thread that drew with them."""
        for cameras in self._cameras.values():
            cameras.close()
        self._cameras.clear()

    # --- parts ------------------------------------------------------------------------------------------------------

    def _begin(self, mask: Tensor) -> None:
        for flag in (self.done, self._grasps, self._releases):
            flag &= ~mask

    def _start_above(self, middle: Tensor) -> Tensor:
        """Draw a start above the middle (N, 2) of a bin. (N, 3)"""
        offset = uniform((self.num_worlds, 2), -self.config.spread, self.config.spread, self.generator)
        return torch.cat([middle + offset, torch.full_like(offset[:, :1], layout.START_HEIGHT)], -1)

    def _write(self, mask: Tensor, qpos: Tensor) -> None:
        self.batch.reset(mask, qpos, torch.zeros_like(self.batch.qvel))
        self.batch.forward()

    def _travel(self, goal: Tensor, yaw: Tensor, segments: int) -> None:
        """Move the command evenly to a goal (N, 3) and a yaw (N,), correcting the joints' targets on the way."""
        goal = torch.clamp(goal, constant(layout.HAND_LOW, goal), constant(layout.HAND_HIGH, goal))
        place, turned = self.place.clone(), self.yaw.clone()
        for segment in range(segments):
            part = min(1.0, (segment + 1) / max(1, segments - 1))  # the last segment lets the arm catch up
            self.place.copy_(torch.lerp(place, goal, part))
            self.yaw.copy_(torch.lerp(turned, yaw, part))
            self._aim()
            self.batch.step(self.config.substeps)
        self._mend()

    def _mend(self) -> None:
        """Put worlds whose physics diverged back to how they started; their episodes count as failed."""
        self.batch.check()
        self.broken |= self.batch.diverged
        # On the CPU looking costs nothing; elsewhere it would wait for the device.
        if self.device.type != "cpu" or bool(self.batch.diverged.any()):
            self._write(self.batch.diverged, self._safe)

    def _look(self, purpose: str, names: tuple[str, ...], size: int) -> Tensor:
        """Draw through cameras that are opened when first needed."""
        if purpose not in self._cameras:
            self._cameras[purpose] = make_cameras(self.batch, names, size)
        return self._cameras[purpose].render()


def _send(batch: Batch, place: Tensor, yaw: Tensor, closed: Tensor) -> None:
    """Send joints and fingers after the command."""
    batch.ctrl[:, :JOINTS] = follow(batch, place, yaw)
    batch.ctrl[:, JOINTS:] = torch.where(closed, 1.0, -1.0)[:, None]
