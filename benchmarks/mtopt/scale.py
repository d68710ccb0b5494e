"""Measure MT-Opt on a synthetic store of a million episodes and with sixteen workers, and extrapolate to ten million.

    nice python benchmarks/mtopt/scale.py --out benchmarks/results/cpu_mtopt_scale.json
    python benchmarks/mtopt/scale.py --table benchmarks/results/cpu_mtopt_scale.json     # for docs/mtopt_scale.md

Pictures are small (16 pixels), because what grows with the number of episodes is everything else: rows, labels, lists
in memory. Verdicts are drawn at random, like those of a detector that finds few successes; a real, untrained detector
judges only a sample, because a million would take an hour. Every stage runs in a process of its own, whose largest
memory is its figure. A store of a quarter of the size is measured first; ten million are on the line through both. The
workers then collect, grade, train and evaluate in the folder of the large store.

Seconds are those that a processor worked, with all threads of the process: other jobs of the machine do not count. The
sixteen workers share the cores, so their seconds are of a clock.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import resource
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import torch
from experiment import Report, parser, run
from synthetic_store import VERSION, Figures, ingest, judge, settings, templates

from polytask.mtopt.config.label import LabelConfig
from polytask.mtopt.label.session import LabelSession
from polytask.mtopt.learning.reservoir import Reservoirs
from polytask.mtopt.roles import Grader, TaskReplay
from polytask.mtopt.runtime.folder import RunFolder
from polytask.mtopt.status import status_of
from polytask.mtopt.store import EpisodeStore
from polytask.mtopt.store.tallies import BLOCK
from polytask.mtopt.task_table import TaskTable
from polytask.mtopt.tasks import MAIN_TASKS, TASKS

TEN_MILLION = 10_000_000
Stage = Callable[..., Figures]  # takes the folder of the store, and more
# Seconds that do not grow with the store, but with the buffers or the batch.
CONSTANT = ("read_seconds", "draw_seconds", "own_seconds", "clock_seconds")


# --- what a run does with it ------------------------------------------------------------------------------------------


def timed(work: Callable[[], Any]) -> float:
    """Return the seconds that some work takes a processor."""
    start = time.process_time()
    work()
    return time.process_time() - start


def status(root: Path) -> Figures:
    """Time `polytask mtopt status`, the first and the second time; and reading all rows, which it once did."""
    folder = RunFolder(root)
    first, again = (timed(lambda: status_of(folder)) for _ in range(2))
    with closing(EpisodeStore(root)) as store:
        with store.writer("new") as writer:
            writer.append_many(templates(64))
        after_more = timed(lambda: status_of(folder))
        own = timed(lambda: [store.count_seed(seed) for seed in range(1000)]) / 1000
    return {"first_seconds": first, "again_seconds": again, "after_64_more_seconds": after_more, "own_seconds": own}


def all_rows(root: Path) -> Figures:
    """Read the rows of all episodes, which earlier versions did at every step."""
    with closing(EpisodeStore(root)) as store:
        return {"seconds": timed(store.rows)}


def grade(root: Path) -> Figures:
    """Look for episodes without a verdict twice, and let the detector judge a sample that the store lacks."""
    first, again = (timed(lambda: _graded(root)) for _ in range(2))
    with closing(EpisodeStore(root)) as store, store.writer("sample") as writer:
        writer.append_many(templates() * 16)
    start = time.process_time()
    sample = _graded(root)
    rate = sample / len(MAIN_TASKS) / (time.process_time() - start)
    return {"first_seconds": first, "again_seconds": again, "episodes_per_second": rate}


def _graded(root: Path) -> float:
    with closing(Grader(settings(root))) as grader:
        return grader.run()["labels"]


def page(root: Path) -> Figures:
    """Open the labelling page on the store, and ask for questions."""
    config = LabelConfig(run_dir=str(root), tasks=list(MAIN_TASKS))
    with closing(EpisodeStore(root)) as store:
        session = LabelSession(store, TaskTable(tuple(TASKS.values()), len(TASKS)), config)
        opened = timed(session.progress)
        first = timed(lambda: session.questions("lift-can", "new", 20))
        again = timed(lambda: session.questions("lift-can", "new", 20))
    return {"open_seconds": opened, "first_question_seconds": first, "next_question_seconds": again}


def replay(root: Path) -> Figures:
    """List the log, fill the buffers, replace a part of them, and draw."""
    generator = torch.Generator().manual_seed(0)
    with closing(TaskReplay(settings(root))) as role:
        listing = timed(lambda: [None for _ in iter(lambda: role.log.step().read, 0)])
        filling = timed(lambda: role.log.refill(0))
        log = role.log.reservoirs()
        sorting = timed(lambda: Reservoirs(log.number, log.frames, log.verdict))
        choosing = timed(lambda: log.choose(role.config.replay.capacity, turn=1))
        role.sample(1024, generator)
        draw = timed(lambda: [role.sample(1024, generator) for _ in range(20)]) / 20
        held = len(role.buffers)
    return {
        "list_seconds": listing,
        "sort_seconds": sorting,
        "choose_seconds": choosing,
        "read_seconds": filling - sorting - choosing,
        "draw_seconds": draw,
        "held_episodes": held,
    }


def prune(root: Path) -> Figures:
    """Remove the verdicts of the detector that is not in use."""
    with closing(EpisodeStore(root)) as store:
        start = time.process_time()
        rows = store.prune_verdicts(VERSION)
    return {"rows": rows, "rows_per_second": rows / (time.process_time() - start)}


def workers(root: Path) -> Figures:
    """Run sixteen workers in the folder: rounds of collecting, grading, training and evaluating."""
    from polytask.mtopt.runtime.ray.cluster import cluster
    from polytask.mtopt.runtime.ray.runtime import RayRuntime
    from polytask.parallel.ray_environment import set_environment

    set_environment("")
    config, start = settings(root), time.monotonic()
    with cluster(config.ray), closing(RayRuntime(config, lambda line: None)) as runtime:
        pool = runtime.pool
        while not all(slot.pid for slot in pool.slots):
            pool.step()
        started, begun = time.monotonic() - start, time.monotonic()
        runtime.run()
        taken, counts = time.monotonic() - begun, runtime.counts()
        memory = [_resident(slot.pid) for slot in pool.slots]
    records = [json.loads(line) for line in (root / "metrics.jsonl").read_text().splitlines()]
    collected = [one for one in records if one["kind"] == "collect"]
    evaluated = next(place for place, one in enumerate(records) if one["kind"] == "evaluate")
    ahead = [one for one in records[:evaluated] if one["kind"] == "collect" and one["round"] == 1]
    return {
        "workers": len(memory),
        "start_seconds": started,
        "run_seconds": taken,
        "stored": counts.acknowledged,
        "lost": counts.lost,
        "deaths": counts.deaths,
        "sequences": len(collected),
        "sequences_while_round_0_was_trained": len(ahead),
        "largest_sequence_bytes": max(one["bytes"] for one in collected),
        "mean_lag_versions": float(np.mean([one["lag"] for one in collected if one["round"]])),
        "updates": int(max(one.get("updates") or 0 for one in records)),
        "mean_worker_mb": float(np.mean(memory)),
        "largest_worker_mb": max(memory),
    }


def _resident(pid: int) -> float:
    """Return the memory of a process, MB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1e3


def check(root: Path) -> Figures:
    """Compare shards and index, without reading every episode."""
    with closing(EpisodeStore(root)) as store:
        start = time.process_time()
        report = store.check()
        return {"seconds": time.process_time() - start, "is_sound": report.is_sound}


def rebuild(root: Path) -> Figures:
    """Delete the index, rebuild it from the shards, and compare episodes and truth."""
    before = _digest(root)
    for path in root.glob(f"{EpisodeStore.INDEX}*"):
        path.unlink()
    start = time.process_time()
    done = EpisodeStore.rebuild(root)
    taken = time.process_time() - start
    assert done is not None
    return {"seconds": taken, "episodes": done.episodes, "is_equal": _digest(root) == before}


def _digest(root: Path) -> str:
    """Return a checksum of all rows of episodes and truth."""
    found = hashlib.sha256()
    with closing(sqlite3.connect(root / EpisodeStore.INDEX)) as connection:
        for table in ("episode", "truth"):
            for row in connection.execute(f"SELECT * FROM {table}"):
                found.update(repr(row).encode())
    return found.hexdigest()


# --- all stages -------------------------------------------------------------------------------------------------------


def measured(stage: Stage, arguments: Sequence[Any]) -> Figures:
    """Run a stage, and add the largest memory of its process."""
    torch.set_num_threads(1)
    figures = stage(*arguments)
    return {**figures, "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3}


def in_own_process(stage: Stage, *arguments: Any) -> Figures:
    """Run a stage in a new process."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(measured, stage, arguments).result()


def extrapolated(small: dict[str, Figures], large: dict[str, Figures]) -> Figures:
    """Return seconds and memory at ten million episodes: on the line through the figures of both stores."""
    sizes = [each["ingest"]["episodes"] for each in (small, large)]
    slopes = (TEN_MILLION - sizes[1]) / (sizes[1] - sizes[0])
    found: Figures = {}
    for stage, figures in small.items():
        for name, before in figures.items():
            if (name.endswith("seconds") or name == "peak_mb") and name not in CONSTANT:
                value = large[stage][name]
                found[f"{stage}/{name}"] = value + max(0.0, value - before) * slopes
    disk = {"shards": large["ingest"]["shard_bytes_per_episode"]}
    disk |= {f"index_{stage}": large[stage]["index_bytes_per_episode"] for stage in ("ingest", "judge")}
    return {**found, **{f"gb/{name}": each * TEN_MILLION / 1e9 for name, each in disk.items()}}


ROWS = (  # what, stage and figure, unit
    ("write an episode (12 truths, fsync every 512)", "ingest/episodes_per_second", "/s"),
    ("enter a verdict of a detector", "judge/labels_per_second", "/s"),
    ("remove a verdict of an earlier detector", "prune/rows_per_second", "/s"),
    ("let a detector judge an episode, one core", "grade/episodes_per_second", "/s"),
    ("`status` after a new detector", "status/first_seconds", "s"),
    ("`status` again", "status/again_seconds", "s"),
    ("`status` after 64 more episodes", "status/after_64_more_seconds", "s"),
    ("look for episodes without a verdict, first time", "grade/first_seconds", "s"),
    ("the same again", "grade/again_seconds", "s"),
    ("look for the episodes of one order", "status/own_seconds", "s"),
    ("replay: list the log with its verdicts", "replay/list_seconds", "s"),
    ("replay: sort what is new", "replay/sort_seconds", "s"),
    ("replay: choose 100,000 frames of it", "replay/choose_seconds", "s"),
    ("replay: read these frames", "replay/read_seconds", "s"),
    ("replay: draw 1,024 transitions", "replay/draw_seconds", "s"),
    ("replay: memory", "replay/peak_mb", "MB"),
    ("labelling page: open", "page/open_seconds", "s"),
    ("labelling page: first question of a task", "page/first_question_seconds", "s"),
    ("labelling page: next question", "page/next_question_seconds", "s"),
    ("labelling page: memory", "page/peak_mb", "MB"),
    ("`status`: memory", "status/peak_mb", "MB"),
    ("compare shards and index (not every byte)", "check/seconds", "s"),
    ("rebuild a deleted index", "rebuild/seconds", "s"),
    ("rebuild: memory", "rebuild/peak_mb", "MB"),
    ("for comparison: read all rows, as earlier versions did at every step", "all_rows/seconds", "s"),
    ("the same: memory", "all_rows/peak_mb", "MB"),
)


def table(results: Figures) -> str:
    """Return the figures as a table in Markdown."""
    episodes, coming = results["ingest"]["episodes"], results["at_ten_million"]
    lines = [f"| what | {episodes:,} episodes | 10,000,000 episodes, extrapolated |", "|---|---|---|"]
    for what, place, unit in ROWS:
        stage, name = place.split("/")
        value = results[stage][name]
        later = coming.get(place, value)
        lines.append(f"| {what} | {_shown(value, unit)} | {_shown(later, unit)} |")
    for what, name, stage in (
        ("shards", "shards", "ingest"),
        ("index: episodes and truth", "index_ingest", "ingest"),
        ("index: verdicts of one detector", "index_judge", "judge"),
    ):
        key = "shard_bytes_per_episode" if name == "shards" else "index_bytes_per_episode"
        each = results[stage][key]
        lines.append(f"| disk, {what} | {each * episodes / 1e9:.2f} GB | {coming[f'gb/{name}']:.1f} GB |")
    return "\n".join(lines)


def _shown(value: float, unit: str) -> str:
    if unit == "s" and value < 0.1:
        return f"{value * 1e3:.2g} ms"
    return f"{value:,.0f}{unit if unit == '/s' else f' {unit}'}" if value >= 10 else f"{value:.1f} {unit}"


def whole(episodes: int) -> int:
    """Return a number of episodes near the given one that leaves the last block half full, for stores of any size."""
    return episodes // BLOCK * BLOCK + BLOCK // 2 if episodes >= BLOCK else episodes


def measure(arguments: argparse.Namespace, report: Report, episodes: int, extra: Sequence[Stage]) -> dict[str, Figures]:
    """Make a store in a temporary folder, and run all stages on it; `extra` ones come before its index is deleted."""
    if arguments.folder is not None:
        Path(arguments.folder).mkdir(parents=True, exist_ok=True)
    root = Path(tempfile.mkdtemp(prefix="polytask-scale-", dir=arguments.folder))
    results: dict[str, Figures] = {}
    try:
        folder = RunFolder(root)
        folder.begin(settings(root))
        folder.close()
        results["ingest"] = in_own_process(ingest, root, whole(episodes), arguments.ingest_seconds)
        for stage in (judge, grade, all_rows, status, page, replay, prune, check, *extra, rebuild):
            report.say(f"{stage.__name__} on {results['ingest']['episodes']} episodes")
            results[stage.__name__] = in_own_process(stage, root)
    finally:
        shutil.rmtree(root)
    return results


def body(arguments: argparse.Namespace, report: Report) -> None:
    """Measure a store of a quarter of the size, then the large one and its workers."""
    report.put("cores", os.cpu_count())
    small = measure(arguments, report, arguments.episodes // 4, ())
    report.put("small", small)
    large = measure(arguments, report, arguments.episodes, (workers,))
    for stage, figures in large.items():
        report.put(stage, figures)
    report.put("at_ten_million", extrapolated(small, large))


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Read the flags and run."""
    flags = parser(__doc__ or "", seconds=3600, worlds=2)
    flags.add_argument("--episodes", type=int, default=1_000_000)
    flags.add_argument("--ingest-seconds", type=float, default=600, help="when to stop writing episodes")
    flags.add_argument("--folder", type=Path, default=None, help="where to make the store (default: temporary files)")
    flags.add_argument("--table", type=Path, default=None, help="print the table of a result, and measure nothing")
    arguments = flags.parse_args(argv)
    if arguments.table is not None:
        results: dict[str, Any] = json.loads(arguments.table.read_text(encoding="utf-8"))
        print(table(results))
        return results
    return run("scale", arguments, body)


if __name__ == "__main__":
    main()
