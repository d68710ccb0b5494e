"""The training loop of all algorithms: iterate, log, evaluate and save."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from typing import Any

from polytask.config.compose import to_plain
from polytask.config.schema import TrainConfig
from polytask.envs.footage import Footage
from polytask.envs.video import VideoFormat
from polytask.errors import UserError
from polytask.files import LogRow, finite, read_json_lines, write_text
from polytask.parallel.ranks import join
from polytask.result import Result, Table, note
from polytask.runs.changes import describe
from polytask.runs.commands import plugin_words
from polytask.runs.cpu_note import cpu_note
from polytask.runs.divergence import DivergedError, advice, check_metrics
from polytask.runs.evaluate import NEW_GOALS, TRAINING_GOALS, Evaluator, evaluation_tables
from polytask.runs.file_names import CHECKPOINT_FILE, METRICS_FILE, SUMMARY_FILE
from polytask.runs.films import Filmer
from polytask.runs.logger import Logger, read_metrics
from polytask.runs.progress import ProgressDisplay
from polytask.runs.provenance import provenance
from polytask.runs.report.curves import draw_run
from polytask.runs.run import Run, open_run
from polytask.stopping import exit_code, stop_requests

# Evaluation and video at the end of a run may together take a tenth of its duration. The evaluation comes first and the
# video gets what is left. If that is little, it gets a fiftieth of the run: enough for some frames per second.
END_SHARE, VIDEO_SHARE = 0.1, 0.02


def train(config: TrainConfig) -> Result:
    """Run `polytask train`; processes that torchrun started train together."""
    run, history = open_run(config, join())
    try:
        if config.checkpoint is None and run.ranks.is_first:
            if run.initialization is not None:
                note(run.initialization.message())
            if (line := cpu_note(run.config, run.env.device)) is not None:
                note(line)
        if run.ranks.is_first and (changed := [each for each in run.changes if each["frames"] == run.frames]):
            note(f"changed since the start: {describe(changed)}")
        if run.ranks.is_first and config.checkpoint is not None and (line := run.limit_reached()) is not None:
            note(line)
        return _train(run, history)
    finally:
        run.close()


def _train(run: Run, history: list[LogRow]) -> Result:
    """Iterate until a limit is reached or a signal arrives, and write the results."""
    row: LogRow = history[-1] if history else {}
    ranks, signal = run.ranks, 0
    try:
        with stop_requests(is_announced=ranks.is_alone) as stops, writer(run, history) as write:
            # All ranks stop after the same iteration, also if a signal reaches one of them earlier than another.
            while not run.is_over and not (signal := ranks.largest(stops[0] if stops else 0)):
                row = iterate(run)
                write(row)
                check_metrics(row, run.env.spec.tasks)
                if is_due(run.iteration, run.config.save_every) or run.is_unsaved_for_long:
                    run.save()
            if signal and ranks.is_first and not ranks.is_alone:
                note(f"stopping all {ranks.size} ranks")
            run.save()
    except DivergedError as error:
        reason = f"{error}; {advice(run.directory / CHECKPOINT_FILE, run.saved_iteration)}"
        finish(run, row, code=2, reason=reason)
        raise DivergedError(reason) from error
    agreed = stops if ranks.is_alone else [signal] * (signal > 0)
    return finish(run, row, exit_code(agreed))


@contextmanager
def writer(run: Run, history: list[LogRow]) -> Iterator[Callable[[LogRow], None]]:
    """Open the log and the display of a run, and yield the function that writes a row to both. Only rank 0 does so."""
    if not run.ranks.is_first:
        yield lambda row: None
        return
    logger = Logger(run.directory, to_plain(run.config), history)
    display = ProgressDisplay(run.env.spec.tasks, run.last_frames, run.frames, run.ranks.size)
    with logger, display, closing(Filmer(run)) as filmer:

        def write(row: LogRow) -> None:
            logger.write(row)
            display.update(row)
            if is_due(run.iteration, run.config.video_every) and (film := filmer.film()) is not None:
                logger.show(film, run.frames)

        yield write


def iterate(run: Run) -> LogRow:
    """Run one iteration and return its metrics as a flat row."""
    begin = time.perf_counter()
    ranks, recorder = run.ranks, run.recorder
    metrics = {**run.algo.iterate(run.recorded_env), **ranks.sum_dict(run.env.world_metrics())}
    run.iteration += 1
    episodes = ranks.sum_dict(run.env.pop_metrics())
    if recorder is not None:
        recorder.fetch()
    numbers = read_metrics(metrics, episodes, run.window)  # the only wait for the device
    if recorder is not None:
        recorder.keep(run.iteration, run.frames)
    run.frames += run.algo.frames_per_iteration
    elapsed = ranks.of_first(time.perf_counter() - begin)  # one clock decides for all when `max_minutes` are over
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


def finish(run: Run, row: LogRow, code: int, reason: str | None = None) -> Result:
    """Write a summary and a figure of the run. If the run is complete, also evaluate it and write a video.

    Rank 0 does this, and the others wait for it.

    Args:
        run: The run.
        row: The last row of its metrics.
        code: The exit code: 0 if the run is complete, another one if a signal or an error stopped it.
        reason: The error that stopped it.
    """
    result = _finish(run, row, code, reason) if run.ranks.is_first else Result({}, exit_code=code)
    run.ranks.wait()
    return result


def _finish(run: Run, row: LogRow, code: int, reason: str | None) -> Result:
    tasks, is_complete = run.env.spec.tasks, code == 0
    summary: dict[str, Any] = {
        "run_dir": str(run.directory),
        "complete": is_complete,
        "reason": reason,
        "iterations": run.iteration,
        "frames": run.frames,
        "seconds": run.seconds,
        "success": row.get("success"),
        "tasks": {task: {"success": row.get(f"success/{task}")} for task in tasks},
        "initialization": run.initialization and asdict(run.initialization),
        "demonstrations": run.demonstrations,
        "reward": run.config.reward,
        "ranks": run.ranks.size,
        "runs_on_device": run.runs_on_device,
        "parameters": parameter_counts(run),
        **provenance(run.env.device),
    }
    cells = [(task, row.get(f"success/{task}"), row.get(f"return/{task}")) for task in tasks]
    title = f"episodes of training, {run.track}"
    shown = [Table(title, ("task", "success", "return"), [*cells, ("mean", row.get("success"), None)])]
    footage, begin = None, time.perf_counter()
    if is_complete and run.config.eval_episodes:
        shown, footage = evaluate_run(run, summary)
    elif is_complete and run.config.video:
        footage = play_for_video(run)
    left = max(END_SHARE * run.seconds - (time.perf_counter() - begin), VIDEO_SHARE * run.seconds)
    write_text(run.directory / SUMMARY_FILE, json.dumps(finite(summary), indent=2) + "\n")
    rows = read_json_lines(run.directory / METRICS_FILE, is_numeric=True)
    lines = [f"run: {run.directory}", draw_run(rows, tasks, run.directory / "curves.png")]
    if run.recorder is not None:
        lines.append(run.recorder.writer.line())
    if not is_complete:
        how = "polytask" if run.ranks.is_alone else f"torchrun --nproc-per-node={run.ranks.size} -m polytask"
        command = " ".join([how, "train", *_words(run, "checkpoint")])
        lines.append(f"stopped after {run.iteration} iterations; continue: {command}")
    elif run.config.video and footage is not None:
        lines.append(film_run(run, footage, left))
    return Result(summary, shown, [*lines, *next_commands(run)], exit_code=code)


def next_commands(run: Run) -> list[str]:
    """Return the lines that say how to look at a run."""
    watch, report = " ".join(_words(run, "checkpoint")), " ".join([*_words(run, "runs"), "output=report"])
    lines = [f"watch: polytask play {watch}", f"report: polytask report {report}"]
    if run.config.tensorboard:
        lines.append(f"events: tensorboard --logdir {shlex.quote(str(run.directory))}")
    return lines


def _words(run: Run, key: str) -> list[str]:
    """Return the words that name a run to a command, and the plug-ins without which the command cannot load it."""
    return [f"{key}={shlex.quote(str(run.directory))}", *plugin_words(run.plugins)]


def parameter_counts(run: Run) -> dict[str, int]:
    """Return the number of parameters of each network."""
    counts = {name: sum(each.numel() for each in net.parameters()) for name, net in run.algo.networks().items()}
    return {name: count for name, count in counts.items() if count}


def evaluate_run(run: Run, summary: dict[str, Any]) -> tuple[list[Table], Footage]:
    """Evaluate the policy without noise, and add the results to the summary.

    If the goals of training are fixed, the evaluation is on these goals, and a second one is on new goals.

    Returns:
        The results as tables, and what was filmed: the first evaluation.
    """
    episodes, goals = run.config.eval_episodes, run.goals
    evaluator = run.evaluator or Evaluator(run.config, episodes, goals)
    footage = Footage(evaluator.env)
    summary["evaluation"] = evaluator.run_and_show(run.act, [footage.take] if run.config.video else [])
    evaluator.close()
    title = f"{episodes} noiseless episodes per task, {run.track}"
    if goals is None:
        return evaluation_tables(title, summary["evaluation"]), footage
    evaluator = Evaluator(run.config, episodes)
    summary["evaluation_new_goals"] = evaluator.run_and_show(run.act)
    evaluator.close()
    tables = [
        *evaluation_tables(title + TRAINING_GOALS, summary["evaluation"]),
        *evaluation_tables(title + NEW_GOALS, summary["evaluation_new_goals"]),
    ]
    return tables, footage


def play_for_video(run: Run) -> Footage:
    """Play one episode of every task without noise, and return what was filmed."""
    stage = Evaluator(run.config, 1, run.goals)
    footage = Footage(stage.env)
    stage.play(run.act, [footage.take])
    stage.close()
    return footage


def film_run(run: Run, footage: Footage, seconds: float) -> str:
    """Write a video of the trained policy on all tasks. Return the line to print: the video, or why there is none.

    Args:
        run: The run.
        footage: What was filmed.
        seconds: How long drawing may take.
    """
    path, video = run.directory / "video.mp4", VideoFormat(width=320, height=240)
    try:
        frames = footage.write(path, video, seconds, is_required=False)
    except UserError as error:
        return str(error)
    if frames == 0:
        command = " ".join(["polytask", "record", *_words(run, "checkpoint")])
        return f"no video: it would take too much of so short a run; {command} draws it"
    return f"video: {path} ({frames} frames)"
