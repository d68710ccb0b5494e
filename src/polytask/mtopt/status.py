"""The status of a run: counts of each task, versions, lags and the last losses."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any

from polytask.mtopt.config import RunConfig
from polytask.mtopt.detector import Judge
from polytask.mtopt.detector.folder import newest as newest_version
from polytask.mtopt.detector.labels import TEACHERS
from polytask.mtopt.learning.weights import WeightFolder
from polytask.mtopt.policy_names import version_of
from polytask.mtopt.roles.orders import SCRIPT
from polytask.mtopt.run_tasks import tasks_of
from polytask.mtopt.runtime.folder import RunFolder
from polytask.mtopt.store import EpisodeStore
from polytask.result import Table

LOSSES = ("loss", "excess", "error", "value", "target", "lag/targets", "lag/policy", "scripted")


@dataclass(frozen=True)
class TaskCounts:
    """Episodes and verdicts of one task."""

    task: str
    episodes: int  # commanded
    success: int  # episodes of the skill, by the verdict that counts: a person's, else that of the detector in use
    failure: int
    person: int  # labels of people
    stand_in: int  # labels of the stand-in, which are never counted as a person's
    source: str  # what acts for it
    is_taught: bool  # the detector in use was taught it; otherwise only people's labels count
    refused: str | None  # why the detector's verdicts are no rewards although it was taught the task


@dataclass(frozen=True)
class RunStatus:
    """The status of a run."""

    tasks: list[TaskCounts]
    policies: dict[str, int]  # episodes of each
    episodes: int
    round: int | None
    phase: str | None
    updates: int
    weights: int | None  # newest version
    detector: str  # in use
    newest_detector: str
    lag: int  # versions of the weights between the newest episode's policy and the newest
    last: dict[str, float | None]  # losses and lags of the last training job

    def plain(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)

    def episodes_table(self) -> Table:
        """Return the table of episodes by policy."""
        return Table("episodes", ("policy", "episodes"), list(self.policies.items()))

    def verdicts_table(self) -> Table:
        """Return the table of counts by task."""
        columns = ("task", "commanded", "successes", "failures", "people's labels", "stand-in's labels", "acts")
        rows = [
            (one.task, one.episodes, one.success, one.failure, one.person, one.stand_in, one.source)
            for one in self.tasks
        ]
        return Table(f"tasks, by detector {self.detector or 'none'}", columns, rows)

    def tables(self) -> list[Table]:
        """Return all tables."""
        shown = [self.verdicts_table(), self.episodes_table()]
        known = [(name, value) for name, value in self.last.items() if value is not None]
        return [*shown, Table("last training", ("figure", "value"), known)] if known else shown

    def lines(self) -> list[str]:
        """Return the lines below the tables."""
        where = "the run has not started" if self.round is None else f"round {self.round}, phase {self.phase}"
        weights = "none" if self.weights is None else str(self.weights)
        detector = f"detector {self.detector or 'none'}"
        if self.newest_detector != self.detector:
            detector += f" in use, the newest is {self.newest_detector}"
        text = f"{where}; {self.updates} updates; weights {weights}; {detector}"
        lag = f"the newest episodes were collected {self.lag} versions of the weights ago"
        return [text, *self.untaught_lines(), lag]

    def untaught_lines(self) -> list[str]:
        """Return lines that name the tasks that the detector in use does not judge, if there are any, and why."""
        tasks = [one.task for one in self.tasks if not one.is_taught]
        if not self.detector:
            return []
        reason = "the detector was taught no success and failure of it"
        lines = [f"not judged, because {reason}: {', '.join(tasks)}"] if tasks else []
        refused = [one for one in self.tasks if one.refused]
        return lines + [f"no reward until it has more labels: {one.task} ({one.refused})" for one in refused]


def status_of(folder: RunFolder) -> RunStatus:
    """Read the status of a run; verdicts are those of people and of the detector in use."""
    config = folder.config()
    controller = folder.require()["controller"] or {}
    judge = Judge(config.detectors, "cpu")
    with closing(EpisodeStore(config.root, config.storage)) as store:
        policies, newest = store.counts_by("policy"), store.rows(after=store.last() - config.world.num_envs)
        tasks = task_counts(store, config, judge, controller.get("sources", {}))
    weights = WeightFolder(config.weights).newest()
    acted = max((version_of(row.policy) for row in newest), default=0)
    records: list[dict[str, Any]] = [dict(record) for record in folder.records()]
    trained: dict[str, Any] = next((one for one in reversed(records) if one.get("kind") == "train"), {})
    return RunStatus(
        tasks=tasks,
        policies=policies,
        episodes=sum(policies.values()),
        round=controller.get("round"),
        phase=controller.get("phase"),
        updates=int(controller.get("updates", 0)),
        weights=weights,
        detector=judge.version,
        newest_detector=newest_version(config.detectors) or "",
        lag=max(0, (weights or 0) - acted),
        last={name: trained.get(name) for name in LOSSES},
    )


def task_counts(store: EpisodeStore, config: RunConfig, judge: Judge, sources: Mapping[str, str]) -> list[TaskCounts]:
    """Count the episodes and verdicts of every learned task."""
    taught, refused = judge.taught(config.learned), judge.refused(config.learned)
    commanded, known = store.counts_by("task"), tasks_of(config)
    given = {source: store.label_counts(source) for source in TEACHERS}
    counts = []
    for task in config.learned:
        tallies = store.tally(task, judge.version, judge.threshold(task))
        mine = [one for one in tallies if one.commanded in known and known[one.commanded].skill == known[task].skill]
        successes, judged = sum(one.successes for one in mine), sum(one.episodes for one in mine)
        labels = (given["person"].get(task, 0), given["oracle"].get(task, 0))
        numbers = (commanded.get(task, 0), successes, judged - successes, *labels)
        acts = sources.get(task, SCRIPT)
        counts.append(TaskCounts(task, *numbers, acts, task in taught, refused.get(task)))
    return counts
