"""Stand in for the labelling person: answer from the simulator's truth, through the page's own API.

It sees what a person's browser would see and sends what it would send; a settable share of its answers is wrong. Only
evaluation and tests use it: whoever runs it must be able to read the truth.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from polytask.errors import UserError
from polytask.mtopt.label.client import Client, get, post

BATCH = 100  # questions at once


@dataclass
class StandIn:
    """A labeller that knows the truth and errs now and then."""

    client: Client
    truth: Callable[[int], Mapping[str, bool]]  # of an episode, by task; `EpisodeStore.truth`
    error_rate: float = 0.0
    seed: int = 0
    _random: random.Random = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Start the sequence of its errors."""
        if not 0 <= self.error_rate <= 1:
            raise UserError(f"error_rate={self.error_rate} is not a share between 0 and 1")
        self._random = random.Random(self.seed)

    def label(self, task: str, count: int, order: str = "new") -> int:
        """Answer questions about a task until it has `count` more labels or the queue is empty; give the labels made.

        Hidden second questions are answered too, and make no label.
        """
        before = made = self._labels(task)
        while made - before < count:
            wanted = min(BATCH, count - (made - before))
            found = get(self.client, f"/api/tasks/{quote(task)}/questions?order={order}&count={wanted}")["questions"]
            if not found:
                break
            answers = [self._answer(task, question["episode"], order) for question in found]
            progress = post(self.client, "/api/answers", {"answers": answers})["progress"][task]
            made = progress["successes"] + progress["failures"]
        return made - before

    def train(self, timeout: float = 3600.0, poll: float = 0.2) -> dict[str, Any]:
        """Have the page train a detector, wait for it and give its report."""
        post(self.client, "/api/train", {})
        end = time.monotonic() + timeout
        while True:
            status: dict[str, Any] = get(self.client, "/api/train")
            if status["state"] == "failed":
                raise UserError(f"the detector was not trained: {status['message']}")
            if status["state"] == "done":
                return status
            if time.monotonic() > end:
                raise UserError(f"the detector was not trained within {timeout:g} s")
            time.sleep(poll)

    def _answer(self, task: str, episode: int, order: str) -> dict[str, Any]:
        value = self.truth(episode).get(task)  # None, a skip, where the simulator knows nothing: an uploaded picture
        if value is not None and self._random.random() < self.error_rate:
            value = not value
        return {"task": task, "episode": episode, "value": value, "order": order}

    def _labels(self, task: str) -> int:
        row = next((row for row in get(self.client, "/api/state")["tasks"] if row["name"] == task), None)
        if row is None:
            raise UserError(f"the labelling page has no task '{task}'")
        return int(row["successes"] + row["failures"])
