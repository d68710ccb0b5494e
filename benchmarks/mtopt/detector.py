"""How good is a success detector after so many labels a task?

Collects outcomes of scripted picks and places, lets simulator truth stand in for the person who labels, trains
detectors from 50, 150, 500 and 1,500 labels a task and judges them on 500 other frames a task, which are harder than
those of a run: half are successes, a quarter near misses. False positives on outcomes in which the right thing was done
to the wrong object (or section) are counted apart, on all such frames.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import torch
from experiment import Report, generator_on, parser, run, wait
from labelled import Pool, choose, collect_pool, detector_flags, fit_detector

from polytask.mtopt.detector import Detector, evaluate, uncertain_first, wrong_objects
from polytask.mtopt.tasks import MAIN_TASKS


def judge(detector: Detector, pool: Pool, arguments: argparse.Namespace) -> dict[str, Any]:
    """Score a detector on held-out frames, the same for all detectors."""
    generator = generator_on(arguments.device, arguments.seed + 7)
    chosen = [choose(pool, name, arguments.frames, generator) for name in detector.tasks]
    task = torch.cat([torch.full_like(part, index) for index, part in enumerate(chosen)])
    truth = torch.cat([pool.of(name)[part] for name, part in zip(detector.tasks, chosen, strict=True)])
    rows = torch.cat(chosen)
    report = evaluate(detector, pool.frames[rows], task, truth)
    wrong: dict[str, Any] = {}
    for broad, skill in (("lift-any", "lift-"), ("place-any", "place-")):
        truths = {name: pool.of(name) for name in detector.tasks if name.startswith(skill)}
        for row in wrong_objects(detector, pool.frames, truths, broad):
            wrong[row.task] = {"count": row.count, "rate": row.rate}
    rates = [row["rate"] for row in wrong.values() if row["rate"] is not None]
    return {
        "mean_balanced_accuracy": report.mean_balanced_accuracy,
        "mean_wrong_object_rate": sum(rates) / len(rates) if rates else None,
        "tasks": {
            row.task: {
                "frames": row.count,
                "successes": row.successes,
                "balanced_accuracy": row.balanced_accuracy,
                "precision": row.precision,
                "recall": row.recall,
                "false_positive_rate": row.false_positive_rate,
                "calibration_error": row.calibration.error,
            }
            for row in report.tasks
        },
        "wrong_object": wrong,
    }


def uncertainty(detector: Detector, pool: Pool) -> dict[str, float]:
    """Tell how many of the 100 least certain verdicts of each task are wrong: what rounds of labelling would find."""
    result = {}
    for index, name in enumerate(detector.tasks):
        probability = detector.predict(pool.frames, torch.full_like(pool.truth[:, 0], index, dtype=torch.long))
        first = uncertain_first(probability, detector.threshold)[:100].to(pool.truth.device)
        result[name] = float(((probability[first] > detector.threshold) != pool.of(name)[first]).float().mean())
    return result


def body(arguments: argparse.Namespace, report: Report) -> None:
    """Collect, train at every number of labels, judge."""
    test = collect_pool(arguments, report, arguments.seed + 100, arguments.test_outcomes, 0.2)
    report.put("test_successes", {name: int(test.of(name).sum()) for name in MAIN_TASKS})
    train = collect_pool(arguments, report, arguments.seed, arguments.outcomes, 0.35)
    report.put("train_successes", {name: int(train.of(name).sum()) for name in MAIN_TASKS})
    for network in arguments.networks:
        arguments.detector_network = network
        for labels in arguments.labels:
            if report.left < 5 and labels != arguments.labels[0]:
                report.say(f"no time for {labels} labels")
                continue
            start = time.monotonic()
            generator = generator_on(arguments.device, arguments.seed + labels)
            detector, successes = fit_detector(train, MAIN_TASKS, labels, arguments, generator)
            wait(arguments.device)
            row = {"network": network, "labels": labels, "train_seconds": time.monotonic() - start}
            report.append("curve", {**row, **judge(detector, test, arguments), "successes_labelled": successes})
    report.put("wrong_among_uncertain", uncertainty(detector, test))


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Read the flags and run."""
    flags = parser(__doc__ or "", seconds=280, worlds=4096)
    detector_flags(flags)
    flags.add_argument("--labels", type=int, nargs="+", default=[500, 50, 150, 1500])
    flags.add_argument("--networks", nargs="+", default=["small"])
    flags.add_argument("--frames", type=int, default=500, help="held out for each task")
    flags.add_argument("--outcomes", type=int, default=65536, help="to label from")
    flags.add_argument("--test-outcomes", type=int, default=24576)
    flags.add_argument("--reach", type=float, default=0.14)
    return run("detector", flags.parse_args(argv), body)


if __name__ == "__main__":
    main()
