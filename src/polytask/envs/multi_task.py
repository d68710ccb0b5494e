"""MultiTaskEnv: N worlds of K tasks behind one `step`.

Worlds are sorted by task, each task owning a contiguous slice. Episodes end by the time limit, when a simulation
diverges (both `truncated`), or as the domain says: manipulation never ends one itself, a robot's fall in parkour is
`terminated`. They restart by themselves. On a GPU a control step replays captured graphs, one stream per group of
worlds, without waiting for the device; on the CPU threads share the physics and one of them does the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

import torch
from torch import Tensor

from polytask.cuda_graph import Graphed
from polytask.envs.domain import Buffers, EnvConfig, Group
from polytask.types import EnvSpec, Step

__all__ = ["METRICS", "EnvConfig", "MultiTaskEnv"]

METRICS = ("episodes", "success", "success_at_end", "return", "length", "diverged")


class MultiTaskEnv:
    """N worlds of K tasks that reset themselves; fulfils `types.VecEnv`."""

    def __init__(self, config: EnvConfig) -> None:
        """Build every scene and start the first episodes."""
        self.config = config
        self.device = config.device
        counts = config.envs_per_task
        domain = config.domain
        names = tuple(task.name for task in config.tasks)
        self.spec = EnvSpec(domain.obs_dim, domain.action_dim, names, counts, config.episode_length)
        self.task = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts)).to(self.device)
        self._one_hot = torch.nn.functional.one_hot(self.task, len(counts)).float()  # (N, K)
        self._generator = torch.Generator(self.device).manual_seed(config.seed)
        self._buffers = self._make_buffers()
        self.groups = list(domain.make_groups(config, self._buffers, self._generator))
        self._runner = _GpuRunner(self.groups, self.device) if self.device.type == "cuda" else _CpuRunner(self)
        self._before, self._after = Graphed(self._start_step, self.device), Graphed(self._end_step, self.device)
        self.reset()

    @property
    def obs(self) -> Tensor:
        """Observation to act on now. (N, O)"""
        return self._buffers.obs

    def seed(self, seed: int) -> None:
        """Start the environment's random numbers anew; `reset` makes it felt."""
        self._generator.manual_seed(seed)

    def reset(self) -> Tensor:
        """Start a new episode in every world and return the observations.

        With `stagger`, worlds start at random step counts, so that episodes do not end in lock-step. Such shortened
        first episodes are not counted in the metrics.
        """
        b = self._buffers
        b.uniform.uniform_(generator=self._generator)
        for group in self.groups:
            group.reset(torch.ones_like(group.buffers.truncated))
        for tensor in (self._best, self._return, self._metrics):
            tensor.zero_()
        if self.config.stagger:
            b.length.random_(0, self.config.episode_length, generator=self._generator)
        else:
            b.length.zero_()
        self._counts.copy_(b.length == 0)
        return b.obs

    def step(self, action: Tensor) -> Step:
        """Apply one action (N, A), clipped to [-1, 1], and reset the worlds whose episode ended."""
        b = self._buffers
        b.action.copy_(action.detach())
        b.uniform.uniform_(generator=self._generator)
        self._before()
        self._runner.run()
        self._after()
        return Step(b.obs, b.next_obs, b.reward, b.terminated, b.truncated, b.success)

    @property
    def score(self) -> Tensor:
        """How much of its task each world had done after the last step, before any reset, 0 to 1. (N,)"""
        return self._buffers.score

    def pop_metrics(self) -> dict[str, Tensor]:
        """Return per-task sums (K,) over the episodes that ended since the last call, and start anew.

        The names are `METRICS` and the domain's own. `success` adds up the highest score of each episode, which in
        manipulation is 1 if the task succeeded at any step and else 0.
        """
        for group in self.groups:
            group.batch.warn_of_overflow()
        sums = self._metrics.clone()
        self._metrics.zero_()
        return dict(zip((*METRICS, *self.config.domain.metrics), sums.unbind(-1), strict=True))

    def census(self) -> dict[str, Tensor]:
        """Return per-task sums (K,) over the worlds of what the domain says of where they stand now."""
        parts = [group.census() for group in self.groups]
        return {name: self._one_hot.T @ torch.cat([part[name] for part in parts]) for name in parts[0]}

    def state_dict(self) -> dict[str, Any]:
        """Return all that the next step depends on."""
        b = self._buffers
        return {
            "groups": [group.state_dict() for group in self.groups],
            "obs": b.obs.clone(),
            "episode": {name: tensor.clone() for name, tensor in self._episode.items()},
            "metrics": self._metrics.clone(),
            "generator": self._generator.get_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        for group, part in zip(self.groups, state["groups"], strict=True):
            group.load_state_dict(part)
        self._buffers.obs.copy_(state["obs"])
        for name, tensor in self._episode.items():
            tensor.copy_(state["episode"][name])
        self._metrics.copy_(state["metrics"])
        self._generator.set_state(state["generator"].cpu())

    def close(self) -> None:
        """Stop the threads."""
        self._runner.close()

    def _make_buffers(self) -> Buffers:
        n, device, domain = self.spec.num_envs, self.device, self.config.domain
        self._best, self._return = torch.zeros(n, device=device), torch.zeros(n, device=device)
        self._counts = torch.zeros(n, dtype=torch.bool, device=device)
        self._metrics = torch.zeros(self.spec.num_tasks, len(METRICS) + len(domain.metrics), device=device)
        buffers = Buffers.allocate(n, domain, self.config.tasks, device)
        self._episode = {"length": buffers.length, "best": self._best, "return": self._return, "counts": self._counts}
        return buffers

    def _start_step(self) -> None:
        b = self._buffers
        b.action.clamp_(-1.0, 1.0)
        b.length += 1
        torch.ge(b.length, self.config.episode_length, out=b.timeout)

    def _end_step(self) -> None:
        """Account for rewards and ended episodes."""
        b = self._buffers
        self._return += b.reward
        torch.maximum(self._best, b.score, out=self._best)
        ended = b.terminated | b.truncated
        counted = ended & self._counts
        columns = (torch.ones_like(b.reward), self._best, b.success, self._return, b.length)
        rows = [column.float() * counted for column in columns] + [b.diverged.float()]
        rows += [column * counted for column in b.extras.unbind(-1)]
        # Not a matrix product: that would wake torch's thread pool, which then spins beside the physics.
        self._metrics.index_add_(0, self.task, torch.stack(rows, -1))  # (K, M)
        for tensor in (self._return, self._best, b.length):
            tensor.masked_fill_(ended, 0)
        self._counts |= ended


class _CpuRunner:
    """Lets worker threads advance the physics while the calling thread does everything that is Python.

    Stepping a batch releases Python's global lock, the many small operations of observations and rewards fight for it.
    So one thread runs those, on each group as soon as its physics is done, and advances a group itself when it would
    have to wait. Groups do not depend on each other: the order in which they finish changes nothing.
    """

    def __init__(self, env: MultiTaskEnv) -> None:
        # The largest group first, since it takes longest; then the small ones, so that there is soon one to conclude.
        small_first = sorted(env.groups, key=lambda group: group.batch.num_worlds)
        self._groups = [small_first[-1], *small_first[:-1]]
        self._jobs: SimpleQueue[Any] = SimpleQueue()
        self._done: SimpleQueue[Any] = SimpleQueue()
        count = min(env.config.threads, len(env.groups)) - 1
        self._workers = [Thread(target=self._work, daemon=True) for _ in range(count)]
        for worker in self._workers:
            worker.start()

    @torch.inference_mode()  # spares autograd's bookkeeping in many small operations
    def run(self) -> None:
        """Step all groups."""
        for group in self._groups:
            group.act()
            self._jobs.put(group)
        for _ in self._groups:
            self._next_simulated().conclude()

    def close(self) -> None:
        for _ in self._workers:
            self._jobs.put(None)
        for worker in self._workers:
            worker.join()
        self._workers = []

    def _next_simulated(self) -> Any:
        """Return a group whose physics is done; rather than wait, advance one that nobody has taken."""
        for queue in (self._done, self._jobs):
            try:
                group = queue.get_nowait()
            except Empty:
                continue
            if queue is self._jobs:
                group.simulate()
            break
        else:
            group = self._done.get()
        if isinstance(group, Exception):
            raise group
        return group

    def _work(self) -> None:
        while (group := self._jobs.get()) is not None:
            try:
                group.simulate()
            except Exception as error:  # raised again where the environment was stepped
                group = error
            self._done.put(group)


class _GpuRunner:
    """Replays each group's captured graphs on a stream of its own."""

    def __init__(self, groups: Sequence[Group], device: torch.device) -> None:
        self._device = device
        self._parts = [
            (Graphed(g.act, device), g.simulate, Graphed(g.conclude, device), torch.cuda.Stream(device)) for g in groups
        ]

    def run(self) -> None:
        """Enqueue the step of all groups and make the current stream wait for them, without waiting itself."""
        main = torch.cuda.current_stream(self._device)
        for act, simulate, conclude, stream in self._parts:
            stream.wait_stream(main)
            with torch.cuda.stream(stream):
                act()
                simulate()
                conclude()
        for *_, stream in self._parts:
            main.wait_stream(stream)

    def close(self) -> None:
        """Nothing to stop."""
