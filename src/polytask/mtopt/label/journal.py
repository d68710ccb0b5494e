"""The second answers to questions that were asked again, as lines of a file; the agreement figure counts them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class SecondAnswer:
    """A later answer by the same person that confirms or contradicts a label."""

    task: str
    episode: int
    first: bool
    second: bool | None  # None takes an earlier line back


class Journal:
    """An append-only file; the newest line of a (task, episode) counts. A line that a crash cut off is ignored."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.answers: dict[tuple[str, int], SecondAnswer] = {}
        lines = path.read_text().splitlines() if path.exists() else []
        for line in lines:
            try:
                self._keep(SecondAnswer(**json.loads(line)))
            except (ValueError, TypeError):
                continue

    def add(self, answer: SecondAnswer) -> None:
        """Write an answer to the file."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            # The leading line break ends a line that a crash cut off.
            file.write(("\n" if file.tell() else "") + json.dumps(asdict(answer)))
        self._keep(answer)

    def done(self, task: str) -> list[int]:
        """Return the episodes of a task that were asked about twice."""
        return [episode for name, episode in self.answers if name == task]

    def agreement(self, task: str | None = None) -> tuple[int, int]:
        """Return the numbers of equal answers and of questions asked twice, of one task or of all."""
        asked = [a for a in self.answers.values() if task is None or a.task == task]
        return sum(a.first == a.second for a in asked), len(asked)

    def _keep(self, answer: SecondAnswer) -> None:
        key = (answer.task, answer.episode)
        self.answers.pop(key, None)
        if answer.second is not None:
            self.answers[key] = answer
