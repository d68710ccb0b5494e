"""Measure a success detector after rounds of labelling on the page.

Scripted picks and places fill a store. A stand-in for the person labels them from the simulator's truth, through the
page's API alone: first a random sample, then, in each round, the episodes that the newest detector finds likely or is
least certain of. The page trains a detector after every round, without the fifth of the random labels that it keeps
aside. Each detector is scored on other frames of the task's
skill: 500 per task, which are harder than those of a run because half are successes and a quarter near misses, and then
all held-out frames with their natural shares. Needs the extra `label`.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from experiment import Report, generator_on, make_world, parser, run
from labelled import Pool, choose, collect_pool, detector_flags, pick_and_place

from polytask.mtopt.config.label import LabelConfig
from polytask.mtopt.config.learning import DetectorConfig
from polytask.mtopt.config.network import NetworkConfig
from polytask.mtopt.config.store import StoreConfig
from polytask.mtopt.detector import Detector
from polytask.mtopt.detector.metrics import DetectorReport, evaluate, wrong_objects
from polytask.mtopt.label.app import create_app
from polytask.mtopt.label.client import InProcessClient
from polytask.mtopt.label.stand_in import StandIn
from polytask.mtopt.store import EpisodeStore
from polytask.mtopt.task_table import TaskTable
from polytask.mtopt.tasks import BROAD, MAIN_TASKS, TASKS


def fill(arguments: argparse.Namespace, report: Report, store: EpisodeStore) -> None:
    """Write scripted picks and places, half each, into the store."""
    world = make_world(arguments, arguments.seed, assisted=True, reach=arguments.reach)
    count, number = 0, 0
    with store.writer("scripted") as writer:
        while count < arguments.outcomes:
            for batch in pick_and_place(world, 1, 1000 * arguments.seed + number):
                count += len(writer.append_many(batch.episodes()))
            number += 1
    report.put("store", {"episodes": count})


def of_skill(pool: Pool, skill: str) -> Pool:
    """Return the outcomes of one skill: its tasks are labelled on these."""
    rows = pool.is_place == (skill == "place")
    return Pool(pool.frames[rows], pool.truth[rows], pool.is_place[rows])


def judge(detector: Detector, test: Pool, arguments: argparse.Namespace) -> dict[str, Any]:
    """Score a detector on held-out frames, the same for all detectors."""
    tasks: dict[str, Any] = {}
    wrong: dict[str, Any] = {}
    for skill, broad in BROAD.items():
        pool, generator = of_skill(test, skill), generator_on(arguments.device, arguments.seed + 7)
        names = [name for name in MAIN_TASKS if TASKS[name].skill == skill]
        for name in names:
            if name not in detector.taught:  # without a labelled success and failure it has no verdict
                tasks[name] = {"balanced_accuracy": 0.5}
                continue
            index = detector.index(name)
            row = choose(pool, name, arguments.frames, generator)
            mixed, natural = (
                evaluate(detector, frames, torch.full_like(truth, index, dtype=torch.long), truth)
                for frames, truth in ((pool.frames[row], pool.of(name)[row]), (pool.frames, pool.of(name)))
            )
            tasks[name] = {**figures(mixed, name), "natural": figures(natural, name)}
        truths = {name: pool.of(name) for name in names}
        for found in wrong_objects(detector, pool.frames, truths, broad):
            wrong[found.task] = {"count": found.count, "rate": found.rate}
    rates = [row["rate"] for row in wrong.values() if row["rate"] is not None]
    known = [row["balanced_accuracy"] for row in tasks.values() if row["balanced_accuracy"] is not None]
    return {
        "mean_balanced_accuracy": sum(known) / len(known) if known else None,
        "mean_wrong_object_rate": sum(rates) / len(rates) if rates else None,
        "tasks": tasks,
        "wrong_object": wrong,
    }


def figures(report: DetectorReport, task: str) -> dict[str, Any]:
    """Return a task's scores as plain values."""
    row = next(row for row in report.tasks if row.task == task)
    return {
        "frames": row.count,
        "successes": row.successes,
        "balanced_accuracy": row.balanced_accuracy,
        "precision": row.precision,
        "recall": row.recall,
        "false_positive_rate": row.false_positive_rate,
        "calibration_error": row.calibration.error,
    }


def ask(person: StandIn, task: str, orders: list[str]) -> int:
    """Answer a task's questions, such as 100 of "likely"; if a queue is too short, new ones fill it up."""
    made = 0
    for order, count in (part.split(":") for part in orders):
        found = person.label(task, int(count), order)
        made += found + (person.label(task, int(count) - found) if found < int(count) else 0)
    return made


def body(arguments: argparse.Namespace, report: Report) -> None:
    """Collect, then label, train and judge round by round."""
    test = collect_pool(arguments, report, arguments.seed + 100, arguments.test_outcomes, 0.2)
    report.put("test_successes", {name: int(test.of(name).sum()) for name in MAIN_TASKS})
    with tempfile.TemporaryDirectory() as folder:
        store = EpisodeStore(Path(folder) / "store", StoreConfig(fsync=False, threads=arguments.threads))
        fill(arguments, report, store)
        config = LabelConfig(
            run_dir=str(store.root),
            tasks=list(MAIN_TASKS),
            source="oracle",
            pool=arguments.pool,
            seed=arguments.seed,
            device=arguments.device,
            detector=DetectorConfig(
                network=NetworkConfig(arguments.detector_network, autocast=arguments.device.startswith("cuda")),
                updates=arguments.detector_updates,
                batch=arguments.detector_batch,
                turned=arguments.turned,
            ),
        )
        app = create_app(config, TaskTable(tuple(TASKS.values()), len(TASKS)), store)
        person = StandIn(InProcessClient(app), store.truth, arguments.error_rate, arguments.seed)
        for orders in arguments.rounds:
            start = time.monotonic()
            made = {name: ask(person, name, orders.split(",")) for name in MAIN_TASKS}
            asked = time.monotonic()
            person.train()
            row: dict[str, Any] = {
                "asked": orders,
                "label_seconds": asked - start,
                "train_seconds": time.monotonic() - asked,
                "new_labels": sum(made.values()),
                "labels": {
                    name: [each.successes, each.failures] for name, each in app.state.api.session.progress().items()
                },
            }
            detector = app.state.api.training.detector
            report.append("rounds", {**row, **judge(detector, test, arguments)})


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Read the flags and run."""
    flags = parser(__doc__ or "", seconds=280, worlds=4096)
    detector_flags(flags)
    add = flags.add_argument
    add(
        "--rounds",
        nargs="+",
        default=["new:150", "likely:100,uncertain:75", "likely:75,uncertain:100"],
        help="questions of each round, for every task: queue of the page and how many",
    )
    add("--error-rate", type=float, default=0.0, help="share of wrong answers")
    add("--frames", type=int, default=500, help="held out for each task")
    add("--outcomes", type=int, default=16384, help="in the store")
    add("--pool", type=int, default=4096, help="unlabelled episodes a task that a new detector ranks")
    add("--test-outcomes", type=int, default=16384)
    add("--threads", type=int, default=8, help="that compress episodes")
    add("--reach", type=float, default=0.14)
    return run("detector", flags.parse_args(argv), body)


if __name__ == "__main__":
    main()
