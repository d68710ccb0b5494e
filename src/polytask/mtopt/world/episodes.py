"""Episodes of all worlds at once: a policy acts until the end, the world presents the outcome, the truth is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from polytask.mtopt.config.world_specs import world_spec
from polytask.mtopt.records import Episode
from polytask.mtopt.task_table import TaskTable
from polytask.mtopt.world.protocol import Policy, World


@dataclass(frozen=True)
class EpisodeBatch:
    """One episode of each of N worlds, on the worlds' device, padded after its end."""

    images: Tensor  # (N, T + 1, H, W, 3) uint8
    closed: Tensor  # (N, T + 1)
    height: Tensor  # (N, T + 1)
    actions: Tensor  # (N, T, A)
    length: Tensor  # (N,) actions taken
    outcome: Tensor  # (N, V, H, W, 3) uint8
    task: Tensor  # (N,) places in the table of tasks
    truth: Tensor  # (N, G) bool, of the tasks that the world grades
    policy: str
    seed: int  # of the worlds
    pose: Tensor  # (N, T + 1, 3) commanded x, y and yaw of the hand
    tasks: tuple[str, ...]  # names, in the order of their places
    graded: tuple[str, ...]  # G names

    def truth_of(self, task: str) -> Tensor:
        """Return the truth (N,) of a task that the world grades."""
        return self.truth[:, self.graded.index(task)]

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
                task=self.tasks[tasks[row]],
                policy=self.policy,
                seed=self.seed,
                truth=dict(zip(self.graded, truth[row], strict=True)),
                pose=pose[row, : length + 1],
            )
            for row, length in enumerate(lengths)
        ]


def world_tasks(world: World) -> TaskTable:
    """Return the tasks that a world knows by itself, without those of a run."""
    own = world_spec(world.config.kind).tasks
    return TaskTable(own, len(own))


def task_indices(tasks: Sequence[str], world: World, table: TaskTable | None = None) -> Tensor:
    """Return the places (N,) of one task for all worlds, or of one task per world, in a table or the world's own."""
    known = table or world_tasks(world)
    names = list(tasks) * world.num_envs if len(tasks) == 1 else list(tasks)
    if len(names) != world.num_envs:
        raise ValueError(f"{len(names)} tasks for {world.num_envs} worlds")
    places = {name: known.index(name) for name in dict.fromkeys(names)}
    return torch.tensor([places[name] for name in names], device=world.device)


def run_episodes(
    world: World, policy: Policy, tasks: Sequence[str] | Tensor, max_steps: int = 12, table: TaskTable | None = None
) -> EpisodeBatch:
    """Run one episode in every world from its present state, and present its outcome.

    Args:
        world: The worlds.
        policy: Acts in all of them.
        tasks: One task for all worlds, or one per world: names, or places (N,) in the table.
        max_steps: Most actions of an episode.
        table: Tasks of the run; None for the world's own.
    """
    known, spec = table or world_tasks(world), world_spec(world.config.kind)
    assert spec.action is not None, "a world that runs declares its actions"
    task = tasks if isinstance(tasks, Tensor) else task_indices(tasks, world, known)
    count, device = world.num_envs, world.device
    images = torch.zeros(count, max_steps + 1, *world.config.image_shape, 3, dtype=torch.uint8, device=device)
    closed, height = (torch.zeros(count, max_steps + 1, device=device) for _ in range(2))
    actions = torch.zeros(count, max_steps, spec.action.size, device=device)
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
    truth = world.truth(spec.graded) if spec.graded else torch.zeros(count, 0, dtype=torch.bool, device=device)
    seen = (images, closed, height, actions, length, outcome, task, truth)
    return EpisodeBatch(*seen, policy.name, world.config.seed, pose, known.names, spec.graded)
