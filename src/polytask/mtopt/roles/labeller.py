"""Let the detector in use label every episode that it has not labelled yet; nothing but label rows is written."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from polytask.mtopt.config.run import RunConfig
from polytask.mtopt.policy_names import SCRIPTED, acts_as
from polytask.mtopt.roles.controller import OWN, SCRIPT, Tries
from polytask.mtopt.roles.judge import Judge
from polytask.mtopt.store import EpisodeStore
from polytask.mtopt.tasks import TASKS


class Labeller:
    """Walks through the store, from the front again whenever there is another detector in use or a new task."""

    def __init__(self, config: RunConfig, version: str | None = None) -> None:
        """Open the store; with a version, use that detector whichever is in use."""
        self.config = config
        self.store = EpisodeStore(config.root, config.storage)
        self.judge = Judge(config.detectors, config.device, version)
        self.last = 0  # episode up to which everything is labelled

    def step(self, limit: int = 512) -> dict[str, float]:
        """Look at the next episodes, at most `limit`; `episodes` is zero when all have been looked at."""
        if self.judge.sync():
            self.last = 0
        rows = self.store.rows(after=self.last, limit=limit) if self.judge.detector else []
        if not rows:
            return {"episodes": 0.0, "labels": 0.0, "last": float(self.last)}
        source, span = f"detector:{self.judge.version}", {"after": self.last, "until": rows[-1].id}
        tasks = self.judge.taught(self.config.learned)
        missing = {task: set(self.store.unlabelled(task, source, **span)) for task in tasks}
        wanted = [row.id for row in rows if row.length and any(row.id in each for each in missing.values())]
        labels = 0
        if wanted:
            frames = torch.from_numpy(self.store.outcomes(wanted))
            rows_of = self.judge.labels(wanted, self.judge.grade(frames, tasks), tasks)
            new = [label for label in rows_of if label.episode in missing[label.task]]
            self.store.add_labels(new)
            labels = len(new)
        self.last = rows[-1].id
        return {"episodes": float(len(rows)), "labels": float(labels), "last": float(self.last)}

    def run(self) -> dict[str, float]:
        """Label everything that is there."""
        episodes = labels = 0.0
        while (done := self.step())["episodes"]:
            episodes, labels = episodes + done["episodes"], labels + done["labels"]
        return {"episodes": episodes, "labels": labels, "last": float(self.last)}

    def close(self) -> None:
        """Close the store."""
        self.store.close()


def tally(store: EpisodeStore, tasks: Sequence[str], judge: Judge, after: int = 0) -> dict[str, dict[str, Tries]]:
    """Count attempts and successes, by verdict, of each task and of what acted: script, its own, or another's policy.

    A script acts the same whatever the task, and so does the policy of the task that it acts for: their episodes count
    for all tasks of the skill.

    Args:
        store: The log.
        tasks: Whose attempts.
        judge: Whose verdicts; people's labels outrank it.
        after: Learned policies' episodes count behind this one only, scripts' always.
    """
    rows = store.rows()
    found: dict[str, dict[str, Tries]] = {}
    for task in tasks:
        verdicts = store.rewards(task, judge.version, judge.threshold)
        counted: dict[str, list[bool]] = {}
        for row in rows:
            if row.id not in verdicts or row.task not in TASKS or TASKS[row.task].skill != TASKS[task].skill:
                continue
            if row.policy.startswith(SCRIPTED):
                counted.setdefault(SCRIPT, []).append(verdicts[row.id])
            elif row.id > after:
                acted_for = acts_as(row.policy) or row.task
                counted.setdefault(OWN if acted_for == task else acted_for, []).append(verdicts[row.id])
        found[task] = {source: Tries(len(each), sum(each)) for source, each in counted.items()}
    return found
