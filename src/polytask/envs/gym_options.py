"""What the two Gymnasium environments, of many worlds and of one, share: options and pictures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from polytask.envs.multi_task import MultiTaskEnv
from polytask.envs.render import Pose, Renderer, pose_of
from polytask.envs.task_code import TASK_CODES
from polytask.settings import check_values, setting

MODES = ("same_step", "next_step", "disabled")


@dataclass
class PictureOptions:
    """Options of `render`."""

    render_mode: str | None = setting(None, "rgb_array, or None: no pictures", choices=("rgb_array",))
    width: int = setting(480, "width of a picture in pixels", within=(16, 4_096))
    height: int = setting(360, "height of a picture in pixels", within=(16, 4_096))


@dataclass
class VectorOptions(PictureOptions):
    """Options of the vector environment, besides those of `polytask.make`."""

    output: str = setting("numpy", "numpy arrays, or torch tensors on the device", choices=("numpy", "torch"))
    autoreset_mode: Any = setting(
        "same_step",
        "when the next episode starts: same_step, next_step, or disabled: when `reset` is called",
        choices=MODES,
    )
    task_code: str = setting(
        "none", "onehot appends the task, as Meta-World does, to the observation", choices=TASK_CODES
    )


def split_options(kind: type[Any], options: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return the checked options of one of the classes above, and the options that are left for `polytask.make`."""
    names = {each.name for each in fields(kind)}
    own = kind(**{name: value for name, value in options.items() if name in names})
    mode = getattr(own, "autoreset_mode", None)
    if isinstance(mode, gymnasium.vector.AutoresetMode):
        own.autoreset_mode = mode.name.lower()
    check_values(own)
    return own, {name: value for name, value in options.items() if name not in names}


class Pictures:
    """Draws all worlds of an environment.

    When an episode ends, its world starts the next one in the same step. Where that is not what the caller shall see,
    the world is drawn as it was one step earlier.
    """

    def __init__(self, env: MultiTaskEnv, options: PictureOptions) -> None:
        """Prepare to draw; OpenGL is opened by the first picture."""
        self._env, self._size = env, (options.width, options.height)
        self._renderers: dict[str, Renderer] = {}
        counts = zip(env.spec.tasks, env.spec.envs_per_task, strict=True)
        self._worlds = [(task, world) for task, count in counts for world in range(count)]
        self._before: list[Pose] = []

    def remember(self) -> None:
        """Keep the poses of all worlds. Call it before a step whose ended worlds shall be drawn as they were."""
        self._before = [pose_of(self._env, task, world) for task, world in self._worlds]

    def draw(self, ended: NDArray[np.bool_] | None = None) -> tuple[NDArray[np.uint8], ...]:
        """Draw the worlds, each (H, W, 3): as they are, or before the last step where `ended` (N,) is true."""
        if not self._renderers:
            self._renderers = {task: Renderer(self._env, task, *self._size) for task in self._env.spec.tasks}
        frames = []
        for index, (task, world) in enumerate(self._worlds):
            renderer = self._renderers[task]
            if ended is not None and ended[index] and self._before:
                renderer.follow_layout(world)
                frames.append(renderer.draw(self._before[index]))
            else:
                frames.append(renderer.frame(world))
        return tuple(frames)

    def close(self) -> None:
        """Free the OpenGL contexts."""
        for renderer in self._renderers.values():
            renderer.close()
        self._renderers = {}
