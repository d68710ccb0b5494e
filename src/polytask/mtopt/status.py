"""What a run's folder holds: counts of each task, versions, lags and the last losses."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from polytask.console import table
from polytask.mtopt.names import version_of
from polytask.mtopt.roles.judge import Judge
from polytask.mtopt.runtime.folder import RunFolder
from polytask.mtopt.store import EpisodeStore
from polytask.mtopt.tasks import TASKS
from polytask.mtopt.weights import WeightFolder

LOSSES = ("loss", "excess", "error", "value", "target", "lag/targets", "lag/policy", "scripted")


@dataclass(frozen=True)
class TaskCounts:
    """Episodes and verdicts of one task."""

    task: str
    episodes: int  # commanded
    success: int  # by the verdict that counts: a person's, else the newest detector's; over all episodes of the skill
    failure: int
    person: int  # labels of people or of their stand-in
    source: str  # what acts for it


@dataclass(frozen=True)
class Status:
    """All of it."""

    tasks: list[TaskCounts]
    policies: dict[str, int]  # episodes of each
    episodes: int
    round: int | None
    phase: str | None
    updates: int
    weights: int | None  # newest version
    detector: str
    lag: int  # versions of the weights between the newest episode's policy and the newest
    last: dict[str, float | None]  # losses and lags of the last training job

    def plain(self) -> dict[str, Any]:
        """Turn it into plain values."""
        return asdict(self)

    def episodes_table(self) -> Any:
        """Lay out who collected what."""
        return table("episodes", ("policy", "episodes"), list(self.policies.items()))

    def verdicts_table(self) -> Any:
        """Lay out the counts of the tasks."""
        columns = ("task", "commanded", "successes", "failures", "people's labels", "acts")
        rows = [(one.task, one.episodes, one.success, one.failure, one.person, one.source) for one in self.tasks]
        return table(f"tasks, by detector {self.detector or 'none'}", columns, rows)

    def tables(self) -> list[Any]:
        """Lay everything out."""
        shown = [self.verdicts_table(), self.episodes_table()]
        known = [(name, value) for name, value in self.last.items() if value is not None]
        return [*shown, table("last training", ("figure", "value"), known)] if known else shown

    def lines(self) -> list[str]:
        """Say the rest in words."""
        where = "no run was begun" if self.round is None else f"round {self.round}, phase {self.phase}"
        weights = "none" if self.weights is None else str(self.weights)
        text = f"{where}; {self.updates} updates; weights {weights}; detector {self.detector or 'none'}"
        return [text, f"the newest episodes were collected {self.lag} versions of the weights ago"]


def status_of(folder: RunFolder, judge: Judge | None = None) -> Status:
    """Look at a folder; verdicts are those of the newest detector unless another judge is given."""
    config = folder.config()
    state = folder.require()
    controller = state["controller"] or {}
    store = EpisodeStore(config.root, config.storage)
    judge = judge or Judge(config.detectors, "cpu")
    rows = store.rows()
    commanded = Counter(row.task for row in rows)
    people = Counter(label.task for source in ("person", "oracle") for label in store.labels(source=source))
    skills = {row.id: TASKS[row.task].skill for row in rows if row.task in TASKS and row.length}
    tasks = []
    for task in config.learned:
        verdicts = store.rewards(task, judge.version, judge.threshold)
        mine = [value for number, value in verdicts.items() if skills.get(number) == TASKS[task].skill]
        source = controller.get("sources", {}).get(task, "script")
        tasks.append(TaskCounts(task, commanded[task], sum(mine), len(mine) - sum(mine), people[task], source))
    store.close()
    newest = WeightFolder(config.weights).newest()
    acted = max((version_of(row.policy) for row in rows[-config.world.num_worlds :]), default=0)
    trained: dict[str, Any] = next((one for one in reversed(_records(folder)) if one.get("kind") == "train"), {})
    return Status(
        tasks=tasks,
        policies=dict(sorted(Counter(row.policy for row in rows).items())),
        episodes=len(rows),
        round=controller.get("round"),
        phase=controller.get("phase"),
        updates=int(controller.get("updates", 0)),
        weights=newest,
        detector=judge.version,
        lag=max(0, (newest or 0) - acted),
        last={name: trained.get(name) for name in LOSSES},
    )


def _records(folder: RunFolder) -> list[dict[str, Any]]:
    return [dict(record) for record in folder.records()]
