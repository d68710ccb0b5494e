"""The training loop of all algorithms: iterate, log, evaluate and save."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from types import FrameType
from typing import Any

from polytask.config.compose import to_plain
from polytask.config.schema import TrainConfig
from polytask.envs.video import VideoFormat, record_video
from polytask.errors import UserError
from polytask.files import LogRow, finite, read_json_lines, write_text
from polytask.result import Result, Table, note
from polytask.runs.evaluate import Evaluator, evaluation_table
from polytask.runs.file_names import METRICS_FILE, SUMMARY_FILE
from polytask.runs.logger import Logger, read_metrics
from polytask.runs.progress import ProgressDisplay
from polytask.runs.provenance import provenance
from polytask.runs.report import draw_run
from polytask.runs.run import Run, open_run
from polytask.runs.setup import build_env


def train(config: TrainConfig) -> Result:
    """Run `polytask train`."""
    run, history = open_run(config)
    if run.initialization is not None and config.checkpoint is None:
        note(run.initialization.message())
    row: LogRow = history[-1] if history else {}
    logger = Logger(run.directory, to_plain(run.config), history)
    display = ProgressDisplay(run.env.spec.tasks, run.last_iteration * run.algo.frames_per_iteration, run.frames)
    with stop_requests() as stops, logger, display:
        while not run.is_over and not stops:
            row = iterate(run)
            logger.write(row)
            display.update(row)
            if is_due(run.iteration, run.config.save_every):
                run.save()
        run.save()
    result = finish(run, row, is_complete=not stops)
    run.env.close()
    return result


def iterate(run: Run) -> LogRow:
    """Run one iteration and return its metrics as a flat row."""
    begin = time.perf_counter()
    metrics = {**run.algo.iterate(run.env), **run.env.world_metrics()}
    run.iteration += 1
    numbers = read_metrics(metrics, run.env.pop_metrics(), run.window)  # the only wait for the device
    elapsed = time.perf_counter() - begin
    run.seconds += elapsed
    row: LogRow = {
        "iteration": run.iteration,
        "frames": run.frames,
        "seconds": run.seconds,
        "frames_per_second": run.algo.frames_per_iteration / elapsed,
        **numbers,
    }
    if run.evaluator is not None and is_due(run.iteration, run.config.eval_every):
        summary = run.evaluator.run(run.act)
        row |= {f"eval/success/{task}": one["success"] for task, one in summary["tasks"].items()}
        row["eval/success"] = summary["mean_success"]
    return row


def is_due(iteration: int, every: int) -> bool:
    """Return whether something that happens every `every` iterations (0: never) is due now."""
    return every > 0 and iteration % every == 0


@contextmanager
def stop_requests() -> Iterator[list[int]]:
    """Collect SIGINT (Ctrl-C) and SIGTERM, so that the iteration ends and a checkpoint is written.

    A second signal has its usual effect and stops the process at once.
    """
    received: list[int] = []
    before: dict[int, Any] = {}  # the handlers to restore

    def remember(number: int, frame: FrameType | None) -> None:
        received.append(number)
        signal.signal(number, before[number])
        note("stopping after this iteration; repeat to stop at once")

    for kind in (signal.SIGINT, signal.SIGTERM):
        before[kind] = signal.signal(kind, remember)
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def finish(run: Run, row: LogRow, *, is_complete: bool) -> Result:
    """Write a summary and a figure of the run. If the run is complete, also evaluate it and write a video."""
    tasks = run.env.spec.tasks
    summary: dict[str, Any] = {
        "run_dir": str(run.directory),
        "complete": is_complete,
        "iterations": run.iteration,
        "frames": run.frames,
        "seconds": run.seconds,
        "success": row.get("success"),
        "tasks": {task: {"success": row.get(f"success/{task}")} for task in tasks},
        "initialization": run.initialization and asdict(run.initialization),
        **provenance(run.env.device),
    }
    cells = [(task, row.get(f"success/{task}"), row.get(f"return/{task}")) for task in tasks]
    shown = Table("episodes of training", ("task", "success", "return"), [*cells, ("mean", row.get("success"), None)])
    if is_complete and run.config.eval_episodes:
        evaluator = run.evaluator or Evaluator(run.config, run.config.eval_episodes)
        summary["evaluation"] = evaluator.run(run.act)
        evaluator.close()
        title = f"{run.config.eval_episodes} noiseless episodes per task"
        shown = evaluation_table(title, summary["evaluation"])
    write_text(run.directory / SUMMARY_FILE, json.dumps(finite(summary), indent=2) + "\n")
    rows = read_json_lines(run.directory / METRICS_FILE)
    lines = [f"run: {run.directory}", draw_run(rows, tasks, run.directory / "curves.png")]
    if not is_complete:
        lines.append(f"stopped after {run.iteration} iterations; continue: polytask train checkpoint={run.directory}")
    elif run.config.video:
        lines.append(film_run(run))
    return Result(summary, [shown], lines)


def film_run(run: Run) -> str:
    """Film the trained policy on all tasks of a run. Return the line to print: the video, or why there is none."""
    env, path = build_env(run.config, num_envs=run.env.spec.num_tasks), run.directory / "video.mp4"
    try:
        return f"video: {path} ({record_video(env, run.act, path, VideoFormat(width=320, height=240))} frames)"
    except UserError as error:
        return str(error)
    finally:
        env.close()
