"""`polytask mtopt export`: write the episodes of an MT-Opt run as a data set for other libraries."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from polytask.datasets.mtopt_lerobot import to_lerobot
from polytask.datasets.mtopt_minari import mtopt_to_minari
from polytask.errors import UserError
from polytask.mtopt.config import ExportConfig, RunConfig
from polytask.mtopt.detector import Judge
from polytask.mtopt.learning.sharing import Shared, share
from polytask.mtopt.run_tasks import tasks_of
from polytask.mtopt.runtime.folder import RunFolder
from polytask.mtopt.store import EpisodeStore
from polytask.result import Result, Table


def export(config: ExportConfig) -> Result:
    """Run `polytask mtopt export`."""
    run = RunFolder(config.root).config()
    tasks = tuple(config.tasks) or run.learned
    known = tasks_of(run)
    known.require(tasks)
    output = Path(config.output).expanduser() if config.output else run.root / config.to
    if output.exists():
        raise UserError(f"'{output}' exists already; name another folder with output=DIR")
    store = EpisodeStore(run.root, run.storage)
    try:
        shared = verdicts_of(store, run, tasks)
        if not shared:
            raise UserError(f"no episode in '{run.root}' has a verdict on {', '.join(tasks)}: label some, then relabel")
        if config.to == "minari":
            names = mtopt_to_minari(store, output, shared, run.world, run.learner.network.action)
        else:
            to_lerobot(
                store,
                output,
                shared,
                {task: known[task].sentence for task in tasks},
                action_names=run.learner.network.action.names,
            )
            names = [str(output)]
    finally:
        store.close()
    counts = Counter((one.task, one.success) for one in shared)
    rows = [(task, counts[task, True], counts[task, False]) for task in tasks]
    payload = {
        "output": str(output),
        "datasets": names,
        "tasks": {task: {"success": success, "failure": failure} for task, success, failure in rows},
    }
    return Result(payload, [Table("exported episodes", ("task", "successes", "failures"), rows)], [f"data: {output}"])


def verdicts_of(store: EpisodeStore, run: RunConfig, tasks: tuple[str, ...]) -> list[Shared]:
    """List the episodes of each task with their verdicts: those of people, else those of the detector in use."""
    judge = Judge(run.detectors, "cpu")
    verdicts = {task: store.rewards(task, judge.version, judge.threshold(task)) for task in tasks}
    collected = [(row.id, row.task) for row in store.rows() if row.length]
    return share(run.sharing.strategy, collected, tasks_of(run), verdicts)
