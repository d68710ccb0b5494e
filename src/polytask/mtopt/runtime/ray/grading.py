"""Grade the log by several workers: each takes the next part of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from polytask.mtopt.runtime.ray.worker_pool import WorkerPool, WorkerSlot
from polytask.mtopt.store.tallies import BLOCK


def grade_in_parallel(pool: WorkerPool, graders: Sequence[WorkerSlot], last: int) -> None:
    """Let graders label all episodes up to `last`, a block at a time; a dead grader's block is graded again."""
    spans = deque((start, min(start + BLOCK, last)) for start in range(0, last, BLOCK))
    busy = 0

    def give(grader: WorkerSlot) -> None:
        nonlocal busy
        if not spans:
            return
        span = spans.popleft()
        busy += 1

        def done() -> None:
            nonlocal busy
            busy -= 1
            give(grader)

        def lost() -> None:
            spans.append(span)
            done()

        pool.call(grader, lambda actor: actor.grade.remote(*span), lambda *_: done(), lost)

    for grader in graders:
        give(grader)
    while busy:
        pool.step()
