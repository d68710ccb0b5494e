"""The second answers to questions that were asked again, as lines of a file; the agreement figure counts them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from polytask.files import can_read, can_write, make_folder
from polytask.result import note


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
        lines = [line for line in _lines(path) if line.strip()]
        answers = [answer for answer in map(_answer, lines) if answer is not None]
        for answer in answers:
            self._keep(answer)
        if len(answers) < len(lines):
            note(f"'{path}': {len(lines) - len(answers)} of {len(lines)} lines cannot be read; they are skipped")

    def add(self, answer: SecondAnswer) -> None:
        """Write an answer to the file."""
        make_folder(self.path.parent)
        with can_write(self.path), self.path.open("a", encoding="utf-8") as file:
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


def _lines(path: Path) -> list[bytes]:
    """Read the lines of a file that need not exist.

    Raises:
        UserError: If the system refuses.
    """
    with can_read(path):
        return path.read_bytes().splitlines() if path.exists() else []


def _answer(line: bytes) -> SecondAnswer | None:
    """Return the answer that a line holds; None if the line is damaged."""
    try:
        answer = SecondAnswer(**json.loads(line))
    except (ValueError, TypeError, RecursionError):
        return None
    is_valid = isinstance(answer.task, str) and type(answer.episode) is int and isinstance(answer.first, bool)
    return answer if is_valid and isinstance(answer.second, bool | None) else None
