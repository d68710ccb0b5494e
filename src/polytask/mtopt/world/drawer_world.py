"""N drawers with a Sawyer, as torch tensors: pull the drawer open, push it shut, and the truth for evaluation.

Two cameras, side by side in one picture, show the policy what the hand does; two others show the outcome after the hand
has gone back. An action moves the hand along x, y and z or ends the episode; the gripper stays open, and its fingers
hook the handle. Skills: open a drawer that is (almost) shut, close one that is open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from polytask.mtopt.config.world import ScriptConfig, WorldConfig
from polytask.mtopt.config.world_specs import DRAWER
from polytask.mtopt.records import COMMANDED, Observation
from polytask.mtopt.world.camera_set import CameraSet
from polytask.mtopt.world.drawer_script import DrawerScript
from polytask.mtopt.world.drop import uniform
from polytask.robots import ROBOTS, Robot
from polytask.scenes.mtopt_drawer import compile_mtopt_drawer
from polytask.sim import make_batch
from polytask.sim.view import SceneView, constant

HOME = (0.0, 0.55, 0.28)  # where the hand starts and where it goes to show the outcome
HAND_LOW, HAND_HIGH = (-0.25, 0.40, 0.06), (0.25, 0.85, 0.40)  # the commanded hand stays in this box
PLACES = 0.08  # largest distance of the drawer from the middle along x, m
BACK = 0.9  # of the drawer along y, m
RANGE = 0.16  # how far the drawer opens, m
# How far it is open: at the start of a skill, and by the tasks' sentences.
STARTS = {"open": (0.0, 0.02), "close": (0.11, 0.15)}
READY = 0.08  # open so far, it can be closed
WIDE, HALF, SHUT = 0.12, (0.06, 0.10), 0.02
_STRIDE = 0.01  # metres that a robot's full action moves the hand in one control step
_CONTROL = 5  # time steps of a control step
_SETTLE = 2  # control steps in which the hand catches up after an action


class DrawerWorld:
    """N drawers of one scene; actions are (N, 4): x, y and z in [-1, 1], and terminate."""

    def __init__(self, config: WorldConfig) -> None:
        """Compile the scene, settle the robot and create the worlds."""
        robot = ROBOTS["sawyer"]
        assert isinstance(robot, Robot)
        self.config, self.robot = config, robot
        self.num_envs, self.device = config.num_envs, torch.device(config.device)
        self.generator = torch.Generator(self.device).manual_seed(config.seed)
        model = compile_mtopt_drawer(robot.file)
        home = robot.settle(model, HOME)
        self.batch = make_batch(config.sim, model, config.num_envs, self.device, config.slots)
        self.scene = SceneView(self.batch, slice(0, config.num_envs))
        self._hand, self._case = (int(model.body(name).mocapid[0]) for name in ("mocap", "drawer"))
        self._joint = int(model.joint("goal_slidey").qposadr[0])
        self._cameras = CameraSet(self.batch)
        count, device = config.num_envs, self.device
        self._qpos, self._qvel, self._mocap = (
            torch.as_tensor(row, dtype=torch.float32, device=device).expand(count, *row.shape).clone()
            for row in (home.qpos, home.qvel, home.mocap_pos)
        )
        self._safe = self._qpos.clone()
        self.place = torch.zeros(count, 3, device=device)  # commanded hand
        self.done = torch.zeros(count, dtype=torch.bool, device=device)
        self.broken = torch.zeros_like(self.done)
        self._everyone = torch.ones_like(self.done)
        self._effort = torch.full((count, 1), -1.0, device=device)  # of the fingers: open
        self._low, self._high = (constant(corner, self.place).expand_as(self.place) for corner in (HAND_LOW, HAND_HIGH))
        self.reset()

    # --- between episodes -------------------------------------------------------------------------------------------

    def reseed(self, seed: int) -> None:
        """Set the seed; what follows a reset then depends on this seed alone."""
        self.config = replace(self.config, seed=seed)
        self.generator.manual_seed(seed)

    def reset(self) -> None:
        """Place the drawers, almost shut, and bring the hands to a start above the table."""
        self.start("open")

    def start(self, skill: str) -> None:
        """Place the drawers anew, as far open as the skill needs it."""
        x = uniform((self.num_envs,), -PLACES, PLACES, self.generator)
        mocap = self._mocap.clone()
        mocap[:, self._case] = torch.stack([x, torch.full_like(x, BACK), torch.zeros_like(x)], -1)
        self.batch.mocap_pos.copy_(mocap)
        self.broken.zero_()
        self._put(self._everyone, self._qpos.clone(), skill)
        self.place.copy_(constant(HOME, self.place).expand_as(self.place))
        self._begin()

    def go_on(self, skill: str, before: Sequence[str], *, hand_over: bool) -> Tensor:
        """Continue with the drawer as it is: to be closed it must be open, which the hand-over brings about."""
        if not before:
            if skill != "open":
                self.start(skill)
            return self._everyone.clone()
        self._travel(constant(HOME, self.place).expand_as(self.place), self._strides(0.3))
        opened = self.opening()
        ready = opened > READY if skill == "close" else opened < SHUT
        if hand_over:
            self._put(~ready, self.batch.qpos.clone(), skill)
            ready = self._everyone.clone()
        self._begin()
        return ready

    # --- within an episode ------------------------------------------------------------------------------------------

    def observe(self) -> Observation:
        """Render what the policies see now: both views side by side."""
        height, width = self.config.image_shape
        views = self._cameras.render(("left", "right"), (height, width // 2))  # (N, 2, H, W / 2, 3)
        image = torch.cat([views[:, 0], views[:, 1]], 2)
        pose = torch.cat([self.place[:, :2], torch.zeros_like(self.place[:, :1])], -1)
        return Observation(image, torch.zeros_like(self.place[:, 0]), self.hand()[:, 2].clone(), pose)

    def step(self, action: Tensor) -> None:
        """Apply actions (N, 4) where the episode is not done."""
        goes = ~self.done
        action = action.clamp(-1.0, 1.0) * goes[:, None]
        self._travel(self.place + self.config.reach * action[:, :3], self._strides(self.config.reach))
        self.done |= action[:, 3] > COMMANDED

    def present(self) -> Tensor:
        """Take the hands back, and return the views (N, 2, H, W, 3) of the outcome."""
        self.done.fill_(True)
        up = self.place.clone()
        up[:, 2] = HOME[2]
        self._travel(up, self._strides(0.2))
        self._travel(constant(HOME, self.place).expand_as(self.place), self._strides(0.3))
        return self._cameras.render(("side", "above"), self.config.outcome_shape)

    def script(self, skill: str, config: ScriptConfig) -> DrawerScript:
        """Make the script that pulls or pushes the handle."""
        return DrawerScript(self, config, pulls=skill == "open")

    # --- what is where ----------------------------------------------------------------------------------------------

    def hand(self) -> Tensor:
        """Return the positions (N, 3) of the hands."""
        return self.scene.body("hand")

    def handle(self) -> Tensor:
        """Return the positions (N, 3) of the handles."""
        link = self.scene.body("drawer_link")
        return link + constant((0.0, -0.15, 0.0), link)

    def opening(self) -> Tensor:
        """Return how far (N,) the drawers are open, m."""
        return -self.batch.qpos[:, self._joint]

    def truth(self, tasks: Sequence[str]) -> Tensor:
        """Grade the worlds (N, K) from the simulator's state, for evaluation and the stand-in only."""
        opened = self.opening()
        found = {
            "drawer-open": opened > WIDE,
            "drawer-close": opened < SHUT,
            "drawer-half": (opened > HALF[0]) & (opened < HALF[1]),
        }
        assert found.keys() == set(DRAWER.graded)
        return torch.stack([found[task] for task in tasks], -1) & ~self.broken[:, None]

    def warn(self) -> None:
        """Warn once if worlds ran out of contact or constraint slots."""
        self.batch.warn_of_overflow()

    def close(self) -> None:
        """Free the cameras' contexts, in the thread that rendered with them."""
        self._cameras.close()

    # --- parts ------------------------------------------------------------------------------------------------------

    def _put(self, mask: Tensor, qpos: Tensor, skill: str) -> None:
        """Write a state with the drawers open as the skill needs it, where `mask` (N,) holds."""
        qpos[:, self._joint] = -uniform((self.num_envs,), *STARTS[skill], self.generator)
        self.batch.reset(mask, qpos, self._qvel.clone())
        self.batch.forward()
        self._safe.copy_(torch.where(mask[:, None], qpos, self._safe))

    def _begin(self) -> None:
        """Start episodes with the hands near their home."""
        self.done.zero_()
        offset = uniform((self.num_envs, 3), -1.0, 1.0, self.generator) * self.config.spread
        self._travel(constant(HOME, self.place) + offset, self._strides(2 * self.config.spread))

    def _strides(self, distance: float) -> int:
        """Return the number of control steps that a distance along an axis takes."""
        return int(distance / _STRIDE + 0.999) + _SETTLE

    def _travel(self, goal: Tensor, strides: int) -> None:
        """Move the command to a goal (N, 3) within the box, as fast as the robot can."""
        self.place.copy_(torch.clamp(goal, self._low, self._high))
        command = self.batch.mocap_pos[:, self._hand]
        for _ in range(strides):
            step = ((self.place - command) / _STRIDE).clamp(-1.0, 1.0)
            self.robot.act(self.batch, torch.cat([step, self._effort], -1), self._low, self._high)
            self.batch.step(_CONTROL)
        self._reset_diverged()

    def _reset_diverged(self) -> None:
        """Reset worlds whose physics diverged to their start; their episodes count as failed."""
        self.batch.check()
        self.broken |= self.batch.diverged
        # On the CPU this check is free; on a GPU it would wait for the device.
        if self.device.type != "cpu" or bool(self.batch.diverged.any()):
            self.batch.reset(self.batch.diverged, self._safe, self._qvel)
            self.batch.forward()
