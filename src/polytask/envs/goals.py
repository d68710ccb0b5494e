"""Goals that a person may move while an episode runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from polytask.envs.manipulation.worlds import TaskWorlds
from polytask.envs.multi_task import MultiTaskEnv
from polytask.envs.render import places_of
from polytask.errors import UserError


class MovableGoals:
    """The goals of an environment's worlds.

    In manipulation, a goal can be moved if it is a point of its own. Where it is a place on a fixture, such as the end
    of a drawer's way, it cannot. In parkour, goals are waypoints of the terrain.
    """

    def __init__(self, env: MultiTaskEnv) -> None:
        """Find out where the goal of each world is kept."""
        self._env = env
        is_free: dict[str, bool] = {}
        self._owners: dict[int, tuple[TaskWorlds, int]] = {}  # world -> its task, and its number among those worlds
        for world, place in enumerate(places_of(env)):
            part = place.part
            if isinstance(part, TaskWorlds):
                if part.task.name not in is_free:
                    is_free[part.task.name] = part.has_free_goal()
                if is_free[part.task.name]:
                    self._owners[world] = (part, place.row - part.worlds.start)

    def any(self) -> bool:
        """Return whether the goal of any world can be moved."""
        return bool(self._owners)

    def can_move(self, world: int) -> bool:
        """Return whether the goal of a world can be moved."""
        return world in self._owners

    def position(self, world: int) -> NDArray[np.float32]:
        """Return where the goal of a world is. (3,)"""
        owner, index = self._owner(world)
        target: NDArray[np.float32] = owner.state.target[index].cpu().numpy().copy()
        return target

    def move(self, world: int, position: Sequence[float]) -> None:
        """Move the goal of a world until its next episode; the policy sees it from the next step on."""
        owner, index = self._owner(world)
        owner.move_goal(index, position)
        self._env.show_changes()

    def _owner(self, world: int) -> tuple[TaskWorlds, int]:
        if world not in self._owners:
            raise UserError(f"the goal of world {world} cannot be moved")
        return self._owners[world]
