"""N bins with a Panda, as torch tensors: drops, actions as in QT-Opt, pictures, and the truth for evaluation.

Skills: lift an object, place it on the plate, cover an object with the lid.

An episode is `done` when an action terminates it or, in assisted mode, when an action closes or opens the gripper. Then
`present` ends the episode. In assisted mode, it lowers the hand, grips or releases, and raises the hand. In both modes,
it holds the hand up before the outcome cameras, so that a picture shows what was lifted or placed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from polytask.cuda_graph import Graphed
from polytask.mtopt.config.world import ScriptConfig, WorldConfig
from polytask.mtopt.records import Observation
from polytask.mtopt.tasks import KINDS
from polytask.mtopt.world import layout
from polytask.mtopt.world.arm import FINGER_OPEN, fingertips, follow, pose_at
from polytask.mtopt.world.camera_set import CameraSet
from polytask.mtopt.world.drop import draw_objects, parked_lid, put_one_on_plate, uniform
from polytask.mtopt.world.graders import Situation, grade
from polytask.mtopt.world.protocol import Policy
from polytask.mtopt.world.scripted import ScriptedPick, ScriptedPlace
from polytask.robots.panda_arm import JOINTS, find_arm
from polytask.scenes.mtopt import compile_mtopt
from polytask.sim import make_batch
from polytask.sim.base import Batch
from polytask.sim.view import constant

_GRIPS = 0.004  # finger joints that stay this far open after closing hold an object


class BinWorld:
    """N bins of one scene; actions are (N, 8) in [-1, 1], as described at `records.ACTION_DIM`."""

    def __init__(self, config: WorldConfig) -> None:
        """Compile the scene, create the worlds and drop objects into them."""
        self.config = config
        self.num_envs, self.device = config.num_envs, torch.device(config.device)
        self.generator = torch.Generator(self.device).manual_seed(config.seed)
        model = compile_mtopt(config.lid)
        self.batch = make_batch(config.sim, model, config.num_envs, self.device, config.slots)
        self.arm = find_arm(model)
        names = (*KINDS, "lid") if config.lid else KINDS
        self._bodies = [int(model.body(name).id) for name in names]
        self._free = [int(model.joint(name).qposadr[0]) for name in names]
        self._plate = int(model.joint("plate").qposadr[0])
        self._cameras = CameraSet(self.batch)
        worlds, device = config.num_envs, self.device
        self.place = torch.zeros(worlds, 3, device=device)  # commanded fingertips
        self.yaw = torch.zeros(worlds, device=device)  # commanded turn
        self.closed = torch.zeros(worlds, dtype=torch.bool, device=device)  # commanded grip
        self.done = torch.zeros(worlds, dtype=torch.bool, device=device)
        self.broken = torch.zeros(worlds, dtype=torch.bool, device=device)  # physics diverged since the reset
        self._grasps = torch.zeros_like(self.done)  # assisted: `present` must grasp
        self._releases = torch.zeros_like(self.done)  # assisted: `present` must release
        self._has_lid = torch.zeros_like(self.done)  # the hand was given the lid
        self._everyone = torch.ones_like(self.done)
        self._safe = self.batch.qpos.clone()
        # Not a method of this world: with a reference cycle, the garbage collector would free the cameras' OpenGL
        # contexts, possibly in a thread that does not own them.
        self._follow_command = Graphed(
            partial(_set_controls, self.batch, self.place, self.yaw, self.closed), self.device
        )
        self.reset()

    # --- between episodes -------------------------------------------------------------------------------------------

    def reseed(self, seed: int) -> None:
        """Set the seed; what follows a reset then depends on this seed alone."""
        self.config = replace(self.config, seed=seed)
        self.generator.manual_seed(seed)

    def reset(self, mask: Tensor | None = None, *, covers: bool = False) -> None:
        """Start again where `mask` (N,) holds: drop the objects, turn the plate, open the hand above the right bin.

        Args:
            mask: None for all worlds.
            covers: Put one of the objects on the plate, for the lid to cover. Otherwise the plate is empty: an object
                that lies there from the start would look like one that was placed.
        """
        mask = self._everyone if mask is None else mask
        qpos = self.batch.qpos.clone()
        poses = draw_objects(self.num_envs, self.generator)
        if covers:
            poses = put_one_on_plate(poses, self.generator)
        if self.config.lid:
            poses = torch.cat([poses, parked_lid(poses).expand(self.num_envs, 1, 7)], 1)
        for index, start in enumerate(self._free):
            qpos[:, start : start + 7] = poses[:, index]
        qpos[:, self._plate] = uniform((self.num_envs,), -torch.pi, torch.pi, self.generator)
        home = layout.PRESENT  # not below the falling objects
        qpos[:, self.arm.joints] = constant(pose_at(home), qpos)
        qpos[:, self.arm.fingers] = FINGER_OPEN
        self._write(mask, qpos)
        self._begin(mask)
        self.broken &= ~mask
        self.closed &= ~mask
        self._has_lid &= ~mask
        rows = mask[:, None]
        self.place.copy_(torch.where(rows, constant(home, qpos), self.place))
        self.yaw.masked_fill_(mask, 0.0)
        goal = self._start_above(constant(layout.RIGHT_BIN, qpos).expand(self.num_envs, 2), self.config.spread)
        self._travel(self.place.clone(), self.yaw, self.config.settle_segments)
        self._travel(torch.where(rows, goal, self.place), self.yaw, 8)
        self._safe.copy_(torch.where(rows, self.batch.qpos, self._safe))

    def start(self, skill: str) -> None:
        """Reset the bins; put an object, or the lid, into the hand if the skill needs one."""
        self.reset(covers=skill == "cover")
        if skill != "lift":
            self.hand_over(lid=skill == "cover")

    def go_on(self, skill: str, before: Sequence[str], *, hand_over: bool) -> Tensor:
        """Bring the bins to the start of a skill: lifting from where they are, placing what the hand holds.

        A new drop is needed to cover: the plate must hold exactly one object.
        """
        if skill == "lift":
            return self._everyone.clone()
        if skill == "cover":
            self.start(skill)
            return self._everyone.clone()
        if "lift" in before:
            self.settle()
        holds = self.holds()
        if "lift" in before and not hand_over:
            return holds
        self.hand_over(mask=~holds)
        return self._everyone.clone()

    def settle(self) -> None:
        """Continue with the scene as it is: hands that hold move above the plate, others open above the right bin."""
        holds = self.holds()
        self.closed &= holds
        left, right = constant(layout.LEFT_BIN, self.place), constant(layout.RIGHT_BIN, self.place)
        bins = torch.where(holds[:, None], left, right)
        self._begin(self._everyone)
        above = self.place.clone()
        above[:, 2] = layout.PRESENT[2]
        self._travel(above, self.yaw, 4)
        spread = torch.where(holds, self.config.plate_spread, self.config.spread)[:, None]
        self._travel(self._start_above(bins, spread), torch.zeros_like(self.yaw), 12)

    def hand_over(self, lid: bool = False, mask: Tensor | None = None) -> None:
        """Put a random object, or the lid, into the hand above the plate: a start for placing without a pick."""
        mask = self._everyone if mask is None else mask
        qpos = self.batch.qpos.clone()
        above = (*layout.LEFT_BIN, layout.START_HEIGHT)
        width = torch.zeros_like(qpos[:, 0])
        lots = torch.rand(self.num_envs, len(KINDS), generator=self.generator, device=self.device)
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
        self._has_lid = torch.where(mask, torch.full_like(mask, lid), self._has_lid)
        rows = mask[:, None]
        self.place.copy_(torch.where(rows, constant(above, qpos), self.place))
        self.yaw.masked_fill_(mask, 0.0)
        self._travel(self.place.clone(), self.yaw, 3)
        goal = self._start_above(constant(layout.LEFT_BIN, qpos).expand(self.num_envs, 2), self.config.plate_spread)
        self._travel(torch.where(rows, goal, self.place), self.yaw, 8)  # up to the plate's edge

    # --- within an episode ------------------------------------------------------------------------------------------

    def observe(self) -> Observation:
        """Render what the policies see now."""
        image = self._cameras.render(layout.OBSERVATION_CAMERAS, self.config.image_shape)[:, 0]
        pose = torch.cat([self.place[:, :2], self.yaw[:, None]], -1)
        return Observation(image, self.closed.float(), fingertips(self.batch)[:, 2].clone(), pose)

    def step(self, action: Tensor) -> None:
        """Apply actions (N, 8) where the episode is not done."""
        goes = ~self.done
        action = action.clamp(-1.0, 1.0) * goes[:, None]
        closes, opens, ends = (action[:, 5:] > 0.5).unbind(-1)
        # The gripper looks the same after half a turn, so it turns by half of the action's angle.
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
        """End the episode and return the views (N, V, S, S, 3) of its outcome.

        In assisted mode, finish the grasp or the release first. Then hold the hand up before the cameras. The views are
        a buffer that the next call overwrites.
        """
        if self.config.assisted:
            release = torch.where(self._has_lid, layout.COVER_HEIGHT, layout.PLACE_HEIGHT)
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
        return self._cameras.render(layout.OUTCOME_CAMERAS, self.config.outcome_shape)

    # --- what is where ----------------------------------------------------------------------------------------------

    def holds(self) -> Tensor:
        """Return which hands (N,) are closed around an object; a real robot can measure this, too."""
        return self.closed & (self.batch.qpos[:, self.arm.fingers].amin(-1) > _GRIPS)

    def situation(self) -> Situation:
        """Return the places of all objects."""
        bodies = torch.stack([self.batch.xpos[:, body] for body in self._bodies], 1)
        count = len(KINDS)
        lid = bodies[:, count] if self.config.lid else None
        return Situation(bodies[:, :count], self.batch.qpos[:, self._plate], lid)

    def truth(self, tasks: Sequence[str]) -> Tensor:
        """Grade the worlds (N, K) from the simulator's state, for evaluation and the stand-in only."""
        return grade(self.situation(), tasks) & ~self.broken[:, None]

    def script(self, skill: str, config: ScriptConfig) -> Policy:
        """Make the script of a skill: a pick for lifting, a place for the others, which release an object."""
        return ScriptedPick(self, config) if skill == "lift" else ScriptedPlace(self, config, covers=skill == "cover")

    def warn(self) -> None:
        """Warn once if worlds ran out of contact or constraint slots."""
        self.batch.warn_of_overflow()

    def close(self) -> None:
        """Free the cameras' contexts, in the thread that rendered with them."""
        self._cameras.close()

    # --- parts ------------------------------------------------------------------------------------------------------

    def _begin(self, mask: Tensor) -> None:
        for flag in (self.done, self._grasps, self._releases):
            flag &= ~mask

    def _start_above(self, middle: Tensor, spread: Tensor | float) -> Tensor:
        """Draw a start (N, 3) of the hand above the centre (N, 2) of a bin, at most `spread` (N, 1) away per axis."""
        offset = uniform((self.num_envs, 2), -1.0, 1.0, self.generator) * spread
        return torch.cat([middle + offset, torch.full_like(offset[:, :1], layout.START_HEIGHT)], -1)

    def _write(self, mask: Tensor, qpos: Tensor) -> None:
        self.batch.reset(mask, qpos, torch.zeros_like(self.batch.qvel))
        self.batch.forward()

    def _travel(self, goal: Tensor, yaw: Tensor, segments: int) -> None:
        """Move the command evenly to a goal (N, 3) and a yaw (N,), and correct the joint targets on the way."""
        goal = torch.clamp(goal, constant(layout.HAND_LOW, goal), constant(layout.HAND_HIGH, goal))
        place, turned = self.place.clone(), self.yaw.clone()
        for segment in range(segments):
            part = min(1.0, (segment + 1) / max(1, segments - 1))  # the last segment lets the arm catch up
            self.place.copy_(torch.lerp(place, goal, part))
            self.yaw.copy_(torch.lerp(turned, yaw, part))
            self._follow_command()
            self.batch.step(self.config.substeps)
        self._reset_diverged()

    def _reset_diverged(self) -> None:
        """Reset worlds whose physics diverged to their start; their episodes count as failed."""
        self.batch.check()
        self.broken |= self.batch.diverged
        # On the CPU this check is free; on a GPU it would wait for the device.
        if self.device.type != "cpu" or bool(self.batch.diverged.any()):
            self._write(self.batch.diverged, self._safe)


def _set_controls(batch: Batch, place: Tensor, yaw: Tensor, closed: Tensor) -> None:
    """Set the controls of joints and fingers to follow the command."""
    batch.ctrl[:, :JOINTS] = follow(batch, place, yaw)
    batch.ctrl[:, JOINTS:] = torch.where(closed, 1.0, -1.0)[:, None]
