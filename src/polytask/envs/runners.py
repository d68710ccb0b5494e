"""Step all groups of an environment in parallel: threads on the CPU, captured graphs and streams on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Protocol

import torch

from polytask.cuda_graph import Graphed
from polytask.envs.domain import WorldGroup


class Runner(Protocol):
    """Runs the control steps of groups of worlds."""

    def run(self) -> None:
        """Run one control step of all groups."""
        ...

    def close(self) -> None:
        """Stop threads, if there are any."""
        ...


def make_runner(
    groups: Sequence[WorldGroup], device: torch.device, threads: int, *, physics_only: bool = False
) -> Runner:
    """Create the runner for a device.

    Args:
        groups: Groups to step.
        device: Device of the groups.
        threads: Number of threads that share the physics on the CPU.
        physics_only: Skip observations, rewards and resets, to measure the physics alone.
    """
    if device.type == "cuda":
        return GpuRunner(groups, device, physics_only=physics_only)
    return CpuRunner(groups, threads, physics_only=physics_only)


class CpuRunner:
    """Advances the physics in worker threads; the calling thread computes observations, rewards and resets.

    Stepping a batch releases Python's global lock, but the many small operations of observations and rewards compete
    for it. So only the calling thread runs them, for each group as soon as its physics is done. When it would have to
    wait, it advances a group itself. Groups are independent: the order in which they finish does not change results.
    """

    def __init__(self, groups: Sequence[WorldGroup], threads: int, *, physics_only: bool = False) -> None:
        """Start the worker threads."""
        # The largest group first, because it takes longest; then the smallest ones, so that one is done soon.
        small_first = sorted(groups, key=lambda group: group.batch.num_worlds)
        self._groups = [small_first[-1], *small_first[:-1]]
        self._physics_only = physics_only
        self._jobs: SimpleQueue[Any] = SimpleQueue()
        self._done: SimpleQueue[Any] = SimpleQueue()
        count = min(threads, len(groups)) - 1
        self._workers = [Thread(target=self._work, daemon=True) for _ in range(count)]
        for worker in self._workers:
            worker.start()

    @torch.inference_mode()  # avoids autograd's overhead in many small operations
    def run(self) -> None:
        """Run one control step of all groups."""
        for group in self._groups:
            group.act()
            self._jobs.put(group)
        for _ in self._groups:
            group = self._next_simulated()
            if not self._physics_only:
                group.conclude()

    def close(self) -> None:
        """Stop the worker threads."""
        for _ in self._workers:
            self._jobs.put(None)
        for worker in self._workers:
            worker.join()
        self._workers = []

    def _next_simulated(self) -> Any:
        """Return a group whose physics is done; if there is none, advance one that no worker has taken."""
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
            except Exception as error:  # raised again in the calling thread
                group = error
            self._done.put(group)


class GpuRunner:
    """Replays the captured graphs of each group on a separate stream."""

    def __init__(self, groups: Sequence[WorldGroup], device: torch.device, *, physics_only: bool = False) -> None:
        """Create one stream per group; the graphs are captured during the first steps."""
        self._device = device
        self._parts = [
            (
                Graphed(group.act, device),
                group.simulate,
                None if physics_only else Graphed(group.conclude, device),
                torch.cuda.Stream(device),
            )
            for group in groups
        ]

    def run(self) -> None:
        """Enqueue the step of all groups and make the current stream wait for them; the host does not wait."""
        main = torch.cuda.current_stream(self._device)
        for act, simulate, conclude, stream in self._parts:
            stream.wait_stream(main)
            with torch.cuda.stream(stream):
                act()
                simulate()
                if conclude is not None:
                    conclude()
        for *_, stream in self._parts:
            main.wait_stream(stream)

    def close(self) -> None:
        """Do nothing: there are no threads to stop."""
