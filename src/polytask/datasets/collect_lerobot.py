"""Write the episodes of `polytask collect` as a LeRobot data set (`lerobot.py`), with camera pictures.

While a policy plays, only the poses of the worlds are kept; pictures are drawn afterwards, one episode at a time. A row
is a frame and the action that follows it, so the observation after the last action is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from polytask.config.schema import CollectConfig
from polytask.datasets.lerobot import About, LeRobotWriter
from polytask.datasets.played import PlayedEpisodes
from polytask.envs.layouts import MANIPULATION, Layout, layout_of
from polytask.envs.multi_task import MultiTaskEnv
from polytask.envs.render import Layout as GeomLayout
from polytask.envs.render import Pose, Renderer, task_slice
from polytask.envs.render_progress import RenderProgress

STATE, REST = "observation.state", "observation.environment_state"
_PROPRIOCEPTION = 4  # first numbers of an arm's observation: hand position and gripper openness


class Film:
    """The poses of all worlds during one episode of each."""

    def __init__(self, env: MultiTaskEnv) -> None:
        """Prepare to film an environment."""
        self._env = env
        self._steps: list[list[tuple[Tensor, Tensor, Tensor]]] = []  # (T, groups)

    def take(self) -> None:
        """Keep the current poses; they stay on their device, so that nothing waits for it."""
        batches = [group.batch for group in self._env.groups]
        self._steps.append([(one.qpos.clone(), one.mocap_pos.clone(), one.mocap_quat.clone()) for one in batches])

    def poses(self, task: str, world: int, steps: int) -> list[Pose]:
        """Return the first poses of a task's world."""
        group, own = task_slice(self._env, task)
        place, row = list(self._env.groups).index(group), own.worlds.start + world
        found = []
        for step in self._steps[:steps]:
            qpos, position, turn = (tensor[row].cpu().numpy() for tensor in step[place])
            found.append(Pose(qpos, position[own.mocaps], turn[own.mocaps]))
        return found


class LeRobotExport:
    """Draws and writes the episodes of one shard after the other."""

    def __init__(self, env: MultiTaskEnv, root: Path, config: CollectConfig) -> None:
        """Open a renderer for each task.

        Raises:
            UserError: If a task does not have one of the cameras, or pictures cannot be drawn here.
        """
        self._env, self._cameras = env, config.views
        self._tasks = env.config.tasks
        self._layouts: dict[str, list[GeomLayout]] = {}
        self._film = Film(env)
        with ExitStack() as stack:
            size = config.size
            self._renderers = {
                task.name: stack.enter_context(closing(Renderer(env, task.name, *size))) for task in self._tasks
            }
            for renderer in self._renderers.values():
                for camera in self._cameras:
                    renderer.check_camera(camera)
            self._closing = stack.pop_all()
        options, sizes = env.config.options, (env.spec.obs_dim, env.spec.action_dim)
        layout = layout_of(*sizes, options.reality.history, has_foot_scan=options.scan.feet)
        self._split = _PROPRIOCEPTION if layout is MANIPULATION else env.spec.obs_dim
        about = About(env.config.robot.name, env.config.domain.control_rate, _names(layout, self._split))
        self._writer = LeRobotWriter(root, about)

    @property
    def frames(self) -> int:
        """Rows so far."""
        return self._writer.frames

    def begin(self) -> None:
        """Film new episodes; call it after the worlds were reset."""
        worlds = range(self._env.spec.envs_per_task[0])
        self._layouts = {name: [one.layout(world) for world in worlds] for name, one in self._renderers.items()}
        self._film = Film(self._env)

    def take(self) -> None:
        """Keep the current poses; call it before every step."""
        self._film.take()

    def add(self, episodes: PlayedEpisodes, keep: int) -> None:
        """Write the first `keep` episodes of every task, which were filmed since `begin`."""
        per_task = self._env.spec.envs_per_task[0]
        steps = {name: values.cpu().numpy() for name, values in episodes.steps.items()}
        lengths = episodes.length.tolist()
        with RenderProgress("drawing the pictures", keep * len(self._tasks)) as progress:
            for number, task in enumerate(self._tasks):
                for world in range(keep):
                    row = number * per_task + world
                    columns = self._columns({name: rows[: lengths[row], row] for name, rows in steps.items()})
                    self._writer.add(task.summary, columns, self._pictures(task.name, world, lengths[row]))
                    progress.advance()

    def finish(self) -> None:
        """Complete the data set."""
        self._writer.close()

    def close(self) -> None:
        """Free the renderers."""
        self._closing.close()

    def _columns(self, steps: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Return the columns of an episode."""
        obs, split = steps["obs"], self._split
        parts = {STATE: obs[:, :split]} | ({REST: obs[:, split:]} if split < obs.shape[1] else {})
        return {
            **parts,
            "action": steps["action"],
            "next.reward": steps["reward"],
            "next.done": steps["terminated"] | steps["truncated"],
            "next.terminated": steps["terminated"],
            "next.truncated": steps["truncated"],
            "next.success": steps["success"],
        }

    def _pictures(self, task: str, world: int, steps: int) -> dict[str, NDArray[np.uint8]]:
        """Draw an episode. (T, H, W, 3) of each camera"""
        renderer = self._renderers[task]
        renderer.use_layout(self._layouts[task][world])
        drawn = [renderer.draw_views(pose, self._cameras) for pose in self._film.poses(task, world, steps)]
        columns = zip(*drawn, strict=True)
        return {f"observation.images.{name}": np.stack(one) for name, one in zip(self._cameras, columns, strict=True)}


def _names(layout: Layout | None, split: int) -> dict[str, Sequence[str]]:
    """Return the names of the numbers, where they are known."""
    if layout is None:
        return {}
    numbers = [name if size == 1 else f"{name} {index}" for name, size, *_ in layout.parts for index in range(size)]
    actions = [name for name, _ in layout.action]
    return {STATE: numbers[:split], REST: numbers[split:], "action": actions}
