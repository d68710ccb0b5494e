"""The common part of the experiments of MT-Opt: a clock, a report on disk, worlds, and statistics.

Every script takes `--seconds`, prints progress to standard error, rewrites its `--out` after every stage, and prints
one JSON object at the end. Without a GPU everything runs on the CPU, at sizes given by the flags.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

os.environ.setdefault("MUJOCO_GL", "egl")

import torch
from captured import CapturedUpdate
from torch import Tensor

from polytask.cuda_graph import Graphed
from polytask.mtopt.config.learning import CEMConfig, LearnerConfig
from polytask.mtopt.config.network import AugmentConfig, CameraConfig, NetworkConfig
from polytask.mtopt.config.world import WorldConfig
from polytask.mtopt.learning.acting import Exploration, best_action, explore
from polytask.mtopt.learning.learner import QLearner, TrainBatch
from polytask.mtopt.learning.transitions import Transitions
from polytask.mtopt.records import Observation
from polytask.mtopt.tasks import ALL_TASKS, KINDS
from polytask.mtopt.world import BinWorld
from polytask.runs.provenance import provenance

LIFTS = ("lift-any", *(f"lift-{kind}" for kind in KINDS))
PLACES = ("place-any", "place-bottom", "place-top-left", "place-top-right")


def parser(description: str, seconds: float, worlds: int) -> argparse.ArgumentParser:
    """Make a parser with the flags that all experiments have."""
    is_cuda = torch.cuda.is_available()
    flags = argparse.ArgumentParser(description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    flags.add_argument("--seconds", type=float, default=seconds, help="when to stop, counted from the start")
    flags.add_argument("--out", type=Path, default=None, help="file that is rewritten after every stage")
    flags.add_argument("--seed", type=int, default=0)
    flags.add_argument("--device", default="cuda" if is_cuda else "cpu")
    flags.add_argument("--sim", default="warp" if is_cuda else "cpu")
    flags.add_argument("--worlds", type=int, default=worlds if is_cuda else 32)
    flags.add_argument("--image-size", type=int, default=64)
    flags.add_argument("--outcome-size", type=int, default=96)
    return flags


class Report:
    """The results so far, written to disk after every stage, and the time that is left."""

    def __init__(self, name: str, arguments: argparse.Namespace) -> None:
        """Start the clock."""
        self._start, self._seconds, self._out = time.monotonic(), float(arguments.seconds), arguments.out
        settings = {key: str(value) if isinstance(value, Path) else value for key, value in vars(arguments).items()}
        settings.pop("out", None)  # does not matter to a reader
        origin = {"command": command(name), "date": f"{datetime.now(UTC):%Y-%m-%d}"}
        self.results: dict[str, Any] = {
            "name": name,
            **origin,
            **provenance(torch.device(arguments.device)),
            "settings": settings,
        }

    @property
    def left(self) -> float:
        """Return the seconds that are left."""
        return self._seconds - (time.monotonic() - self._start)

    def say(self, text: str) -> None:
        """Print a line of progress."""
        print(f"[{time.monotonic() - self._start:6.1f} s] {text}", file=sys.stderr, flush=True)

    def put(self, key: str, value: Any, quiet: bool = False) -> None:
        """Set a result and write all of them."""
        self.results[key] = value
        self.results["seconds"] = round(time.monotonic() - self._start, 1)
        if not quiet:
            self.say(f"{key}: {short(value)}")
        if self._out is not None:
            self._out.parent.mkdir(parents=True, exist_ok=True)
            temporary = self._out.with_suffix(".part")
            temporary.write_text(json.dumps(clean(self.results), indent=1) + "\n", encoding="utf-8")
            temporary.replace(self._out)

    def append(self, key: str, value: Any) -> None:
        """Add to a list of results and write all of them."""
        self.say(f"{key}: {short(value)}")
        self.put(key, [*self.results.get(key, []), value], quiet=True)

    def resume(self, kept: Sequence[str], free: Sequence[str] = ("seconds", "seeds")) -> None:
        """Take over what an earlier command wrote to `--out`, so that one study fits into several short commands.

        Args:
            kept: Results to take over.
            free: Flags that may differ.

        Raises:
            ValueError: If the file holds a study with other settings; then this report does not overwrite it.
        """
        if self._out is None or not self._out.exists():
            return
        out, self._out = self._out, None  # until it is clear that the file is this study's
        earlier = json.loads(out.read_text(encoding="utf-8"))
        now = json.loads(json.dumps(clean(self.results["settings"])))
        other = [key for key in now if key not in free and earlier.get("settings", {}).get(key) != now[key]]
        if other or earlier.get("name") != self.results["name"]:
            raise ValueError(f"'{out}' holds a study with other settings ({', '.join(other)}): choose another --out")
        self.results |= {key: earlier[key] for key in kept if key in earlier}
        commits = {*earlier.get("commits", []), earlier["commit"], self.results["commit"]}
        self.results["commits"] = sorted(commits - {None})  # a copy without Git history may not know its own
        self._out = out


def run(name: str, arguments: argparse.Namespace, body: Callable[[argparse.Namespace, Report], None]) -> dict[str, Any]:
    """Run an experiment; an error is part of its report, and the results before it are kept."""
    report = Report(name, arguments)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True
    error = None
    try:
        body(arguments, report)
    except Exception as caught:  # an error in a later stage must not lose the results of the first ones
        error = caught
        report.put("error", "".join(traceback.format_exception(caught))[-4000:])
    report.put("finished", error is None)
    print(json.dumps(clean(report.results)), flush=True)
    if error is not None:
        raise SystemExit(1)
    return report.results


def command(name: str) -> str:
    """Return the command as a reader would type it, without `--out`."""
    words = list(sys.argv[1:]) if Path(sys.argv[0]).stem == name else []
    if "--out" in words:
        place = words.index("--out")
        del words[place : place + 2]
    return " ".join(["python", f"benchmarks/mtopt/{name}.py", *words])


def clean(value: Any) -> Any:
    """Round numbers for a report; NaN and infinity become None."""
    if isinstance(value, dict):
        return {str(key): clean(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [clean(part) for part in value]
    if isinstance(value, float):
        return float(f"{value:.5g}") if math.isfinite(value) else None
    return value


def short(value: Any) -> str:
    """Return a result as one line for a terminal."""
    text = json.dumps(clean(value), default=str)
    return text if len(text) < 400 else text[:400] + " ..."


def wait(device: torch.device | str) -> None:
    """Wait for the device before the clock is read."""
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize()


def make_world(arguments: argparse.Namespace, seed: int, **options: Any) -> BinWorld:
    """Make the worlds of the flags."""
    sizes = {"image_size": arguments.image_size, "outcome_size": arguments.outcome_size}
    config = WorldConfig(arguments.worlds, arguments.sim, arguments.device, **sizes, seed=seed, **options)
    return BinWorld(config)


def generator_on(device: torch.device | str, seed: int) -> torch.Generator:
    """Make a generator on a device."""
    return torch.Generator(device).manual_seed(seed)


# --- statistics -----------------------------------------------------------------------------------------------------


def auc(score: Tensor, truth: Tensor) -> float:
    """Return the probability that a success scores higher than a failure; NaN without both. Ties count half."""
    score, truth = score.double().cpu(), truth.bool().cpu()
    successes, failures = int(truth.sum()), int((~truth).sum())
    if not successes or not failures:
        return math.nan
    _, inverse, counts = torch.unique(score, return_inverse=True, return_counts=True)  # sorted
    rank = counts.cumsum(0) - (counts - 1) / 2  # mean rank of equal scores, counted from one
    return float((rank[inverse][truth].sum() - successes * (successes + 1) / 2) / (successes * failures))


def rate(hits: Tensor, seed: int = 0, draws: int = 2000) -> dict[str, float | int]:
    """Return a success rate with its 95 % bootstrap interval."""
    count, mean = len(hits), float(hits.double().mean()) if len(hits) else math.nan
    if not count:
        return {"mean": math.nan, "low": math.nan, "high": math.nan, "count": 0}
    # A bootstrap sample of M yes-or-no results is a binomial number.
    means = torch.binomial(
        torch.full((draws,), float(count), dtype=torch.float64),
        torch.full((draws,), mean, dtype=torch.float64),
        generator=torch.Generator().manual_seed(seed),
    ) / float(count)
    low, high = means.quantile(torch.tensor([0.025, 0.975], dtype=torch.float64)).tolist()
    return {"mean": mean, "low": low, "high": high, "count": count}


def pooled(rows: Sequence[dict[str, float | int]], seed: int = 0, draws: int = 2000) -> dict[str, float | int]:
    """Pool rates of several seeds: draw seeds with replacement, then the episodes within them."""
    low, high = drawn_means(rows, seed, draws).quantile(torch.tensor([0.025, 0.975], dtype=torch.float64)).tolist()
    mean = sum(float(row["mean"]) for row in rows) / len(rows)
    return {"mean": mean, "low": low, "high": high, "count": sum(int(row["count"]) for row in rows), "seeds": len(rows)}


def drawn_means(rows: Sequence[dict[str, float | int]], seed: int, draws: int) -> Tensor:
    """Draw mean rates (draws,) of seeds and episodes with replacement."""
    generator = torch.Generator().manual_seed(seed)
    mean = torch.tensor([float(row["mean"]) for row in rows], dtype=torch.float64)
    count = torch.tensor([float(row["count"]) for row in rows], dtype=torch.float64)
    chosen = torch.randint(len(rows), (draws, len(rows)), generator=generator)
    return (torch.binomial(count[chosen], mean[chosen], generator=generator) / count[chosen]).mean(1)


def contrast(
    better: Sequence[dict[str, float | int]], worse: Sequence[dict[str, float | int]], draws: int = 2000
) -> dict[str, float]:
    """Return the difference between the rates of two settings, with the 95 % bootstrap interval."""
    gap = drawn_means(better, 1, draws) - drawn_means(worse, 2, draws)
    low, high = gap.quantile(torch.tensor([0.025, 0.975], dtype=torch.float64)).tolist()
    means = [sum(float(row["mean"]) for row in rows) / len(rows) for rows in (better, worse)]
    return {"difference": means[0] - means[1], "low": low, "high": high}


# --- acting and training --------------------------------------------------------------------------------------------


class QPolicy:
    """Acts by CEM on a learner's averaged network, for the learner's tasks."""

    name = "q"

    def __init__(self, learner: QLearner, tasks: Sequence[str], generator: torch.Generator, **options: Any) -> None:
        """Use a learner.

        Args:
            learner: The trained learner.
            tasks: Names in the order of the learner's indices.
            generator: Source of samples, on the learner's device.
            options: `cem` (CEMConfig), `epsilon` and `noise` of exploration.
        """
        self.learner, self.generator = learner, generator
        self.cem: CEMConfig = options.pop("cem", learner.config.bellman.cem)
        self.epsilon, self.noise = options.pop("epsilon", 0.0), options.pop("noise", 0.0)
        known = [tasks.index(name) if name in tasks else 0 for name in ALL_TASKS]
        self._index = torch.tensor(known, device=learner.device)
        self.value: Tensor | None = None  # (N,) expected values of the last actions
        if options:
            raise TypeError(f"unknown options {sorted(options)}")

    def reset(self, mask: Tensor | None = None) -> None:
        """Do nothing: the policy has no memory."""

    @torch.no_grad()
    def act(self, observation: Observation, task: Tensor) -> Tensor:
        """Return actions (N, 8) for tasks (N,) given as indices into `ALL_TASKS`."""
        assert task is not None and observation.pose is not None
        index = self._index[task]
        parts = (observation.image, observation.closed, observation.height, observation.pose, index)
        found = [self._best(*part) for part in zip(*(part.split(2048) for part in parts), strict=True)]
        action, value = (torch.cat(part) for part in zip(*found, strict=True))
        self.value = value.sigmoid()
        exploration = Exploration(self.epsilon, self.noise)
        return explore(action, observation.closed, exploration, self.cem, self.generator)

    def _best(self, image: Tensor, closed: Tensor, height: Tensor, pose: Tensor, task: Tensor) -> tuple[Tensor, Tensor]:
        observation = Observation(image, closed, height, pose)
        return best_action(self.learner.q1, observation, task, self.cem, self.generator)


class Supervised:
    """Trains a learner on examples (row, task) of a fixed table, in a CUDA graph on a GPU."""

    def __init__(self, learner: QLearner, table: dict[str, Tensor], batch: int, seed: int, is_eager: bool) -> None:
        """Prepare for tables of image, closed, height, pose, action (M, ...) and truth (M, K)."""
        self.learner, self.table = learner, table
        device = learner.device
        self._row = torch.zeros(batch, dtype=torch.long, device=device)
        self._task = torch.zeros(batch, dtype=torch.long, device=device)
        self._generator = generator_on(device, seed)
        self._seed = seed
        self._run = Graphed(self._step, torch.device("cpu") if is_eager else device, self._generator)

    def __call__(self, row: Tensor, task: Tensor) -> dict[str, Tensor]:
        """Take one step on examples (B,)."""
        self._row.copy_(row)
        self._task.copy_(task)
        self.learner.begin()
        try:
            metrics: dict[str, Tensor] = self._run()
        except RuntimeError as error:
            if self.learner.device.type != "cuda" or self._run.device.type != "cuda":
                raise
            print(f"the capture failed; training continues without it: {error}", file=sys.stderr, flush=True)
            self._generator = generator_on(self.learner.device, self._seed)
            self._run = Graphed(self._step, torch.device("cpu"))
            metrics = self._run()
        self.learner.count()
        return metrics

    def _step(self) -> dict[str, Tensor]:
        table, row = self.table, self._row
        target = table["truth"][row, self._task].float()
        image, closed, height = (table[name][row] for name in ("image", "closed", "height"))
        example = TrainBatch(image, closed, height, self._task, table["action"][row], target, table["pose"][row])
        return self.learner.learn(example, self._generator)


def train_updates(
    learner: QLearner, sample: Callable[[], Transitions], generator: torch.Generator, **options: Any
) -> Iterator[dict[str, Tensor]]:
    """Yield the metrics of one update after another, without end. The options are those of `CapturedUpdate`."""
    update = CapturedUpdate(learner, generator, **options)
    while True:
        batch = sample()
        try:
            metrics = update(batch)
        except RuntimeError as error:
            if learner.device.type != "cuda" or options.get("is_eager"):
                raise
            print(f"the capture failed; training continues without it: {error}", file=sys.stderr, flush=True)
            options["is_eager"] = True
            update = CapturedUpdate(learner, generator_on(learner.device, 1), **options)
            metrics = update(batch)
        yield metrics


def learner_config(arguments: argparse.Namespace, merge: str, reach: float, seed: int, **options: Any) -> LearnerConfig:
    """Make a learner's configuration from the flags."""
    network = NetworkConfig(
        arguments.network,
        image_size=arguments.image_size,
        autocast=arguments.device.startswith("cuda"),
        merge=merge,
        camera=CameraConfig(reach=reach),
    )
    light = AugmentConfig(arguments.augment, shift=0, brightness=0.05, contrast=0.1, saturation=0.1, hue=0.01)
    rates = {"lr": arguments.lr, "weight_decay": arguments.weight_decay}
    return LearnerConfig(network=network, augment=light, **rates, seed=seed, **options)


def learning_flags(flags: argparse.ArgumentParser, updates: int, batch: int) -> None:
    """Add the flags of training."""
    flags.add_argument("--network", default="small", help="small or medium")
    flags.add_argument("--updates", type=int, default=updates)
    flags.add_argument("--batch", type=int, default=batch)
    flags.add_argument("--lr", type=float, default=3e-4)
    flags.add_argument("--weight-decay", type=float, default=0.01)
    flags.add_argument("--augment", action="store_true", help="change the light of training pictures a little")
    flags.add_argument("--eager", action="store_true", help="capture no CUDA graph of training")
