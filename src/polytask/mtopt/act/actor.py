"""A learned policy that acts on one picture at a time."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from polytask.device import check_device
from polytask.errors import UserError, require_known
from polytask.mtopt.config import ActConfig
from polytask.mtopt.label.pictures import fit_picture
from polytask.mtopt.learning.acting import best_action
from polytask.mtopt.learning.learner import needs_pose
from polytask.mtopt.learning.weights import WeightFolder
from polytask.mtopt.records import POSE_DIM, Observation
from polytask.mtopt.run_tasks import tasks_of
from polytask.mtopt.runtime.folder import RunFolder


@dataclass(frozen=True)
class Look:
    """What a robot sees and feels before an action."""

    image: NDArray[np.uint8]  # (H, W, 3)
    closed: bool = False  # the gripper is commanded to close
    height: float = 0.0  # of the fingertips above the floor, m
    pose: Sequence[float] | None = None  # commanded x, y (m) and yaw (rad) of the hand


@dataclass(frozen=True)
class Decision:
    """An action and the network's opinion of it."""

    action: list[float]  # the numbers of the run's actions
    value: float  # probability that the episode succeeds


class Actor:
    """Chooses actions for the tasks of a run; any thread may call it."""

    def __init__(self, config: ActConfig) -> None:
        """Load weights.

        Raises:
            UserError: If there is no run or no such weights.
        """
        run = RunFolder(config.root).config()
        self.device = check_device(config.device)
        self.weights = WeightFolder(run.weights).load(run.learner, self.device, config.weights)
        self.tasks, self.image_shape, self.needs_pose = run.learned, run.world.image_shape, needs_pose(run.learner)
        self.action_names, self._places = run.learner.network.action.names, tasks_of(run)
        self._fit, self._cem = config.fit, run.learner.bellman.cem
        self._generator = torch.Generator(self.device).manual_seed(config.seed)
        self._lock = threading.Lock()  # of the generator

    def act(self, look: Look, task: str) -> Decision:
        """Return the best action for a task.

        Raises:
            UserError: If the task is not learned, or the picture, a number or the pose cannot be used.
        """
        index = self._places.index(require_known("task", task, self.tasks))
        if look.pose is None and self.needs_pose:
            raise UserError("the network of this run (merge=located) needs the pose of the hand: x, y and yaw")
        if look.pose is not None and len(look.pose) != POSE_DIM:
            raise UserError(f"the pose has {len(look.pose)} numbers, not {POSE_DIM}: x, y and yaw")
        pose = [float("nan")] * POSE_DIM if look.pose is None else list(look.pose)
        if not np.isfinite([look.height, *(look.pose or ())]).all():
            raise UserError("height and pose must be finite numbers")
        picture = fit_picture(Image.fromarray(look.image), self.image_shape, self._fit)
        seen = Observation(
            image=torch.from_numpy(picture.copy())[None].to(self.device),
            closed=torch.tensor([float(look.closed)], device=self.device),
            height=torch.tensor([look.height], device=self.device),
            pose=torch.tensor([pose], device=self.device),
        )
        number = torch.tensor([index], device=self.device)
        with self._lock:
            action, logit = best_action(self.weights.q1, seen, number, self._cem, self._generator)
        return Decision(action[0].tolist(), float(logit[0].sigmoid()))
