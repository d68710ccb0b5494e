"""A group: consecutive tasks that share a scene, and so one batch of worlds and one stream or thread.

A control step of a group has three parts: `act` turns actions into commands, `simulate` advances the physics, and
`conclude` observes, rewards and resets. All tensors keep their address, so that `act` and `conclude` can be captured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mujoco
import torch
from torch import Tensor

from polytask.robots import Robot
from polytask.scenes import compile_scene
from polytask.sim import Batch, SimConfig, make_batch
from polytask.tasks.sampling import draw
from polytask.tasks.state import SceneView, State, constant
from polytask.tasks.task import Slots, Task

FRAME = 18  # numbers of one observation frame
OBS = 2 * FRAME + 3  # frame, previous frame, goal
ACTIONS = 4
SUBSTEPS = 5


@dataclass(frozen=True)
class GroupConfig:
    """How a group's worlds are simulated and rewarded."""

    robot: Robot
    sim: str
    sim_config: SimConfig
    device: torch.device
    reward: str
    goals: str


@dataclass
class Buffers:
    """The environment's tensors, or a group's rows of them."""

    action: Tensor  # (N, A)
    obs: Tensor  # (N, O)
    next_obs: Tensor  # (N, O)
    reward: Tensor  # (N,)
    success: Tensor  # (N,) bool
    timeout: Tensor  # (N,) bool: the episode's last step
    truncated: Tensor  # (N,) bool
    diverged: Tensor  # (N,) bool
    uniform: Tensor  # (N, candidates, R) random numbers for resets

    def rows(self, start: int, stop: int) -> Buffers:
        """Return views of some worlds' rows."""
        return Buffers(**{name: tensor[start:stop] for name, tensor in vars(self).items()})


class TaskWorlds:
    """The worlds of one task within a group, with the constants of their episodes."""

    def __init__(self, task: Task, batch: Batch, worlds: slice, buffers: Buffers, config: GroupConfig) -> None:
        """Settle the scene for this task and prepare its constants."""
        self.task = task
        self.worlds = worlds
        self.buffers = buffers
        self.config = config
        self.scene = SceneView(batch, worlds)
        self.batch = batch
        count, device = worlds.stop - worlds.start, config.device

        def per_world(row: Any) -> Tensor:
            tensor = torch.as_tensor(row, dtype=torch.float32, device=device)
            return tensor.expand(count, *tensor.shape).clone()

        home = config.robot.settle(batch.model, task.hand_init)
        self.home_qpos, self.home_qvel = per_world(home.qpos), per_world(home.qvel)
        self.home_mocap = per_world(home.mocap_pos)
        self.tcp_init = per_world(home.tcp)
        self.vector = torch.zeros(count, len(task.low), device=device)
        self.target = torch.zeros(count, 3, device=device)
        self.obj_init = torch.zeros(count, 3, device=device)
        self.has_vector = torch.zeros(count, dtype=torch.bool, device=device)
        self.hand_low, self.hand_high = per_world(task.hand_low), per_world(task.hand_high)
        self._goal_marker = self._mocap_id("goal")

    def observe(self) -> tuple[State, Tensor]:
        """Read the state and build the current observation frame (N, 18)."""
        robot = self.config.robot.read(self.scene)
        slots = self.task.slots(self.scene)
        low, high = constant(self.config.robot.hand_low, robot.hand), constant(self.config.robot.hand_high, robot.hand)
        hand = torch.clamp(robot.hand, low, high)
        state = State(
            hand=hand,
            openness=robot.openness,
            tcp=robot.tcp,
            left_pad=robot.left_pad,
            right_pad=robot.right_pad,
            action=self.buffers.action,
            vector=self.vector,
            target=self.target,
            obj_init=self.obj_init,
            tcp_init=self.tcp_init,
            scene=self.scene,
            obj=slots.obj,
        )
        return state, _frame(hand, robot.openness, slots)

    def evaluate(self, state: State, frame: Tensor) -> None:
        """Write next observation, reward and success of the step that led to `state`."""
        b = self.buffers
        reward, success = self.task.reward(state)
        bad = b.diverged
        # A diverged world shows its last good observation again and pays nothing: no NaN may reach the learner.
        frame = torch.where(bad[:, None], b.obs[:, :FRAME], frame)
        torch.cat([frame, b.obs[:, :FRAME], self.target], -1, out=b.next_obs)
        torch.logical_and(success, ~bad, out=b.success)
        paid = b.success.float() if self.config.reward == "sparse" else reward
        b.reward.copy_(torch.where(bad, torch.zeros_like(paid), paid))

    def restart(self, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Place a new episode where `mask` holds; return the state rows (qpos, qvel) that start it."""
        vector = draw(self.task, self.buffers.uniform)
        if self.config.goals == "fixed":
            vector = torch.where(self.has_vector[:, None], self.vector, vector)
        return self.restart_from(mask, vector)

    def restart_from(self, mask: Tensor, vector: Tensor) -> tuple[Tensor, Tensor]:
        """Place a new episode from given random vectors where `mask` holds; return the state rows that start it."""
        placement = self.task.place(vector)
        rows = mask[:, None]
        self.vector.copy_(torch.where(rows, vector, self.vector))
        self.target.copy_(torch.where(rows, placement.target, self.target))
        self.obj_init.copy_(torch.where(rows, placement.obj_init, self.obj_init))
        self.has_vector.logical_or_(mask)
        mocap = self.home_mocap.clone()
        mocap[:, self._goal_marker] = placement.target
        for name, position in placement.fixtures.items():
            mocap[:, self._mocap_id(name)] = position
        current = self.batch.mocap_pos[self.worlds]
        current.copy_(torch.where(rows[:, None], mocap, current))
        qpos, qvel = self.home_qpos.clone(), self.home_qvel.clone()
        for name, value in placement.joints.items():
            self._write_joint(qpos, qvel, name, value)
        return qpos, qvel

    def _write_joint(self, qpos: Tensor, qvel: Tensor, name: str, value: Tensor) -> None:
        joint = self.batch.model.joint(name)
        position, velocity = int(joint.qposadr[0]), int(joint.dofadr[0])
        if value.dim() == 2:  # a free joint: place it, keep its settled orientation, stop it
            qpos[:, position : position + 3] = value
            qvel[:, velocity : velocity + 6] = 0.0
        else:
            qpos[:, position] = value

    def _mocap_id(self, body: str) -> int:
        index = int(self.batch.model.body(body).mocapid[0])
        if index < 0:
            raise KeyError(f"body '{body}' of scene '{self.task.scene}' is not a mocap body")
        return index

    def state_dict(self) -> dict[str, Tensor]:
        """Return the episode constants."""
        names = ("vector", "target", "obj_init", "has_vector")
        return {name: getattr(self, name).clone() for name in names}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore what `state_dict` returned."""
        for name, value in state.items():
            getattr(self, name).copy_(value)


class Group:
    """Consecutive tasks on one batch."""

    def __init__(self, tasks: list[tuple[Task, int]], buffers: Buffers, config: GroupConfig) -> None:
        """Compile the scene, create the worlds and give each task its slice of them."""
        scene = tasks[0][0].scene
        self.model: mujoco.MjModel = compile_scene(scene, config.robot.file)
        self.buffers = buffers
        self.config = config
        num_worlds = sum(count for _, count in tasks)
        self.batch = make_batch(config.sim, self.model, num_worlds, config.device, config.sim_config)
        self.tasks: list[TaskWorlds] = []
        start = 0
        for task, count in tasks:
            worlds = slice(start, start + count)
            self.tasks.append(TaskWorlds(task, self.batch, worlds, buffers.rows(start, start + count), config))
            start += count
        self._hand_low = torch.cat([t.hand_low for t in self.tasks])
        self._hand_high = torch.cat([t.hand_high for t in self.tasks])

    def act(self) -> None:
        """Turn the actions in the buffers into commands."""
        self.config.robot.act(self.batch, self.buffers.action, self._hand_low, self._hand_high)

    def simulate(self) -> None:
        """Advance the physics by one control step."""
        self.batch.step(SUBSTEPS)

    def conclude(self) -> None:
        """Observe, reward, and start new episodes where one ended."""
        b = self.buffers
        self.batch.check()
        b.diverged.copy_(self.batch.diverged)
        torch.logical_or(b.timeout, b.diverged, out=b.truncated)
        for worlds in self.tasks:
            worlds.evaluate(*worlds.observe())
        b.obs.copy_(b.next_obs)
        # A captured graph cannot branch on data and always resets through the mask; eager CPU code may skip it.
        if self.config.device.type == "cpu" and not bool(b.truncated.any()):
            return
        self.reset(b.truncated)

    def reset(self, mask: Tensor) -> None:
        """Start new episodes where `mask` (N,) holds and show their first observation."""
        rows = [worlds.restart(mask[worlds.worlds]) for worlds in self.tasks]
        self.batch.reset(mask, torch.cat([qpos for qpos, _ in rows]), torch.cat([qvel for _, qvel in rows]))
        self.batch.forward()
        for worlds in self.tasks:
            _, frame = worlds.observe()
            first = torch.cat([frame, frame, worlds.target], -1)
            obs = worlds.buffers.obs
            obs.copy_(torch.where(mask[worlds.worlds, None], first, obs))

    def state_dict(self) -> dict[str, Any]:
        """Return the physics and the episode constants."""
        return {"batch": self.batch.state_dict(), "tasks": [worlds.state_dict() for worlds in self.tasks]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self.batch.load_state_dict(state["batch"])
        for worlds, part in zip(self.tasks, state["tasks"], strict=True):
            worlds.load_state_dict(part)


def _frame(hand: Tensor, openness: Tensor, slots: Slots) -> Tensor:
    """Assemble one observation frame (N, 18)."""
    zeros = hand.new_zeros(len(hand), 4)
    quat = zeros if slots.obj_quat is None else slots.obj_quat
    obj2 = zeros[:, :3] if slots.obj2 is None else slots.obj2
    quat2 = zeros if slots.obj2_quat is None else slots.obj2_quat
    return torch.cat([hand, openness[:, None], slots.obj, quat, obj2, quat2], -1)
