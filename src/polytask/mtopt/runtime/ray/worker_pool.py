"""Supervised workers: calls return at once, answers arrive as events, and a worker that dies is replaced."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import ObjectLostError, RayActorError, RayTaskError

from polytask.errors import UserError
from polytask.mtopt.runtime.base import Report

POLL = 1.0  # s between looks at the clock while no answer arrives
GRACE = 10.0  # s that workers have to close their files

Submit = Callable[[Any], Any]  # actor -> reference of its answer, or two: of the answer and of bulk data
Then = Callable[[Any, Any], None]  # receives the answer, and the reference of the bulk data, if any


class TimeIsUpError(Exception):
    """The time of the run is over."""


@dataclass
class WorkerSlot:
    """A place for one worker, filled again when the worker dies."""

    name: str
    make: Callable[[int], Any]  # number of deaths so far -> a new actor
    actor: Any = None
    pid: int = 0  # of the actor's process; 0 until it is ready
    deaths: int = 0


@dataclass(frozen=True)
class Call:
    """A call that a worker has not answered yet."""

    slot: WorkerSlot
    actor: Any  # the worker that was called; the slot may hold another one by now
    data: Any  # reference of bulk data that comes with the answer
    then: Then
    lost: Callable[[], None]


class WorkerPool:
    """Keeps the slots filled and delivers answers; for one thread."""

    def __init__(self, report: Report, max_deaths: int, max_seconds: float = 0.0) -> None:
        """Start without workers.

        Args:
            report: Receives a line about every death.
            max_deaths: Deaths in one slot after which the run fails: something is wrong then.
            max_seconds: Time after which `step` raises TimeIsUpError; 0 for never.
        """
        self.report, self.max_deaths = report, max_deaths
        self.slots: list[WorkerSlot] = []
        self._deadline = time.monotonic() + max_seconds if max_seconds else float("inf")
        self._pending: dict[Any, Call] = {}

    @property
    def deaths(self) -> int:
        """Return the number of workers that were replaced."""
        return sum(slot.deaths for slot in self.slots)

    def add(self, name: str, make: Callable[[int], Any]) -> WorkerSlot:
        """Create a slot and fill it."""
        slot = WorkerSlot(name, make)
        self.slots.append(slot)
        self._fill(slot)
        return slot

    def call(self, slot: WorkerSlot, submit: Submit, then: Then, lost: Callable[[], None]) -> None:
        """Call a worker without waiting.

        Args:
            slot: The worker's slot.
            submit: Calls a method of the actor.
            then: Receives the answer, within a later `step`.
            lost: Is called instead if there is no answer: the worker died, or data that it needs is lost. The slot is
                filled again by then.
        """
        refs = submit(slot.actor)
        answer, data = refs if isinstance(refs, list) else (refs, None)
        self._pending[answer] = Call(slot, slot.actor, data, then, lost)

    def ask(self, slot: WorkerSlot, submit: Submit) -> Any:
        """Call a worker, or its successors if it dies, and wait for the answer; deliver other answers meanwhile."""
        answers: list[Any] = []

        def again() -> None:
            self.call(slot, submit, lambda answer, _: answers.append(answer), again)

        again()
        while not answers:
            self.step()
        return answers[0]

    def step(self) -> None:
        """Wait for one answer and deliver it.

        Raises:
            UserError: If a worker raises it, or workers die again and again.
            TimeIsUpError: If the time of the run is over.
        """
        if time.monotonic() > self._deadline:
            raise TimeIsUpError
        ready, _ = ray.wait(list(self._pending), num_returns=1, timeout=POLL)
        for ref in ready:
            call = self._pending.pop(ref)
            try:
                answer = ray.get(ref)
            except RayTaskError as error:
                # A task also fails if its argument is lost, with the machine that held it.
                if not isinstance(error.cause, RayActorError | ObjectLostError):
                    raise error.cause if isinstance(error.cause, UserError) else error from None
                call.lost()
            except ObjectLostError:
                call.lost()
            except RayActorError as error:
                self._replace(call, error)
                call.lost()
            else:
                call.then(answer, call.data)

    def close(self) -> None:
        """Let workers close their files, then end all of them."""
        self._pending.clear()
        closing = [slot.actor.close.remote() for slot in self.slots]
        if closing:
            ray.wait(closing, num_returns=len(closing), timeout=GRACE)
        for slot in self.slots:
            ray.kill(slot.actor)
        self.slots.clear()

    def _fill(self, slot: WorkerSlot) -> None:
        slot.pid, slot.actor = 0, slot.make(slot.deaths)

        def opened(pid: Any, _: Any) -> None:
            slot.pid = pid

        self.call(slot, lambda actor: actor.open.remote(), opened, lambda: None)

    def _replace(self, call: Call, error: RayActorError) -> None:
        """Fill a slot again, once per death, even if several calls are unanswered."""
        slot = call.slot
        if slot.actor is not call.actor:
            return
        slot.deaths += 1
        if slot.deaths > self.max_deaths:
            raise UserError(f"{slot.name} died {slot.deaths} times, the last time because: {error}")
        self.report(f"{slot.name} died; another worker replaces it")
        ray.kill(call.actor)  # it may be alive, but out of reach
        self._fill(slot)
