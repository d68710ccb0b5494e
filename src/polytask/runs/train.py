"""The training loop: iterate, log, evaluate, save. Every algorithm goes through this one."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from types import FrameType
from typing import Any

from polytask.runs.checkpoint import write_atomically
from polytask.config.compose import to_plain
from polytask.config.schema import TrainConfig
from polytask.cli.console import Display, Result, note, table
from polytask.runs.evaluate import Evaluator, evaluation_table
from polytask.runs.logger import Logger, Record, clean, read_metrics, read_records
from polytask.runs.provenance import provenance
from polytask.tools.video import film_tasks
from polytask.runs.report import draw_run
from polytask.runs.run import Run, open_run


def train(config: TrainConfig) -> Result:
    """Run `polytask train`."""
    run, history = open_run(config)
    if run.initialization is not None and config.checkpoint is None:
        note(run.initialization.message())
    record: Record = history[-1] if history else {}
    logger = Logger(run.directory, to_plain(run.config), history)
    display = Display(run.env.spec.tasks, run.last_iteration * run.algo.frames_per_iteration, run.frames)
    with stop_requests() as stops, logger, display:
        while not run.is_over and not stops:
            record = iterate(run)
            logger.write(record)
            display.update(record)
            if is_due(run.iteration, run.config.save_every):
                run.save()
        run.save()
    result = finish(run, record, is_complete=not stops)
    run.env.close()
    return result


def iterate(run: Run) -> Record:
    """Do one iteration and describe it in a flat record."""
    begin = time.perf_counter()
    metrics = {**run.algo.iterate(run.env), **run.env.census()}
    run.iteration += 1
    numbers = read_metrics(metrics, run.env.pop_metrics(), run.window)  # the one wait for the device
    elapsed = time.perf_counter() - begin
    run.seconds += elapsed
    record: Record = {
        "iteration": run.iteration,
        "frames": run.frames,
        "seconds": run.seconds,
        "frames_per_second": run.algo.frames_per_iteration / elapsed,
        **numbers,
    }
    if run.evaluator is not None and is_due(run.iteration, run.config.eval_every):
        summary = run.evaluator.run(run.act)
        record |= {f"eval/success/{task}": one["success"] for task, one in summary["tasks"].items()}
        record["eval/success"] = summary["mean_success"]
    return record


def is_due(iteration: int, every: int) -> bool:
    """Tell whether something that happens every so many iterations, or never (0), happens now."""
    return every > 0 and iteration % every == 0


@contextmanager
def stop_requests() -> Iterator[list[int]]:
    """Collect Ctrl-C and SIGTERM, so that the iteration ends and a checkpoint is written; a second one kills."""
    received: list[int] = []
    before: dict[int, Any] = {}  # the handlers to put back

    def remember(number: int, frame: FrameType | None) -> None:
        received.append(number)
        signal.signal(number, before[number])
        note("stopping after this iteration; once more to stop at once")

    for kind in (signal.SIGINT, signal.SIGTERM):
        before[kind] = signal.signal(kind, remember)
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def finish(run: Run, record: Record, *, is_complete: bool) -> Result:
    """Leave a summary, a curve and, unless the run was stopped, an evaluation and a video behind."""
    tasks = run.env.spec.tasks
    summary: dict[str, Any] = {
        "run_dir": str(run.directory),
        "complete": is_complete,
        "iterations": run.iteration,
        "frames": run.frames,
        "seconds": run.seconds,
        "success": record.get("success"),
        "tasks": {task: {"success": record.get(f"success/{task}")} for task in tasks},
        "initialization": run.initialization and asdict(run.initialization),
        **provenance(run.env.device),
    }
    rows = [(task, record.get(f"success/{task}"), record.get(f"return/{task}")) for task in tasks]
    shown = table("episodes of training", ("task", "success", "return"), [*rows, ("mean", record.get("success"), None)])
    if is_complete and run.config.eval_episodes:
        evaluator = run.evaluator or Evaluator(run.config, run.config.eval_episodes)
        summary["evaluation"] = evaluator.run(run.act)
        evaluator.close()
        shown = evaluation_table(f"{run.config.eval_episodes} noiseless episodes per task", summary["evaluation"])
    text = json.dumps(clean(summary), indent=2) + "\n"
    write_atomically(run.directory / "summary.json", lambda temporary: temporary.write_text(text))
    lines = [f"run: {run.directory}", draw_run(read_records(run.directory), tasks, run.directory / "curves.png")]
    if not is_complete:
        lines.append(f"stopped after {run.iteration} iterations; go on with: polytask train checkpoint={run.directory}")
    elif run.config.video:
        lines.append(film_tasks(run.config, run.act, run.directory / "video.mp4"))
    return Result(summary, [shown], lines)
