"""MultiTaskEnv: one `step` call advances N worlds of K tasks.

Worlds are sorted by task; each task has a contiguous slice. The rows of the buffers can have another order, in which
the worlds of a group are contiguous (`RowOrder`). An episode is `truncated` at the time limit or when its simulation
diverges. In parkour, a fall is also an end (`terminated`), and so is the last waypoint (`truncated`). The next episode
starts automatically. On a GPU, a control step replays captured graphs, with one stream per group of
worlds, and does not wait for the device. On the CPU, threads share the physics and one of them does everything else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import fields, replace
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box
from numpy.typing import NDArray
from torch import Tensor

from polytask.cuda_graph import Graphed, fixed_addresses
from polytask.envs.domain import Buffers, EnvConfig
from polytask.envs.render import Renderer
from polytask.envs.row_order import RowOrder
from polytask.envs.runners import make_runner
from polytask.envs.spaces import action_space, observation_space
from polytask.errors import UserError
from polytask.types import EPISODE_METRICS, EnvSpec, Step


class MultiTaskEnv(AbstractContextManager["MultiTaskEnv"]):
    """N worlds of K tasks with automatic resets; implements `types.VecEnv`."""

    def __init__(self, config: EnvConfig, *, copy: bool = False) -> None:
        """Build every scene and start the first episodes.

        Args:
            config: What to build.
            copy: Return copies, which the caller can keep. Otherwise `obs`, `reset` and `step` return the buffers of
                the environment, which the next step overwrites.
        """
        self.config, self._copies, self._is_closed = config, copy, False
        self._renderers: dict[tuple[str, int, int], Renderer] = {}
        self.device = config.device
        counts, domain, sizes = config.share.envs_per_task, config.domain, config.sizes
        names = tuple(task.name for task in config.tasks)
        self.spec = EnvSpec(
            obs_dim=sizes.obs_dim,
            action_dim=domain.action_dim,
            tasks=names,
            envs_per_task=counts,
            episode_length=config.episode_length,
            obs_scale=sizes.obs_scale,
            actor_dim=sizes.actor_dim,
            places=sizes.places,
        )
        self.task = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts)).to(self.device)
        self._generator = torch.Generator(self.device).manual_seed(config.options.seed)
        self._buffers = self._make_buffers()
        self.groups = list(domain.make_groups(config, self._buffers, self._generator))
        self._order = RowOrder.of(self.groups, names, self.task)
        self._step = self._order.publish(self._buffers)
        self._runner = make_runner(self.groups, self.device, self.threads)
        self._before, self._after = Graphed(self._start_step, self.device), Graphed(self._end_step, self.device)
        self.reset()

    @property
    def total_spec(self) -> EnvSpec:
        """The spec of an environment with the worlds of all ranks; in a single process it is `spec`."""
        return replace(self.spec, envs_per_task=self.config.envs_per_task)

    @property
    def num_envs(self) -> int:
        """Number of worlds N of this process."""
        return self.spec.num_envs

    @property
    def observation_space(self) -> Box:
        """The observation of one world, as a space of Gymnasium."""
        return observation_space(self.spec)

    @property
    def action_space(self) -> Box:
        """The action of one world, as a space of Gymnasium."""
        return action_space(self.spec)

    @property
    def threads(self) -> int:
        """Threads that share the physics on the CPU."""
        assert self.config.options.threads is not None
        return self.config.options.threads

    @property
    def obs(self) -> Tensor:
        """Observation to act on now. (N, O)"""
        return self._step.obs.clone() if self._copies else self._step.obs

    def seed(self, seed: int) -> None:
        """Seed the random generator of the environment; running episodes do not change until `reset`."""
        self._generator.manual_seed(seed)

    def reset(self, mask: Tensor | None = None, seeds: Sequence[int | None] | None = None) -> Tensor:
        """Start a new episode in every world, or in those where `mask` (N,) is true, and return the observations.

        With `stagger`, a reset of all worlds starts them at random step counts, so that episodes do not all end at the
        same step. The metrics do not count these shortened first episodes.

        Args:
            mask: Where to start; in the other worlds the episode goes on. (N,) bool
            seeds: One seed per world, or None, which leaves the start of a world to the environment's generator.
        """
        self._check_open()
        b = self._buffers
        self._draw(b.uniform, lambda tensor: tensor.uniform_(generator=self._generator))
        if seeds is not None:
            self._draw_starts(seeds)
        chosen = torch.ones_like(b.truncated) if mask is None else self._order.in_rows(mask.to(self.device))
        parts = chosen.split([group.batch.num_worlds for group in self.groups])
        with fixed_addresses(self):
            for group, part in zip(self.groups, parts, strict=True):
                group.reset(part)
        for tensor in (self._best, self._return, b.length):
            tensor.masked_fill_(chosen, 0)
        if mask is None:
            self._metrics.zero_()
        if mask is None and self.config.options.stagger:
            length = self.config.episode_length
            self._draw(b.length, lambda tensor: tensor.random_(0, length, generator=self._generator))
            b.length.masked_fill_(self._is_exempted(), 0)
        b.counts.copy_(torch.where(chosen, b.length == 0, b.counts))
        self._order.publish(b, self._step)
        return self.obs

    def _is_exempted(self) -> Tensor:
        """Return which rows (N,) belong to tasks that do not start in the middle of an episode."""
        names = self.config.options.exempted_tasks or ()
        exempted = torch.tensor([task in names for task in self.spec.tasks], device=self.device)  # (K,)
        return exempted[self._order.task]

    def step(self, action: Tensor) -> Step:
        """Apply one action (N, A), clipped to [-1, 1], and reset the worlds whose episode ended."""
        self._check_open()
        b = self._buffers
        b.action.copy_(self._order.in_rows(action.detach()))
        self._draw(b.uniform, lambda tensor: tensor.uniform_(generator=self._generator))
        self._before()
        self._runner.run()
        self._after()
        if not self._copies:
            return self._step
        return Step(**{each.name: getattr(self._step, each.name).clone() for each in fields(Step)})

    def render(self, world: int = 0, width: int = 480, height: int = 360) -> NDArray[np.uint8]:
        """Draw one world as it is now. (height, width, 3)"""
        self._check_open()
        number = int(self.task[world])
        name = self.spec.tasks[number]
        key = (name, width, height)
        if key not in self._renderers:
            self._renderers[key] = Renderer(self, *key)
        return self._renderers[key].frame(world % self.num_envs - sum(self.spec.envs_per_task[:number]))

    @property
    def episode_step(self) -> Tensor:
        """Number of steps that each world has taken in its current episode. (N,) int64"""
        length = self._order.in_worlds(self._buffers.length)
        return length.clone() if self._copies else length

    def set_episode_step(self, steps: Tensor) -> None:
        """Set how many steps each world has taken (N,); the metrics do not count episodes that this shortens."""
        rows = self._order.in_rows(steps.to(self.device))
        self._buffers.counts &= rows == 0
        self._buffers.length.copy_(rows)

    @property
    def score(self) -> Tensor:
        """Share of its task that each world had done after the last step, before any reset, 0 to 1. (N,)"""
        score = self._order.in_worlds(self._buffers.score)
        return score.clone() if self._copies else score

    def show_changes(self) -> None:
        """Let `obs` show what was written to the groups' buffers between two steps, such as another goal."""
        self._order.publish(self._buffers, self._step)

    def episode_metrics(self) -> dict[str, Tensor]:
        """Return the domain's metrics (N,) of each world's episode after the last step, before any reset."""
        columns = self._order.in_worlds(self._buffers.extras).unbind(-1)
        return dict(zip(self.config.domain.metrics, columns, strict=True))

    def pop_metrics(self) -> dict[str, Tensor]:
        """Return per-task sums (K,) over the episodes that ended since the last call, and reset the sums.

        The names are `EPISODE_METRICS` and the metrics of the domain. `success` is the sum of the highest scores of the
        episodes. In manipulation this score is 1 if the task succeeded at any step, else 0.
        """
        for group in self.groups:
            group.batch.warn_of_overflow()
        sums = self._metrics.clone()
        self._metrics.zero_()
        return dict(zip((*EPISODE_METRICS, *self.config.domain.metrics), sums.unbind(-1), strict=True))

    def world_metrics(self) -> dict[str, Tensor]:
        """Return per-task sums (K,) of the domain's world metrics, such as the number of worlds on each level."""
        parts = [group.world_metrics() for group in self.groups]
        zeros = torch.zeros(self.spec.num_tasks, device=self.device)
        values = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}  # (N,) each
        return {name: zeros.index_add(0, self._order.task, value) for name, value in values.items()}

    def state_dict(self) -> dict[str, Any]:
        """Return everything that the next step depends on."""
        b = self._buffers
        return {
            "groups": [group.state_dict() for group in self.groups],
            "tasks": self._tasks_of_groups(),
            "obs": b.obs.clone(),
            "episode": {name: tensor.clone() for name, tensor in self._episode.items()},
            "metrics": self._metrics.clone(),
            "generator": self._generator.get_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned.

        Raises:
            UserError: If the groups have other tasks, as they do on another physics backend.
        """
        own = self._tasks_of_groups()
        if state.get("tasks", own) != own:  # states of earlier versions have no such list
            raise UserError("its worlds are grouped in another way: it was saved on another physics backend")
        with fixed_addresses(self):
            for group, part in zip(self.groups, state["groups"], strict=True):
                group.load_state_dict(part)
        self._buffers.obs.copy_(state["obs"])
        for name, tensor in self._episode.items():
            tensor.copy_(state["episode"][name])
        self._metrics.copy_(state["metrics"])
        self._generator.set_state(state["generator"].cpu())
        self._order.publish(self._buffers, self._step)

    def _tasks_of_groups(self) -> list[str]:
        """Return the names of the tasks in the order of the groups."""
        return [part.task.name for group in self.groups for part in group.tasks]

    def close(self) -> None:
        """Stop the worker threads and free what `render` opened. After this, `reset` and `step` are errors."""
        self._is_closed = True
        self._runner.close()
        for renderer in self._renderers.values():
            renderer.close()
        self._renderers = {}

    def __exit__(self, *exception: object) -> None:
        """Close the environment."""
        self.close()

    def require_copies(self, user: str) -> None:
        """Check that the tensors of a step can be kept.

        Raises:
            UserError: If the next step overwrites them. The message names the user of this environment.
        """
        if not self._copies:
            raise UserError(f"{user} keeps what a step returns; build the environment with copy=True, the default")

    def _check_open(self) -> None:
        if self._is_closed:
            raise UserError("this environment is closed; make a new one")

    def _make_buffers(self) -> Buffers:
        n, device, domain = self.spec.num_envs, self.device, self.config.domain
        self._best, self._return = torch.zeros(n, device=device), torch.zeros(n, device=device)
        self._metrics = torch.zeros(self.spec.num_tasks, len(EPISODE_METRICS) + len(domain.metrics), device=device)
        buffers = Buffers.allocate(n, self.config)
        self._episode = {"length": buffers.length, "best": self._best, "return": self._return, "counts": buffers.counts}
        return buffers

    def _draw(self, rows: Tensor, fill: Callable[[Tensor], Tensor]) -> None:
        """Fill a buffer (n, ...) with random numbers.

        A world gets the same ones whatever the order of the rows, and as if this process had the worlds of all ranks.
        """
        share = self.config.share
        if share.ranks.is_alone and self._order.is_sorted:
            fill(rows)
        else:
            own = share.draw(lambda count: fill(rows.new_empty(count, *rows.shape[1:])))
            rows.copy_(self._order.in_rows(own))

    def _draw_starts(self, seeds: Sequence[int | None]) -> None:
        """Replace the random numbers of worlds that have a seed by ones that depend on this seed only."""
        if len(seeds) != self.num_envs:
            raise UserError(f"there are {len(seeds)} seeds for {self.num_envs} worlds; give one per world")
        drawn = self._order.in_worlds(self._buffers.uniform).cpu().clone()
        for world, seed in enumerate(seeds):
            if seed is not None:
                drawn[world].uniform_(generator=torch.Generator().manual_seed(int(seed)))
        self._buffers.uniform.copy_(self._order.in_rows(drawn.to(self.device)))

    def _start_step(self) -> None:
        b = self._buffers
        b.action.clamp_(-1.0, 1.0)
        b.length += 1
        torch.ge(b.length, self.config.episode_length, out=b.timeout)

    def _end_step(self) -> None:
        """Update returns and scores, and add ended episodes to the metrics."""
        b = self._buffers
        self._return += b.reward
        torch.maximum(self._best, b.score, out=self._best)
        ended = b.terminated | b.truncated
        counted = ended & b.counts
        columns = (torch.ones_like(b.reward), self._best, b.success, self._return, b.length)
        rows = [column.float() * counted for column in columns] + [b.diverged.float()]
        rows += [column * counted for column in b.extras.unbind(-1)]
        # Not a matrix product: that would start torch's thread pool, whose busy waiting slows down the physics.
        self._metrics.index_add_(0, self._order.task, torch.stack(rows, -1))  # (K, M)
        for tensor in (self._return, self._best, b.length):
            tensor.masked_fill_(ended, 0)
        b.counts |= ended
        self._order.publish(b, self._step)
