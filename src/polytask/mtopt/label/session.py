"""The state of the labelling page: progress, questions, answers, undo. There is no web code here."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from threading import RLock
from typing import Literal

from polytask.errors import UserError
from polytask.mtopt.config.label import LabelConfig
from polytask.mtopt.config.learning import MEASURED
from polytask.mtopt.detector.labels import is_held_out, labels_by_task, teachable
from polytask.mtopt.label import queues
from polytask.mtopt.label.candidates import Candidates
from polytask.mtopt.label.journal import Journal, SecondAnswer
from polytask.mtopt.records import Label, TaskInfo
from polytask.mtopt.run_tasks import FILE, add, read
from polytask.mtopt.store import EpisodeStore
from polytask.mtopt.task_table import TaskTable

UNDO_DEPTH = 1000
EXAMPLES = 8  # of each kind in a task's example strip


@dataclass(frozen=True)
class Verdicts:
    """Probabilities by a detector for the episodes it has judged."""

    version: str
    threshold: Mapping[str, float]  # by task
    probability: Mapping[str, Mapping[int, float]]  # of success, by task and episode

    def of(self, task: str) -> Mapping[int, float]:
        """Return the probabilities of a task."""
        return self.probability.get(task, {})


@dataclass(frozen=True)
class Question:
    """An episode to judge. First and second questions look the same."""

    episode: int
    label: bool | None = None  # the person's label, in the queue `disagrees` only
    probability: float | None = None  # the detector's, in the queue `disagrees` only


@dataclass(frozen=True)
class Undo:
    """One answer that can be taken back."""

    episode: int
    kind: Literal["label", "again", "skip"]
    before: bool | None = None  # the answer that counted before it


@dataclass(frozen=True)
class Progress:
    """Progress of labelling one task."""

    successes: int
    failures: int
    candidates: int  # episodes that can be labelled for it, including labelled ones
    agreed: int  # episodes with two equal answers
    asked_twice: int  # episodes with two answers


class LabelSession:
    """One person who labels one store. Callers in several threads must hold `lock`."""

    def __init__(self, store: EpisodeStore, tasks: TaskTable, config: LabelConfig) -> None:
        self.store = store
        self.tasks = tasks  # all tasks, because episodes of any task may be shared with those on the page
        self.names = tuple(config.tasks) or tuple(tasks)
        self.config = config
        self.root = config.root
        self.journal = Journal(self.root / "second_answers.jsonl")
        self.lock = RLock()
        self.verdicts: Verdicts | None = None
        self.candidates = Candidates(store, tasks, config.share)
        self._skipped: dict[str, set[int]] = defaultdict(set)
        self._asked_again: set[tuple[str, int]] = set()
        self._recent: dict[str, deque[int]] = defaultdict(lambda: deque(maxlen=config.reask_gap))
        self._undo: dict[str, deque[Undo]] = defaultdict(lambda: deque(maxlen=UNDO_DEPTH))

    def add_task(self, info: TaskInfo) -> None:
        """Add a task to the run and show it on the page.

        Raises:
            UserError: If it cannot be added.
        """
        self._use(add(self.root, info, self.tasks))
        self.names = tuple(dict.fromkeys((*self.names, info.name)))

    def sync_tasks(self) -> None:
        """Show tasks that others have added to the run, unless the page is for some tasks only."""
        if (self.root / FILE).exists() and (tasks := read(self.root / FILE)) != self.tasks:
            self._use(tasks)
            self.names = self.names if self.config.tasks else tuple(tasks)

    def _use(self, tasks: TaskTable) -> None:
        """Use other tasks from now on: find the episodes that can be labelled for them."""
        self.tasks = tasks
        self.candidates = Candidates(self.store, tasks, self.config.share)

    def require(self, episode: int) -> None:
        """Check that the store holds an episode.

        Raises:
            UserError: If it does not.
        """
        if not self.store.has(episode):
            raise UserError(f"there is no episode {episode}")

    def labels(self, task: str) -> dict[int, bool]:
        """Return the answers on a task that count, oldest first."""
        return {label.episode: label.value > 0.5 for label in self.store.labels(task, self.config.source)}

    def progress(self) -> dict[str, Progress]:
        """Count labels, candidates and agreement by task."""
        self.candidates.refresh()
        labels = labels_by_task(self.store, (self.config.source,))
        found = {}
        for task in self.names:
            values = list(labels.get(task, {}).values())
            counts = (sum(values), len(values) - sum(values), self.candidates.count(task))
            found[task] = Progress(*counts, *self.journal.agreement(task))
        return found

    def examples(self, task: str) -> dict[str, list[int]]:
        """Return labelled successes and failures to show, the newest first."""
        labels = self.labels(task)
        newest = list(reversed(labels))
        return {
            "successes": [e for e in newest if labels[e]][:EXAMPLES],
            "failures": [e for e in newest if not labels[e]][:EXAMPLES],
        }

    def questions(self, task: str, order: str, count: int) -> tuple[list[Question], int]:
        """Return the next questions, and the length of the queue."""
        labels = self.labels(task)
        verdicts = self.verdicts.of(task) if self.verdicts else {}
        threshold = self.verdicts.threshold.get(task, 0.5) if self.verdicts else 0.5
        if order == "disagrees":
            contradicted = queues.disagrees(labels, verdicts, threshold)
            # Who sees the verdict corrects towards it only, and so would raise the precision by which the gate decides.
            aside = self._measuring(contradicted)
            wrong = [e for e in contradicted if e not in self._skipped[task] and e not in aside]
            return [Question(e, labels[e], verdicts[e]) for e in wrong[:count]], len(wrong)
        self.candidates.refresh()
        closed = self._skipped[task].union(labels)
        if order in ("uncertain", "likely"):
            judged = sorted(self.candidates.among(task, verdicts.keys() - closed))
            # Labels that measure detectors must be random draws, so only the queue `new` asks about these episodes.
            aside = is_held_out(judged, MEASURED)
            open_ones = [e for e in judged if e not in aside]
            is_uncertain = order == "uncertain"
            queue = (
                queues.uncertain(open_ones, verdicts, threshold) if is_uncertain else queues.likely(open_ones, verdicts)
            )
            left = len(queue)
        else:
            queue = self._new(task, labels, closed, count)
            left = self.candidates.count(task) - len(self.candidates.among(task, closed))
        settled = (e for e in labels if e not in self._recent[task] and e not in self._skipped[task])
        again = queues.due_again(settled, task, self.config.reask, self.journal.done(task))
        asked = queues.interleave(queue, again, count)
        self._asked_again |= {(task, e) for e in asked if e in labels}
        return [Question(e) for e in asked], left

    def _measuring(self, episodes: Sequence[int]) -> set[int]:
        """Return those of the episodes that only measure detectors; uploads, which have no actions, always train."""
        return {row.id for row in self.store.rows_of(is_held_out(episodes, MEASURED)) if row.length}

    def _new(self, task: str, labels: Mapping[int, bool], closed: Collection[int], count: int) -> list[int]:
        """Return random episodes to judge; until successes and failures train, those that train come first."""
        order, aside = self.candidates.shuffled(task, closed), self._measuring(list(labels))
        is_taught = bool(teachable({task: {e: value for e, value in labels.items() if e not in aside}}))
        return list(islice(order, count)) if is_taught else queues.training_first(order, MEASURED, count)

    def answer(self, task: str, episode: int, value: bool | None, order: str) -> None:
        """Save an answer: success, failure or, with None, a skip. A later answer replaces an earlier one.

        An answer to a question that was asked again confirms or contradicts the label and does not change it.
        """
        self.require(episode)
        if value is None:
            self._undo[task].append(Undo(episode, "skip"))
            self._skipped[task].add(episode)
            return
        before = self.labels(task).get(episode)
        self._skipped[task].discard(episode)
        if before is not None and order != "disagrees" and (task, episode) in self._asked_again:
            earlier = self.journal.answers.get((task, episode))
            self._undo[task].append(Undo(episode, "again", earlier.second if earlier else None))
            self.journal.add(SecondAnswer(task, episode, before, value))
            return
        self._undo[task].append(Undo(episode, "label", before))
        self._recent[task].append(episode)
        self._write(task, episode, value)

    def undo(self, task: str) -> int | None:
        """Take the last answer on a task back and return its episode; None if there is no answer left."""
        if not self._undo[task]:
            return None
        last = self._undo[task].pop()
        if last.kind == "skip":
            self._skipped[task].discard(last.episode)
        elif last.kind == "again":
            self.journal.add(SecondAnswer(task, last.episode, self.labels(task)[last.episode], last.before))
        else:
            self._write(task, last.episode, last.before)
        return last.episode

    def _write(self, task: str, episode: int, value: bool | None) -> None:
        number = math.nan if value is None else float(value)  # NaN withdraws a label
        self.store.add_labels([Label(episode, task, number, self.config.source)])
