"""Run the items of a sweep, several at once, until all have ended or a signal arrives."""

from __future__ import annotations

import signal
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import FrameType

from polytask.errors import UserError
from polytask.runs.provenance import RUNS_ON_DEVICE
from polytask.runs.sweep.display import SweepDisplay
from polytask.runs.sweep.local import Job, Launcher, Process, reason_of
from polytask.runs.sweep.plan import Item, state_of
from polytask.stopping import exit_code, handled_by, stop_requests

LOOK_EVERY = 0.2  # seconds between two looks at the processes
STOPPED = {128 + signal.SIGINT, 128 + signal.SIGTERM, -signal.SIGINT, -signal.SIGTERM}


@dataclass(frozen=True)
class Running:
    """A run in progress."""

    item: Item
    job: Job
    process: Process


@dataclass(frozen=True)
class Slots:
    """How many runs go on at once, and what those in each place have of their own.

    Attributes:
        variables: Environment variables of the runs in each place, such as the GPU they see.
        threads: Threads of a run on the CPU that names no number; None: all cores.
        devices: The device of each place. A run is told how many others are on its own; None: it is not told.
    """

    variables: Sequence[Mapping[str, str]]
    threads: int | None = None
    devices: Sequence[int] | None = None

    def job(self, item: Item, place: int, taken: Collection[int]) -> Job:
        """Return what to start for an item in a place, given all places that have a run."""
        words = item.words
        if self.threads is not None and item.setting.config.device == "cpu" and item.setting.config.threads is None:
            words = [*words, f"threads={self.threads}"]
        variables = dict(self.variables[place])
        if self.devices is not None:
            variables[RUNS_ON_DEVICE] = str(sum(self.devices[each] == self.devices[place] for each in taken))
        return Job(tuple(words), item.log, variables)

    def taken(self, running: Collection[int], waiting: int) -> set[int]:
        """Return the places that have a run once the free ones are filled, as far as runs wait.

        Free places are filled as long as runs wait, so a device never has more runs later than at the start of one.
        """
        free = [place for place in range(len(self.variables)) if place not in running]
        return {*running, *free[:waiting]}


def run_all(items: Sequence[Item], launcher: Launcher, slots: Slots, changed: Callable[[Item], None]) -> int:
    """Run all items that are not done, and keep their states up to date.

    A signal is passed on to the runs, which save and end; a second one ends them at once.

    Args:
        items: The items.
        launcher: Where they run.
        slots: How many run at once, and where.
        changed: Is called when the state of an item has changed.

    Returns:
        The exit code: 0, or that of the signal.
    """
    waiting = deque(item for item in items if item.state != "done")
    running: dict[int, Running] = {}
    is_told, display = False, SweepDisplay(items)
    with display.shown(), _second_signal_raises(), stop_requests(is_announced=False) as stops:
        try:
            while running or (waiting and not stops):
                taken = slots.taken(running, len(waiting))
                for place in sorted(taken - running.keys()):
                    if not stops:
                        item = waiting.popleft()
                        _start(item, slots.job(item, place, taken), launcher, place, running)
                        _tell(display, item)
                        changed(item)
                if stops and not is_told:
                    is_told = True
                    display.tell("stopping all runs after this iteration; repeat to stop at once")
                    for one in running.values():
                        one.process.stop(stops[0])
                for place, one in list(running.items()):
                    if (code := one.process.poll()) is not None:
                        del running[place]
                        _end(one, code)
                        _tell(display, one.item)
                        changed(one.item)
                display.update()
                if running:
                    time.sleep(LOOK_EVERY)
        finally:
            for one in running.values():
                one.process.kill()
                one.item.state, one.item.success, one.item.measure = state_of(one.item.run_dir)
                changed(one.item)
    return exit_code(stops)


def _start(item: Item, job: Job, launcher: Launcher, place: int, running: dict[int, Running]) -> None:
    """Start an item; if this is not possible, it has failed."""
    try:
        running[place] = Running(item, job, launcher.start(job))
        item.state = "running"
    except (UserError, OSError) as error:
        item.state, item.error = "failed", str(error)


def _end(one: Running, code: int) -> None:
    """Store how a run ended. A stopped one can continue, or is new if it had not begun."""
    item = one.item
    item.state, item.success, item.measure = state_of(item.run_dir)
    if item.state == "done" or code in STOPPED:
        return
    item.state = "failed"
    item.error = reason_of(one.job, code) if code else "it ended without a result"


def _tell(display: SweepDisplay, item: Item) -> None:
    """Say in one line that a run has begun or ended."""
    if item.state == "done":
        display.tell(
            f"done: {item.name}" + ("" if item.success is None else f", {item.measure} success {item.success:.2f}")
        )
    elif item.state == "failed":
        display.tell(failure(item))
    else:
        display.tell(f"{item.state}: {item.name}")


def failure(item: Item) -> str:
    """Return the line about a run that failed."""
    return f"failed: {item.name}: {item.error} (log: {item.log})"


def _second_signal_raises() -> AbstractContextManager[object]:
    """Let the second SIGINT or SIGTERM raise, so that no run is left behind.

    SIGTERM would end the process at once. A shell without a terminal lets its background jobs ignore SIGINT.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    return handled_by(interrupt)
