"""Runs of the package inside a study: stop them in time, copy their folders, and evaluate what they have learned."""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from experiment import Report

from polytask.config.compose import compose
from polytask.errors import UserError
from polytask.mtopt.config.run import RunConfig
from polytask.mtopt.detector import Judge
from polytask.mtopt.detector.folder import in_use, path_of
from polytask.mtopt.learning.weights import WeightFolder
from polytask.mtopt.roles import Evaluator
from polytask.mtopt.roles.trainer import STATE, load_state
from polytask.mtopt.runtime.checks import check_devices, prepared

WEIGHTS = (STATE, "weights")  # what a run has learned
# The words of a study are among its settings, and a run keeps its own.
MORE_LABELS = "a study with more labels (labels.per_task=N) needs a new --out and a new --work"


class TimeIsUpError(Exception):
    """Ends a command whose time is over; the next one continues."""


class Deadline(Sequence[int]):
    """Looks like a list of signals, as runtimes ask for them, and is empty until the time is over."""

    def __init__(self, report: Report) -> None:
        """Watch the clock of a report."""
        self._report = report

    def __len__(self) -> int:
        """Count one signal when the time is over."""
        return int(self._report.left < 0)

    def __getitem__(self, index: Any) -> Any:
        """Return the signal: that of a polite stop."""
        return [15][index]

    def check(self) -> None:
        """Raise `TimeIsUpError` if the time is over."""
        if self:
            raise TimeIsUpError


def run_config(arguments: argparse.Namespace, root: Path, seed: int, preset: str, words: Sequence[str]) -> RunConfig:
    """Return the settings of a study's run in a folder: one round without simple policies or chains.

    Args:
        arguments: Flags of the study; it has `episodes` of evaluation and `words` for all its runs.
        root: Folder of the run.
        seed: Of everything.
        preset: Of the run.
        words: Further settings of this run, which come last.
    """
    own = [f"preset={preset}", "controller.rounds=0", "evaluator.chains=false", "evaluator.simple=false"]
    own += [f"seed={seed}", f"learner.seed={seed}", f"evaluator.episodes={arguments.episodes}"]
    config = compose(RunConfig, [*own, *arguments.words, *words])
    config.run_dir = str(root)
    return prepared(config)


def study_flags(about: str | None, work: str, sizes: Collection[str], arms: Collection[str]) -> argparse.ArgumentParser:
    """Return the flags that all studies with arms have."""
    flags = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    add, is_cuda = flags.add_argument, torch.cuda.is_available()
    add("--seconds", type=float, default=500, help="when to begin no further job, counted from the start")
    add("--out", type=Path, default=None, help="file of the finished rows; keep it to continue")
    add("--size", choices=tuple(sizes), default="gpu" if is_cuda else "tiny")
    add("--work", default=work, help="folder of the runs; keep it to continue")
    add("--seeds", type=int, nargs="+", default=[0, 1, 2])
    add("--arms", nargs="+", choices=tuple(arms), default=list(arms))
    add("--updates", type=int, default=None, help="of each arm (default: the size's)")
    add("--episodes", type=int, default=None, help="of evaluation (default: the size's)")
    add("--threads", type=int, default=torch.get_num_threads(), help="of torch on the CPU")
    add("words", nargs="*", help="settings of the runs, such as trainer.updates=1000")
    return flags


def fill_in(arguments: argparse.Namespace, size: Mapping[str, Any]) -> None:
    """Give the flags that are not set the values of a size, and put its words before those of the command."""
    for name, value in size.items():
        if name != "words" and getattr(arguments, name, None) is None:
            setattr(arguments, name, value)
    arguments.words = [*size["words"], *arguments.words]


def take_device(flags: argparse.ArgumentParser, arguments: argparse.Namespace, make: Callable[[], RunConfig]) -> None:
    """Name the device of the study's runs in its report; end with one line if their settings or the device are wrong.

    Args:
        flags: Of the study.
        arguments: They get the `device`.
        make: Returns the settings of a run.
    """
    try:
        arguments.device = make().device
        check_devices({"device": arguments.device})
    except UserError as error:
        flags.exit(2, f"{error}\n")


def gate_of(config: RunConfig) -> dict[str, Any]:
    """Return the tasks that the detector in use was taught, those that the gate refused and why, and the rest.

    Only the rest is judged. Nothing learns the other tasks, so their rates say nothing about a study. The digest tells
    this detector from that of any other run.
    """
    judge = Judge(config.detectors, "cpu")
    found = {"taught": list(judge.taught(config.learned)), "refused": judge.refused(config.learned)}
    head = {"detector": judge.version, "digest": digest_of(config)}
    return {**head, **found, "judged": list(judge.judged(config.learned))}


def digest_of(config: RunConfig) -> str | None:
    """Return a digest of the file of the detector in use; None if there is none."""
    version = in_use(config.detectors)
    return version and hashlib.sha256(path_of(config.detectors, version).read_bytes()).hexdigest()[:16]


def require_base(config: RunConfig, gate: Mapping[str, Any], seed: int) -> None:
    """Check that a run is the one that finished rows are from: a GPU makes other episodes from the same seed.

    Args:
        config: Settings of the run.
        gate: What `gate_of` returned for the finished rows.
        seed: Of the rows.

    Raises:
        ValueError: If the run is another one, or gone.
    """
    found = digest_of(config)
    if found is None or found != gate.get("digest"):
        raise ValueError(
            f"seed {seed} has finished rows from another run than '{config.root}', with other episodes and verdicts: "
            "bring that run back, or give --seeds without this one, or another --out"
        )


def of_common_seeds(*arms: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Return the rows of each arm for the seeds that all of them have, in the order of these: seeds differ."""
    seeds = sorted(set.intersection(*({row["seed"] for row in rows} for rows in arms)))
    return [[row for seed in seeds for row in rows if row["seed"] == seed] for rows in arms]


def copy_run(source: Path, target: Path, *, without: Sequence[str] = ()) -> None:
    """Copy a run's folder in one step. Shards, which only grow by new files here, are links where that is possible."""

    def copy(old: str, new: str) -> str:
        if Path(old).parent.name == "shards":
            try:
                os.link(old, new)
            except OSError:  # another file system
                shutil.copy2(old, new)
            return new
        return shutil.copy2(old, new)

    part = target.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    shutil.copytree(source, part, copy_function=copy, ignore=shutil.ignore_patterns("lock", *without))
    part.replace(target)


def updates_of(root: Path) -> int:
    """Return the updates of the learner that a run has saved."""
    path = root / STATE
    return int(load_state(path)["learner"]["step"]) if path.exists() else 0


def evaluation(config: RunConfig, tasks: Sequence[str], *, is_scripted: bool = False) -> dict[str, dict[str, Any]]:
    """Evaluate the newest weights of a run, or the scripts, and return each task's result.

    No study shows the scripts with one action, so they play once.
    """
    evaluator = Evaluator(config)
    with closing(evaluator.world):
        if is_scripted:
            evaluator.judge.sync()
        else:
            evaluator.sync(WeightFolder(config.weights).newest())
        return {
            row.task: asdict(row)
            for row in evaluator.step(tasks, is_scripted=is_scripted, has_short=not is_scripted).tasks
        }
