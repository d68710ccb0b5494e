"""A stand-in for the labelling person, which answers from the simulator's truth through the page's own API.

It receives the questions that a person's browser receives and sends answers as a browser does. A share of its answers
can be wrong. It needs the simulator's truth, so it works for simulated episodes only.
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

BATCH = 24  # questions at once, as the page asks


@dataclass
class StandIn:
    """Answers questions from the truth, with a rate of errors."""

    client: Client
    truth: Callable[[int], Mapping[str, bool]]  # returns an episode's truth by task, such as `EpisodeStore.truth`
    error_rate: float = 0.0
    seed: int = 0
    _random: random.Random = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Seed the errors."""
        if not 0 <= self.error_rate <= 1:
            raise UserError(f"error_rate={self.error_rate}: must lie between 0 and 1")
        self._random = random.Random(self.seed)

    def label(self, task: str, count: int, order: str = "new") -> int:
        """Answer questions about a task until it has `count` more labels or the queue is empty.

        Hidden second questions are answered too, and add no label.

        Returns:
            The number of new labels.
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
        """Let the page train a detector, wait for it and return its report.

        Raises:
            UserError: If the training fails or takes too long.
        """
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
        value = self.truth(episode).get(task)  # None, a skip, for an uploaded picture, which has no truth
        if value is not None and self._random.random() < self.error_rate:
            value = not value
        # Its labels are never a person's: a page with source=person refuses them.
        return {"task": task, "episode": episode, "value": value, "order": order, "source": "oracle"}

    def _labels(self, task: str) -> int:
        row = next((row for row in get(self.client, "/api/state")["tasks"] if row["name"] == task), None)
        if row is None:
            raise UserError(f"the labelling page has no task '{task}'")
        return int(row["successes"] + row["failures"])
