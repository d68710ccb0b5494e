"""The manipulation domain and its groups: tasks whose worlds share one batch.

On the CPU these are consecutive tasks with the same scene. With Warp they are all tasks whose scenes have the same
shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import torch
from torch import Tensor

from polytask.envs.domain import Buffers, Domain, EnvConfig, Mark, WorldSizes
from polytask.envs.manipulation.sampling import candidates, draw
from polytask.envs.manipulation.stages import gaps, shaped_reward
from polytask.envs.manipulation.state import State
from polytask.envs.manipulation.task import FRAME, FRAME_PARTS, OBS, Start, Task
from polytask.robots import Robot, RobotState
from polytask.scenes import compile_scene
from polytask.scenes.merge import Layout, merge_scenes, shape_of
from polytask.sim import make_batch, make_merged_batch
from polytask.sim.base import Batch
from polytask.sim.view import SceneView

ACTIONS = 4
PLACES = (0, 4, 11)  # entries at which the positions of the hand and of up to two objects begin
SUBSTEPS = 5
_USUAL_LEG = 0.3  # metres: a leg of the shaped reward whose length a checkpoint does not have
BATCHES = 8  # of about this size on Warp: the kernels of one batch run one after another, those of several overlap


class TaskWorlds:
    """The worlds of one task within a group, with the constants of their episodes."""

    def __init__(self, task: Task, group: ManipulationGroup, worlds: slice, layout: Layout) -> None:
        """Settle the scene for this task and prepare its constants."""
        self.task = task
        self.model = compile_scene(task.scene, group.config.robot.file)
        self.mocaps = layout.mocaps  # where the batch has the mocap bodies of the model
        self.worlds = worlds
        self.buffers = group.buffers.rows(worlds)
        self.goals = group.config.options.goals
        self.stages = task.shaped if group.config.options.reward == "shaped" else None
        scale = group.config.options.reward_scale
        self.reward_scale = 1.0 if scale is None else scale
        self.batch = group.batch
        # These views are made once: with few worlds, slicing in every step costs the CPU as much as copying.
        _, _, *self._slots = group.frame[worlds].split(FRAME_PARTS, -1)
        count, device = worlds.stop - worlds.start, group.config.device

        def per_world(row: Any) -> Tensor:
            tensor = torch.as_tensor(row, dtype=torch.float32, device=device)
            return tensor.expand(count, *tensor.shape).clone()

        home = group.config.robot.settle(self.model, task.start.hand)
        self.home_qpos, self.home_qvel = per_world(home.qpos), per_world(home.qvel)
        self.home_mocap = self.batch.mocap_pos[worlds].clone()
        self.home_mocap[:, self.mocaps] = per_world(home.mocap_pos)
        self.hand_low, self.hand_high = per_world(task.hand_low), per_world(task.hand_high)
        self.has_vector = torch.zeros(count, dtype=torch.bool, device=device)
        self.is_new = torch.zeros(count, dtype=torch.bool, device=device)  # no step since the start of the episode
        self.remembers_start = task.keeps_first_obj or self.stages is not None
        legs = 0 if self.stages is None else len(self.stages.legs)
        self.first_gaps = torch.zeros(count, legs, device=device)  # of the shaped reward, after the first step
        self._goal_marker = self._mocap_id("goal")
        robot = group.robot_state.rows(worlds)
        self.state = State(
            **vars(robot),
            action=self.buffers.action,
            vector=torch.zeros(count, len(task.start.low), device=device),
            target=torch.zeros(count, 3, device=device),
            obj_init=torch.zeros(count, 3, device=device),
            tcp_init=per_world(home.tcp),
            scene=SceneView(self.batch, worlds, layout),
            obj=torch.zeros(count, 3, device=device),
            first_obj=torch.zeros(count, 3, device=device),
        )

    def write_objects(self) -> None:
        """Write the object part of the current frame."""
        slots = self.task.slots(self.state.scene)
        self.state.obj = slots.obj
        shown = (slots.obj, slots.obj_quat, slots.obj2, slots.obj2_quat)
        for slot, value in zip(self._slots, shown, strict=True):
            if value is not None:  # what a task leaves out stays zero
                slot.copy_(value)

    def evaluate(self) -> None:
        """Write reward and success of the step that led to the current state."""
        if self.task.keeps_first_obj:
            self.state.first_obj.copy_(torch.where(self.is_new[:, None], self.state.obj, self.state.first_obj))
        reward, success = self.task.reward(self.state)
        if self.stages is not None:
            now = gaps(self.state, self.stages)
            self.first_gaps.copy_(torch.where(self.is_new[:, None], now, self.first_gaps))
            reward = shaped_reward(self.state, self.stages, success, self.first_gaps)
        if self.remembers_start:
            self.is_new.zero_()
        if self.reward_scale != 1.0:
            reward = torch.where(success, reward, self.reward_scale * reward)
        self.buffers.reward.copy_(reward)
        self.buffers.success.copy_(success)

    def restart(self, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Place a new episode where `mask` is true; return the state rows (qpos, qvel) that start it."""
        if self.batch.device.type == "cpu" and not bool(mask.any()):
            return self.home_qpos, self.home_qvel
        vector = draw(self.task.start, self.buffers.uniform)
        if self.goals == "fixed":
            vector = torch.where(self.has_vector[:, None], self.state.vector, vector)
        return self.restart_from(mask, vector)

    def restart_from(self, mask: Tensor, vector: Tensor) -> tuple[Tensor, Tensor]:
        """Place a new episode from given random vectors where `mask` is true; return the state rows that start it."""
        placement = self.task.start.place(vector)
        rows, s = mask[:, None], self.state
        for constant, value in ((s.vector, vector), (s.target, placement.target), (s.obj_init, placement.obj_init)):
            constant.copy_(torch.where(rows, value, constant))
        self.has_vector.logical_or_(mask)
        self.is_new.logical_or_(mask)
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

    def has_free_goal(self) -> bool:
        """Return whether the goal is a point of its own: it differs between episodes, and no fixture stands there."""
        start = self.task.start
        first, last = (start.place(torch.tensor([corner])) for corner in (start.low, start.high))
        return not first.fixtures and not torch.equal(first.target, last.target)

    def move_goal(self, world: int, position: Sequence[float]) -> None:
        """Move the goal of one of the task's worlds, its marker and the goal in its observation, until the reset."""
        goal = self.state.target.new_tensor(position)
        self.state.target[world] = goal
        self.batch.mocap_pos[self.worlds][world, self._goal_marker] = goal
        self.buffers.obs[world, 2 * FRAME :] = goal

    def _write_joint(self, qpos: Tensor, qvel: Tensor, name: str, value: Tensor) -> None:
        joint = self.model.joint(name)
        position, velocity = int(joint.qposadr[0]), int(joint.dofadr[0])
        if value.dim() == 2:  # a free joint: place it, keep its settled orientation
            qpos[:, position : position + 3] = value
            qvel[:, velocity : velocity + 6] = 0.0
        else:
            qpos[:, position] = value
            qvel[:, velocity] = 0.0

    def _mocap_id(self, body: str) -> int:
        index = int(self.model.body(body).mocapid[0])
        if index < 0:
            raise KeyError(f"body '{body}' of scene '{self.task.scene}' is not a mocap body")
        return int(self.mocaps[index])

    def state_dict(self) -> dict[str, Tensor]:
        """Return the episode constants."""
        return {name: tensor.clone() for name, tensor in self._constants().items()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore what `state_dict` returned."""
        # Older checkpoints lack some. For the rest of their episodes, use the intended start and legs of usual length.
        older = {
            "first_obj": state["obj_init"],
            "first_gaps": torch.full_like(self.first_gaps, _USUAL_LEG),
            "is_new": torch.zeros_like(self.is_new),
        }
        for name, tensor in self._constants().items():
            tensor.copy_((older | state)[name])

    def _constants(self) -> dict[str, Tensor]:
        s = self.state
        constants = {"vector": s.vector, "target": s.target, "obj_init": s.obj_init, "has_vector": self.has_vector}
        if self.task.keeps_first_obj:
            constants["first_obj"] = s.first_obj
        if self.stages is not None:
            constants["first_gaps"] = self.first_gaps
        if self.remembers_start:
            constants["is_new"] = self.is_new
        return constants


class ManipulationGroup:
    """Tasks that share one batch."""

    def __init__(self, tasks: list[tuple[Task, int]], buffers: Buffers, config: EnvConfig) -> None:
        """Compile the scenes, create the worlds and give each task its slice of them."""
        self.buffers = buffers
        self.config = config
        num_worlds = sum(count for _, count in tasks)
        self.batch, layouts = make_worlds([(task.scene, count) for task, count in tasks], config)
        self.robot_state = RobotState.empty(num_worlds, config.device)
        self.frame = torch.zeros(num_worlds, FRAME, device=config.device)
        self._hand_slot, openness, *_ = self.frame.split(FRAME_PARTS, -1)
        self._openness_slot = openness[:, 0]
        self._last_frame, self._goal = buffers.obs[:, :FRAME], buffers.obs[:, 2 * FRAME :]
        self._scene = SceneView(self.batch, slice(0, num_worlds))
        self.tasks: list[TaskWorlds] = []
        start = 0
        for task, count in tasks:
            self.tasks.append(TaskWorlds(task, self, slice(start, start + count), layouts[task.scene]))
            start += count
        self._hand_low = torch.cat([worlds.hand_low for worlds in self.tasks])
        self._hand_high = torch.cat([worlds.hand_high for worlds in self.tasks])

    def act(self) -> None:
        """Turn the actions in the buffers into commands."""
        self.config.robot.act(self.batch, self.buffers.action, self._hand_low, self._hand_high)

    def simulate(self) -> None:
        """Advance the physics by one control step."""
        self.batch.step(SUBSTEPS)

    def conclude(self) -> None:
        """Compute observations and rewards, and start new episodes where one ended."""
        b = self.buffers
        self.batch.check()
        b.diverged.copy_(self.batch.diverged)
        torch.logical_or(b.timeout, b.diverged, out=b.truncated)
        self.observe()
        for worlds in self.tasks:
            worlds.evaluate()
        b.score.copy_(b.success)
        torch.cat([self.frame, self._last_frame, self._goal], -1, out=b.next_obs)
        if self.config.options.reward == "sparse":
            b.reward.copy_(b.success)
        ended = b.truncated
        if self.config.options.termination_on_success:
            torch.logical_and(b.success, ~b.diverged, out=b.terminated)
            b.truncated.logical_and_(~b.terminated)
            ended = b.truncated | b.terminated
        # A captured graph cannot branch on data and always uses masks; eager CPU code can skip what has no effect.
        if self.config.device.type == "cpu" and not bool(ended.any()):
            b.obs.copy_(b.next_obs)
            return
        b.hide_diverged()
        b.success.logical_and_(~b.diverged)
        b.score.masked_fill_(b.diverged, 0.0)
        b.obs.copy_(b.next_obs)
        self.reset(ended)

    def observe(self) -> None:
        """Write the current observation frame and refresh every task's state."""
        self.config.robot.read(self._scene, self.robot_state)
        self._hand_slot.copy_(self.robot_state.hand)
        self._openness_slot.copy_(self.robot_state.openness)
        for worlds in self.tasks:
            worlds.write_objects()

    def reset(self, mask: Tensor) -> None:
        """Start new episodes where `mask` (N,) is true and write their first observations."""
        rows = [worlds.restart(mask[worlds.worlds]) for worlds in self.tasks]
        self.batch.reset(mask, torch.cat([qpos for qpos, _ in rows]), torch.cat([qvel for _, qvel in rows]))
        self.batch.forward()
        self.observe()
        target = torch.cat([worlds.state.target for worlds in self.tasks])
        first = torch.cat([self.frame, self.frame, target], -1)
        self.buffers.obs.copy_(torch.where(mask[:, None], first, self.buffers.obs))

    def world_metrics(self) -> dict[str, Tensor]:
        """Return an empty dictionary: manipulation has no metrics besides those of episodes."""
        return {}

    def marks(self, row: int) -> list[Mark]:
        """Return nothing: goals are bodies of the scene."""
        return []

    def note(self, row: int) -> str:
        """Return nothing."""
        return ""

    def state_dict(self) -> dict[str, Any]:
        """Return the physics and the episode constants."""
        return {"batch": self.batch.state_dict(), "tasks": [worlds.state_dict() for worlds in self.tasks]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self.batch.load_state_dict(state["batch"])
        for worlds, part in zip(self.tasks, state["tasks"], strict=True):
            worlds.load_state_dict(part)


def make_worlds(worlds: list[tuple[str, int]], config: EnvConfig) -> tuple[Batch, dict[str, Layout]]:
    """Create the batch of some scenes and their numbers of worlds; return also where it has the parts of each scene."""
    merged = merge_scenes(tuple(dict.fromkeys(scene for scene, _ in worlds)), config.robot.file)
    if config.sim == "warp":
        return make_merged_batch(merged, worlds, config.device, config.sim_config), merged.layouts
    count = sum(count for _, count in worlds)
    return make_batch(config.sim, merged.model, count, config.device), merged.layouts


def make_groups(config: EnvConfig, buffers: Buffers, generator: torch.Generator) -> list[ManipulationGroup]:
    """Build the groups. They take the rows of the buffers one after the other, whatever the order of the tasks."""
    groups, start = [], 0
    batches = share_batches(config)
    if config.sim == "warp":
        most = -(-sum(config.share.envs_per_task) // BATCHES)
        batches = [part for tasks in batches for part in split(tasks, most)]
    for tasks in batches:
        stop = start + sum(count for _, count in tasks)
        groups.append(ManipulationGroup(tasks, buffers.rows(slice(start, stop)), config))
        start = stop
    return groups


def split(tasks: list[tuple[Task, int]], worlds: int) -> list[list[tuple[Task, int]]]:
    """Split tasks into consecutive parts of about `worlds` worlds each; a task stays whole."""
    total, done = sum(count for _, count in tasks), 0
    parts = min(len(tasks), max(1, round(total / worlds)))
    found: list[list[tuple[Task, int]]] = [[] for _ in range(parts)]
    for task, count in tasks:
        found[min(parts - 1, (done + count // 2) * parts // total)].append((task, count))
        done += count
    return [part for part in found if part]


def share_batches(config: EnvConfig) -> list[list[tuple[Task, int]]]:
    """Return which tasks share a batch, with their numbers of worlds.

    Warp needs few large batches: tasks whose scenes have the same shape share one. The CPU has no use for that: there,
    consecutive tasks with the same scene share one.
    """
    tasks = zip(config.tasks, config.share.envs_per_task, strict=True)
    if config.sim != "warp":
        return [list(run) for _, run in groupby(tasks, key=lambda each: each[0].scene)]
    members: dict[tuple[Any, ...], list[tuple[Task, int]]] = {}
    for task, count in tasks:
        members.setdefault(shape_of(task.scene, config.robot.file), []).append((task, count))
    return list(members.values())


def sizes(config: EnvConfig) -> WorldSizes:
    """Return the sizes; every task may need the largest number of candidates and the largest random vector."""
    starts: list[Start] = [task.start for task in config.tasks]
    draws = max(candidates(start) for start in starts), max(len(start.low) for start in starts)
    return WorldSizes(OBS, draws, places=PLACES)


DOMAIN = Domain(
    name="manipulation",
    action_dim=ACTIONS,
    control_rate=80,
    robot=Robot,
    defaults={
        "robot": "sawyer",
        "episode_length": 150,
        "reward_scale": 1.0,
        "termination_on_success": False,
        "goals": "random",
    },
    metrics=(),
    sizes=sizes,
    make_groups=make_groups,
    share_batches=share_batches,
)
