"""Examples between the Bellman updaters and the trainer: states, actions and targets, with the versions they used."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from polytask.mtopt.learning.learner import TrainBatch
from polytask.mtopt.records import ACTION_DIM, POSE_DIM


@dataclass(frozen=True)
class Examples:
    """The result of one step of an updater: R rows, on any device."""

    image: Tensor  # (R, H, W, 3) uint8
    closed: Tensor  # (R,)
    height: Tensor  # (R,) m
    task: Tensor  # (R,) int64, index of the run's tasks
    action: Tensor  # (R, A)
    target: Tensor  # (R,) in [0, 1]
    pose: Tensor  # (R, 3)
    policy: Tensor  # (R,) int64, version of the weights that acted; 0 for a script
    weights: int  # version that computed the targets
    detector: str  # version that gave the rewards; empty: people's labels only


class TrainBuffer:
    """A ring of examples on a device; new ones replace the oldest."""

    def __init__(
        self,
        capacity: int,
        image_size: tuple[int, int],
        device: torch.device | str = "cpu",
        action_size: int = ACTION_DIM,
    ) -> None:
        """Reserve the memory for pictures of a height and width, and for actions."""
        self._actions = action_size
        self.capacity, self.device = capacity, torch.device(device)
        self.detectors: list[str] = []  # names by the numbers in the ring
        self._image = torch.zeros(capacity, *image_size, 3, dtype=torch.uint8, device=device)
        self._numbers = torch.zeros(capacity, 3 + action_size + POSE_DIM, device=device)
        self._whole = torch.zeros(capacity, 4, dtype=torch.int64, device=device)  # task, policy, weights, detector
        self._next = 0
        self._size = 0

    def __len__(self) -> int:
        """Count the examples."""
        return self._size

    def clear(self) -> None:
        """Remove all examples."""
        self._next = self._size = 0

    def add(self, examples: Examples) -> None:
        """Add examples; if there are more than the capacity, the last ones stay."""
        if examples.detector not in self.detectors:
            self.detectors.append(examples.detector)
        rows = min(len(examples.target), self.capacity)
        place = (self._next + torch.arange(rows, device=self.device)) % self.capacity
        numbers = (examples.closed[:, None], examples.height[:, None], examples.target[:, None])
        # Filled, not made from a list: a list is copied to the device, and the host waits for the copy.
        weights, detector = (
            torch.full_like(examples.task, value)
            for value in (examples.weights, self.detectors.index(examples.detector))
        )
        whole = torch.stack((examples.task, examples.policy, weights, detector), -1)
        self._image[place] = examples.image[-rows:].to(self.device)
        self._numbers[place] = torch.cat((*numbers, examples.action, examples.pose), -1)[-rows:].to(self.device)
        self._whole[place] = whole[-rows:].to(self.device)
        self._next = (self._next + rows) % self.capacity
        self._size = min(self._size + rows, self.capacity)

    def sample(self, batch: int, generator: torch.Generator) -> tuple[TrainBatch, Tensor]:
        """Draw examples with replacement; also return their versions (B, 3) of policy, weights and detector."""
        row = torch.randint(self._size, (batch,), generator=generator, device=self.device)
        numbers, whole = self._numbers[row], self._whole[row]
        action, pose = numbers[:, 3 : 3 + self._actions], numbers[:, 3 + self._actions :]
        drawn = TrainBatch(self._image[row], numbers[:, 0], numbers[:, 1], whole[:, 0], action, numbers[:, 2], pose)
        return drawn, whole[:, 1:]
