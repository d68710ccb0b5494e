"""The parkour domain and its groups: Go1 robots that follow eight waypoints over tiles of terrain.

An episode is `terminated` by a fall, or `truncated` at the time limit or at the last waypoint. The score is progress,
the share of waypoints reached. An episode is a success if all of them are reached.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from polytask.envs.domain import Buffers, Domain, EnvConfig, Mark, WorldSizes
from polytask.envs.options import TuningOptions
from polytask.envs.parkour import observation, reality
from polytask.envs.parkour.angles import bearing, wrapped
from polytask.envs.parkour.body import ModelFields
from polytask.envs.parkour.course import GOALS
from polytask.envs.parkour.curriculum import next_level, played_level
from polytask.envs.parkour.episode import ParkourEpisode
from polytask.envs.parkour.feet import FOOT_SCAN, scan_of_feet
from polytask.envs.parkour.layout import WorldLayout
from polytask.envs.parkour.mirror import action_mirror, observation_mirror
from polytask.envs.parkour.observation import VELOCITY, Senses
from polytask.envs.parkour.pictures import level_note, waypoints
from polytask.envs.parkour.reality import SUBSTEPS, Reality
from polytask.envs.parkour.reward import STEP, Change, reward
from polytask.envs.parkour.tasks import NUM_LEVELS, Terrain
from polytask.envs.parkour.tiles import Tiles, cell_at
from polytask.robots import LeggedRobot, go1
from polytask.robots.go1 import JOINTS, Motion, Touch, read_feet, read_motion, read_touch
from polytask.scenes import compile_scene
from polytask.sim import make_batch
from polytask.sim.view import constant

METRICS = ("progress", "falls", "time_to_goal", "level")
START = (1.0, 0.0, 0.42, 1.0, 0.0, 0.0, 0.0)  # pose of the trunk at the start of an episode
JOINT_SPREAD = 0.9  # radians by which a joint may start above its default
COMMAND, COMMAND_EVERY = (0.3, 0.8), 300  # range of the commanded speed, and steps between its changes
PUSH, PUSH_EVERY = 0.5, 400  # maximum speed along x and y after a push, and steps between pushes
REACHED = 0.3  # metres from a waypoint within which it counts as reached
FOOT_TOUCHES = 2.0  # newtons above which a foot touches the ground
MAX_ROLL, MAX_PITCH, MIN_HEIGHT = 2.5, 1.5, -0.25  # beyond these the robot has fallen
RUNAWAY = 150.0  # rad/s or m/s; only a broken simulation is this fast
_JOINTS, _COMMAND, _PUSH, _LEVEL = slice(0, 12), 12, slice(13, 15), slice(15, 17)  # columns of a step's random numbers
_REVISIT = _PUSH  # free where an episode ends: the reset undoes a push
DRAWS = 17
_REALITY = slice(DRAWS, None)  # more columns, for real robots
CPU_WORLDS = 64  # worlds per batch on the CPU: few enough to keep any number of threads busy


class ParkourGroup:
    """Worlds of one batch; implements `domain.WorldGroup`."""

    def __init__(self, config: EnvConfig, worlds: WorldLayout, tiles: Tiles, buffers: Buffers) -> None:
        """Compile the scene, create the worlds, and set the body and the tile of each."""
        self.config, self.tiles, self.buffers = config, tiles, buffers
        model = compile_scene("parkour", config.robot.file)
        self.tasks = worlds.rows(config.tasks, model)
        self.batch = make_batch(config.sim, model, len(worlds.column), config.device, config.sim_config)
        self.column, self.body = worlds.column, worlds.body
        points = FOOT_SCAN if config.options.scan.feet else 0
        self.episode = ParkourEpisode.begin(worlds.level, points)
        self._default = constant(go1.DEFAULT, self.episode.command)
        layout = observation.layout_of(config)
        self._see, self._move = observation_mirror(config.device, layout), action_mirror(config.device)
        self.reality: Reality | None = None
        if config.robot.motors is not None:
            self.reality = Reality(config.options.reality, config.robot.motors, self.batch, self.body, points)
        self._edges = tiles.edges() if self.tuning.edge_penalty > 0 else None
        self._write_worlds()

    @property
    def tuning(self) -> TuningOptions:
        """What the run adds to the benchmark."""
        return self.config.options.tuning

    @property
    def tile(self) -> Tensor:
        """Index of each world's tile. (N,)"""
        return self.column * NUM_LEVELS + self.episode.level

    def _write_worlds(self) -> None:
        """Write bodies and tiles into the physics."""
        everyone = torch.ones_like(self.buffers.diverged)
        if self.reality is None:
            self.batch.vary(ModelFields(self.batch.model, self.config.device, is_real=False)(self.body))
        else:
            self.reality.write(everyone)
        self.batch.place(everyone, self.tiles.layout(self.tile))

    # A control step

    def act(self) -> None:
        """Set the servo targets to the default pose plus the action."""
        if self.reality is None:
            torch.add(self._default, self._own_action(), out=self.batch.ctrl)
        else:
            self.reality.follow(self._default + self._own_action())

    def _own_action(self) -> Tensor:
        """Return the actions of the robots, also of those that are seen in a mirror. (N, 12)"""
        return self._move(self.buffers.action, self.episode.mirrored) if self.tuning.mirror else self.buffers.action

    def simulate(self) -> None:
        """Advance the physics by one control step."""
        self.batch.step(SUBSTEPS, refresh=False)

    def conclude(self) -> None:
        """Compute observations and rewards, and start new episodes where one ended."""
        b, e = self.buffers, self.episode
        self.batch.check()
        torch.logical_or(self.batch.diverged, (self.batch.qvel.abs() > RUNAWAY).any(-1), out=b.diverged)
        e.clock.add_(1)
        motion, touch = read_motion(self.batch), read_touch(self.batch)
        is_due = b.length % COMMAND_EVERY == 0
        e.command.copy_(torch.where(is_due, self._drawn_command(), e.command))
        to_goal = self.tiles.goal(self.tile, e.goal) - motion.position[:, :2]
        self._look(motion, (e.clock % self.config.options.scan.every == 0).expand_as(is_due))
        self._judge(motion, touch, to_goal)
        self._remember_step(touch)
        seen = self._measure(motion)
        b.next_obs.copy_(self._observation(motion, seen))
        if self.reality is not None:
            self.reality.remember(seen)
        b.hide_diverged()
        b.obs.copy_(b.next_obs)
        self._push()
        ended = b.terminated | b.truncated
        # A captured graph cannot branch on data and always uses masks; eager CPU code can skip what has no effect.
        if self.config.device.type != "cpu" or bool(ended.any()):
            self._change_levels(ended & b.counts)  # a shortened first episode says nothing about the robot
            self.reset(ended)

    def _look(self, motion: Motion, fresh: Tensor) -> None:
        """Update height scan and headings where `fresh` (N,) is true, and what is around all feet."""
        if self.config.options.scan.feet:
            self.episode.foot_scan.copy_(scan_of_feet(self.tiles, self.tile, read_feet(self.batch), motion))
        if self.config.device.type == "cpu" and not bool(fresh.any()):
            return
        e, tile = self.episode, self.tile
        ground = self.tiles.scan(tile, motion.position, motion.yaw)
        scan = (motion.position[:, 2:3] - 0.3 - ground).clamp(-1.0, 1.0)
        ahead = [self.tiles.goal(tile, e.goal + index) - motion.position[:, :2] for index in (0, 1)]
        heading = torch.stack([wrapped(bearing(vector) - motion.yaw) for vector in ahead], -1)
        e.scan.copy_(torch.where(fresh[:, None], scan, e.scan))
        e.heading.copy_(torch.where(fresh[:, None], heading, e.heading))

    def _judge(self, motion: Motion, touch: Touch, to_goal: Tensor) -> None:
        """Compute the reward, count waypoints and decide whether the episode ended."""
        b, e = self.buffers, self.episode
        error = wrapped(bearing(to_goal) - motion.yaw)
        change = Change(self.tuning.pays_standing, self._edge_penalty(touch))
        b.reward.copy_(reward(motion, touch, to_goal, error, e.command, change))
        e.near.add_(torch.linalg.vector_norm(to_goal, dim=-1) < REACHED)
        reached = e.near > 1  # near it for a second step
        e.near.masked_fill_(reached, 0)
        e.goal.add_(reached)
        e.goal_step.copy_(torch.where(reached, b.length, e.goal_step))
        torch.ge(e.goal, GOALS, out=b.success)
        b.score.copy_(e.goal / GOALS)
        fallen = (
            (motion.roll.abs() > MAX_ROLL) | (motion.pitch.abs() > MAX_PITCH) | (motion.position[:, 2] < MIN_HEIGHT)
        )
        fallen = fallen & ~b.diverged
        torch.logical_or(fallen, self._stalled() & ~b.diverged, out=b.terminated)
        if self.tuning.waypoint_bonus > 0:
            b.reward.add_(self.tuning.waypoint_bonus * reached)
        torch.logical_and(b.timeout | b.success | b.diverged, ~b.terminated, out=b.truncated)
        if self.config.options.reward == "sparse":
            b.reward.copy_(b.success)
        spent = torch.where(e.goal > 0, e.goal_step, b.length) * STEP
        columns = (b.score, fallen, spent / e.goal.clamp_min(1), e.level)
        b.extras.copy_(torch.stack([column.float() for column in columns], -1))

    def _edge_penalty(self, touch: Touch) -> Tensor | None:
        """Return the penalty (N,) for feet that stand near an edge, if there is one."""
        if self._edges is None:
            return None
        feet = read_feet(self.batch)
        near = self._edges[self.tile[:, None], cell_at(feet[..., 0], feet[..., 1])]
        return self.tuning.edge_penalty * (near & (touch.feet > FOOT_TOUCHES)).float().sum(-1)

    def _stalled(self) -> Tensor:
        """Return where the last waypoint was too long ago (N,); a shortened first episode has no such time."""
        b = self.buffers
        if self.tuning.stall_seconds <= 0:
            return torch.zeros_like(b.diverged)
        steps = max(1, round(self.tuning.stall_seconds / STEP))
        return b.counts & ~b.success & (b.length - self.episode.goal_step >= steps)

    def _remember_step(self, touch: Touch) -> None:
        """Store which feet touch the ground, and the last action."""
        e = self.episode
        touching = touch.feet > FOOT_TOUCHES
        torch.logical_or(touching, e.touching, out=e.contact)
        e.touching.copy_(touching)
        e.action.copy_(self._own_action())

    def _measure(self, motion: Motion) -> Tensor:
        """Return what the robots measure. (N, M), as wide as `observation.measured`"""
        senses = Senses.true(motion, self.episode)
        if self.reality is not None:
            senses = self.reality.measure(senses, self._own_draws)
        return observation.measured(senses, self.episode).clamp(-100.0, 100.0)

    def _observation(self, motion: Motion, seen: Tensor) -> Tensor:
        """Return the observation (N, O), which begins with what the robots measure (N, M)."""
        parts = [seen] if self.reality is None else [self.reality.recall(seen)]
        if self.config.options.privileged != "none":
            known = [VELOCITY * motion.velocity_body, self.body.observation()]
            if self.reality is not None:
                true, individual = self.reality.hidden(Senses.true(motion, self.episode))
                known = [true, *known, individual]
            parts += known
        full = torch.cat(parts, -1).clamp(-100.0, 100.0)
        return self._see(full, self.episode.mirrored) if self.tuning.mirror else full

    @property
    def _own_draws(self) -> Tensor:
        """The random numbers of this step for real robots."""
        return self.buffers.uniform[:, 0, _REALITY]

    def _push(self) -> None:
        """Replace every robot's horizontal velocity by a random one, every `PUSH_EVERY` steps.

        Real robots get a random velocity in addition, each at its own times.
        """
        added: Tensor | None = None
        if self.reality is not None:
            is_due, added = self.reality.pushes(self._own_draws)
        else:
            is_due = (self.episode.clock % PUSH_EVERY == 0).expand_as(self.buffers.diverged)
        if self.config.device.type == "cpu" and not bool(is_due.any()):
            return
        velocity = self.batch.qvel.clone()
        if added is None:
            velocity[:, :2] = PUSH * (2 * self.buffers.uniform[:, 0, _PUSH] - 1)
        else:
            velocity[:, :2] += added
        self.batch.reset(is_due & ~self.buffers.diverged, self.batch.qpos.clone(), velocity)

    # Episodes

    def _change_levels(self, mask: Tensor) -> None:
        """Move worlds where `mask` (N,) is true to their next level, if there is a curriculum."""
        if self.config.options.levels != "curriculum":
            return
        e, uniform = self.episode, self.buffers.uniform[:, 0]
        moves = mask & (e.level == e.own_level)  # an episode on an easier level leaves the own level as it is
        e.own_level.copy_(torch.where(moves, next_level(e.level, e.goal, uniform[:, _LEVEL]), e.own_level))
        level = played_level(e.own_level, uniform[:, _REVISIT], self.config.options.curriculum.revisit)
        e.level.copy_(torch.where(mask, level, e.level))
        self.batch.place(mask, self.tiles.layout(self.tile))

    def reset(self, mask: Tensor) -> None:
        """Start new episodes where `mask` (N,) is true and write their first observations."""
        e, uniform = self.episode, self.buffers.uniform[:, 0]
        for tensor in (e.goal, e.near, e.goal_step):
            tensor.masked_fill_(mask, 0)
        for tensor in (e.action, e.touching, e.contact):
            tensor.masked_fill_(mask[:, None], 0)
        e.command.copy_(torch.where(mask, self._drawn_command(), e.command))
        if self.tuning.mirror:
            e.mirrored.copy_(torch.where(mask, coin(uniform[:, _COMMAND]), e.mirrored))
        if self.reality is not None:
            self._replace_robots(self.reality, mask)
        joints = self._default + JOINT_SPREAD * uniform[:, _JOINTS]
        joints = torch.clamp(joints, constant(go1.LOW, joints), constant(go1.HIGH, joints))
        qpos = torch.cat([constant(START, joints).expand(len(joints), -1), joints], -1)
        self.batch.reset(mask, qpos, torch.zeros_like(self.batch.qvel))
        motion = read_motion(self.batch)
        self._look(motion, mask)
        seen = self._measure(motion)
        if self.reality is not None:
            self.reality.hold(mask, joints)
            self.reality.forget(mask, seen)
        b = self.buffers
        b.obs.copy_(torch.where(mask[:, None], self._observation(motion, seen), b.obs))

    def _replace_robots(self, real: Reality, mask: Tensor) -> None:
        """Let other robots play the next episodes, unless all are nominal."""
        if self.config.options.body == "randomized":
            real.replace(mask, self._own_draws)
        real.schedule(mask, self._own_draws)

    def _drawn_command(self) -> Tensor:
        low, high = COMMAND
        return low + (high - low) * self.buffers.uniform[:, 0, _COMMAND]

    # State

    def world_metrics(self) -> dict[str, Tensor]:
        """Return which level the curriculum has moved each world to, if there is one."""
        if self.config.options.levels != "curriculum":
            return {}
        level = self.episode.own_level
        return {f"worlds_on_level/{index}": (level == index).float() for index in range(NUM_LEVELS)}

    def marks(self, row: int) -> list[Mark]:
        """Return the waypoints that a robot has not reached yet."""
        return waypoints(self.tiles, int(self.tile[row]), int(self.episode.goal[row]))

    def note(self, row: int) -> str:
        """Return the level of a robot's episode."""
        return level_note(str(self.config.options.levels), int(self.episode.level[row]))

    def state_dict(self) -> dict[str, Any]:
        """Return physics, bodies and episodes."""
        state = {
            name: {key: value.clone() for key, value in vars(part).items()} for name, part in self._parts().items()
        }
        return {"batch": self.batch.state_dict(), **state}

    def _parts(self) -> dict[str, Any]:
        """Return the records of tensors that are saved, by name."""
        parts: dict[str, Any] = {"episode": self.episode, "body": self.body}
        return parts if self.reality is None else {**parts, "reality": self.reality.state}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        # States of earlier versions know one level, no mirror, and no scan of the feet.
        new = {name: torch.zeros_like(getattr(self.episode, name)) for name in ("mirrored", "foot_scan")}
        older = {"own_level": state["episode"]["level"], **new}
        saved = {**state, "episode": older | state["episode"]}
        for name, part in self._parts().items():
            for key, tensor in vars(part).items():
                tensor.copy_(saved[name][key])
        self._write_worlds()
        self.batch.load_state_dict(state["batch"])


def coin(uniform: Tensor) -> Tensor:
    """Toss coins (N,) with the last digits of random numbers whose first digits serve another purpose."""
    return (uniform * 4096.0) % 1.0 < 0.5


def make_groups(config: EnvConfig, buffers: Buffers, generator: torch.Generator) -> list[ParkourGroup]:
    """Put all worlds into one batch or, on the CPU, into several batches that threads step in parallel."""
    options, held_out = config.options, config.options.tiles == "held_out"
    spacing = options.scan.spacing
    tiles = Tiles.build(config.tasks, str(options.levels), config.device, held_out=held_out, spacing=spacing)
    worlds = WorldLayout.draw(config, generator)
    total = len(worlds.column)
    parts = -(-total // CPU_WORLDS) if config.device.type == "cpu" else 1
    bounds = [total * index // parts for index in range(parts + 1)]
    slices = [slice(*pair) for pair in pairwise(bounds)]
    return [ParkourGroup(config, worlds.part(rows), tiles, buffers.rows(rows)) for rows in slices]


def share_batches(config: EnvConfig) -> list[list[tuple[Terrain, int]]]:
    """Return which tasks share a batch on a GPU, with their numbers of worlds: all of them."""
    return [list(zip(config.tasks, config.share.envs_per_task, strict=True))]


def sizes(config: EnvConfig) -> WorldSizes:
    """Return the sizes of observations and random numbers."""
    layout, count = observation.layout_of(config), DRAWS
    if config.robot.motors is not None:
        count += reality.DRAWS + (FOOT_SCAN if config.options.scan.feet else 0)
    seen = layout.measured if config.options.privileged == "critic" else None
    return WorldSizes(layout.obs_dim, (1, count), observation.scale_of(layout), seen)


DOMAIN = Domain(
    name="parkour",
    action_dim=JOINTS,
    control_rate=50,
    robot=LeggedRobot,
    defaults={
        "robot": "go1",
        "episode_length": 2000,
        "levels": "hard",
        "level": None,
        "tiles": "trained",
        "body": "randomized",
        "privileged": "all",
    },
    metrics=METRICS,
    sizes=sizes,
    make_groups=make_groups,
    share_batches=share_batches,
)
