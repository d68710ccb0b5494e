"""Episodes of all worlds at once: a policy acts until the end, the hand presents the outcome, the truth is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from polytask.mtopt.records import ACTION_DIM, Episode, Observation
from polytask.mtopt.tasks import ALL_TASKS
from polytask.mtopt.world.bin_world import BinWorld


class Policy(Protocol):
    """Anything that chooses actions for `run_episodes`."""

    name: str

    def reset(self, mask: Tensor | None = None) -> None:
        """Start new episodes where `mask` (N,) holds, or everywhere."""
        ...

    def act(self, observation: Observation, task: Tensor) -> Tensor:
        """Return actions (N, 8) for tasks (N,), indices into `ALL_TASKS`."""
        ...


@dataclass(frozen=True)
class EpisodeBatch:
    """One episode of each of N worlds, on the worlds' device, padded after its end."""

    images: Tensor  # (N, T + 1, H, W, 3) uint8
    closed: Tensor  # (N, T + 1)
    height: Tensor  # (N, T + 1)
    actions: Tensor  # (N, T, 8)
    length: Tensor  # (N,) actions taken
    outcome: Tensor  # (N, V, S, S, 3) uint8
    task: Tensor  # (N,) index into ALL_TASKS
    truth: Tensor  # (N, len(ALL_TASKS)) bool
    policy: str
    seed: int  # of the worlds
    pose: Tensor  # (N, T + 1, 3) commanded x, y and yaw of the hand

    def episodes(self) -> list[Episode]:
        """Copy the episodes to the host without their padding."""
        lengths, tasks = self.length.tolist(), self.task.tolist()
        images, outcome = self.images.cpu().numpy(), self.outcome.cpu().numpy()
        closed, height = self.closed.cpu().numpy(), self.height.cpu().numpy()
        actions, truth = self.actions.cpu().numpy(), self.truth.tolist()
        pose = self.pose.cpu().numpy()
        return [
            Episode(
                images=images[row, : length + 1],
                closed=closed[row, : length + 1],
                height=height[row, : length + 1],
                actions=actions[row, :length],
                outcome=outcome[row],
                task=ALL_TASKS[tasks[row]],
                policy=self.policy,
                seed=self.seed,
                truth=dict(zip(ALL_TASKS, truth[row], strict=True)),
                pose=pose[row, : length + 1],
            )
            for row, length in enumerate(lengths)
        ]


def task_indices(tasks: Sequence[str], world: BinWorld) -> Tensor:
    """Return the indices (N,) into `ALL_TASKS` of one task for all worlds, or of one task per world."""
    names = list(tasks) * world.num_envs if len(tasks) == 1 else list(tasks)
    if len(names) != world.num_envs:
        raise ValueError(f"{len(names)} tasks for {world.num_envs} worlds")
    return torch.tensor([ALL_TASKS.index(name) for name in names], device=world.device)


def run_episodes(world: BinWorld, policy: Policy, tasks: Sequence[str] | Tensor, max_steps: int = 12) -> EpisodeBatch:
    """Run one episode in every world from its present state, and present its outcome."""
    task = tasks if isinstance(tasks, Tensor) else task_indices(tasks, world)
    count, size, device = world.num_envs, world.config.image_size, world.device
    images = torch.zeros(count, max_steps + 1, size, size, 3, dtype=torch.uint8, device=device)
    closed, height = (torch.zeros(count, max_steps + 1, device=device) for _ in range(2))
    actions = torch.zeros(count, max_steps, ACTION_DIM, device=device)
    pose = torch.zeros(count, max_steps + 1, 3, device=device)
    length = torch.zeros(count, dtype=torch.long, device=device)
    policy.reset()
    for step in range(max_steps + 1):
        observation = world.observe()
        images[:, step], closed[:, step], height[:, step] = observation.image, observation.closed, observation.height
        pose[:, step] = observation.pose
        # On the CPU this check is free; on a GPU it would wait for the device.
        if step == max_steps or (device.type == "cpu" and bool(world.done.all())):
            break
        length += ~world.done
        actions[:, step] = policy.act(observation, task)
        world.step(actions[:, step])
    outcome = world.present().clone()
    truth = world.truth(ALL_TASKS)
    seen = (images, closed, height, actions, length, outcome, task, truth)
    return EpisodeBatch(*seen, policy.name, world.config.seed, pose)
