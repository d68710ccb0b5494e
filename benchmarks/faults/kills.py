"""Kill runs at random moments and continue them: the end must equal that of an undisturbed run, bit for bit.

A run is killed (SIGKILL) or stopped (SIGTERM, SIGINT) at a random moment of its life, from its first milliseconds on,
and started again with the same command line. If that is refused because the folder contains a run, `checkpoint=`
continues it, as the message says. Tensors, metrics, summaries, and MT-Opt's episodes and labels are compared, without
timings. The first run that ends in another way is the last one.

    cd benchmarks && python -m faults.kills --out results/faults/kills.json --count 200
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from same_runs import content, count, differences

from faults import tiny
from faults.process import Case, Outcome, Running, describe, remove, run
from faults.script import arguments, finish, scratch
from polytask.errors import UserError
from polytask.mtopt.store import EpisodeStore

SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
MOST = 6  # disturbances of one run; then it may reach its end
SERIES = 3  # runs per wanted kill, at most: on average a run is killed more than once
LONG = ("max_iterations=12", "save_every=2", "eval_episodes=1", "eval_every=5", "episode_length=20")
RUNS: dict[str, tuple[str, ...]] = {
    "ppo": (*tiny.words_of("train"), *LONG),
    "sac": (*tiny.words_of("train", ("algo=sac",)), *LONG, "algo.save_replay=true"),
    "mtopt": ("mtopt", "run", *tiny.MTOPT, "controller.rounds=1", "run_dir=new"),
}


@dataclass(frozen=True)
class Reference:
    """An undisturbed run: its content and how long it took."""

    words: tuple[str, ...]
    files: dict[str, Any]
    seconds: float


def reference(kind: str, root: Path) -> Reference:
    """Run one kind of run without disturbances.

    Raises:
        RuntimeError: If it fails.
    """
    case = Case(RUNS[kind], root / f"reference-{kind}", seconds=600)
    outcome = run(case)
    if outcome.code:
        raise RuntimeError(outcome.stderr)
    return Reference(RUNS[kind], files_of(case.folder), outcome.seconds)


def files_of(folder: Path) -> dict[str, Any]:
    """Return what a run has left in its folder.

    Raises:
        RuntimeError: If there are no tensors, so that there is nothing to compare.
    """
    found = content(folder / "new")
    if not count(found):
        raise RuntimeError(f"no tensors in {folder}")
    if (folder / "new" / EpisodeStore.INDEX).exists():
        found["store"] = store_of(folder / "new")
    return found


def store_of(root: Path) -> dict[str, Any]:
    """Return the episodes and labels of a store without times, and without places, which a restart changes."""
    try:
        with closing(EpisodeStore(root, rebuilds=False)) as store:
            report = store.check(deep=True)
            episodes = [
                [row.id, row.task, row.policy, row.seed, row.length, row.views, row.outcome_size, store.truth(row.id)]
                for row in store.rows()
            ]
            labels = [[one.episode, one.task, one.source, one.value] for one in store.labels()]
            problems = [problem] if (problem := store.index_problem()) else []
            problems += [] if report.is_sound else report.lines()[1:]
    except UserError as error:
        return {"problems": [str(error)]}
    return {"episodes": episodes, "labels": labels, "problems": problems}


def disturb(kind: str, whole: Reference, folder: Path, generator: random.Random) -> Iterator[dict[str, Any]]:
    """Disturb one run again and again, then let it end, and compare. Each start gives one row.

    Half of the runs are disturbed in their first part only, before there is a checkpoint.
    """
    latest = whole.seconds * generator.choice((0.3, 1.0))
    for start in range(MOST + 1):
        number = None if start == MOST else generator.choice(SIGNALS)
        moment = generator.uniform(0, latest)
        outcome = _start(Case(whole.words, folder, seconds=600), number, moment)
        sent = {"signal": number.name, "after": round(moment, 3)} if number else {"signal": None, "after": None}
        row = describe(outcome, folder) | {"run": kind, "start": start, **sent}
        if outcome.code == 0:
            changed = sorted(differences(whole.files, files_of(folder), kind))
            yield row | {"verdict": "ok" if not changed else "DIFFERENT", "differences": changed[:5]}
            return
        is_documented = number is not None and outcome.code in (-number, 128 + number)
        if not is_documented:
            yield row | {"verdict": "DEAD END" if outcome.verdict == "refused" else outcome.verdict}
            return
        yield row | {"verdict": "stopped"}


def _start(case: Case, number: signal.Signals | None, moment: float) -> Outcome:
    """Start or continue a run, and send a signal after a moment."""
    running = Running(case)
    outcome = None
    while outcome is None:
        if number is not None and time.monotonic() - running.start >= moment:
            running.send(number)
            number = None
        time.sleep(0.001)
        outcome = running.poll()
    if outcome.verdict == "refused" and "checkpoint=new" in outcome.last_line:
        words = tuple(word for word in case.words if not word.startswith("run_dir="))
        return _start(replace(case, words=(*words, "checkpoint=new")), number, moment)
    return outcome


def kills(rows: list[dict[str, Any]]) -> int:
    """Count the starts that SIGKILL ended."""
    return sum(row["signal"] == "SIGKILL" and row["exit_code"] == -9 for row in rows)


def main() -> None:
    """Disturb runs until there have been enough kills or something is wrong, and write the result."""
    options = arguments(__doc__).parse_args()
    rows: list[dict[str, Any]] = []
    wanted, series, is_good = options.count or 200, 0, True
    with scratch() as root:
        whole = {kind: reference(kind, root) for kind in RUNS}
        # Without a last series, runs that always end before the signal would go on for ever.
        while is_good and kills(rows) < wanted and series < SERIES * wanted:
            kind = tuple(RUNS)[series % len(RUNS)]
            folder = root / f"run-{series}"
            for row in disturb(kind, whole[kind], folder, random.Random(f"{options.seed} {series}")):
                rows.append(row)
                if row["verdict"] not in ("ok", "stopped"):
                    is_good = False
                    print(row, flush=True)
            remove(folder)
            series += 1
    ended = [row for row in rows if row["verdict"] in ("ok", "DIFFERENT")]
    summary = {
        "runs": series,
        "kills": kills(rows),
        "stops": {
            name: sum(row["signal"] == name and row["exit_code"] != 0 for row in rows) for name in ("SIGTERM", "SIGINT")
        },
        "bit_equal_ends": sum(row["verdict"] == "ok" for row in ended),
        "different_ends": sum(row["verdict"] == "DIFFERENT" for row in ended),
        "dead_ends": series - len(ended),
        "tensors_compared": {kind: count(one.files) for kind, one in whole.items()},
    }
    if is_good and kills(rows) < wanted:
        print(f"only {kills(rows)} of {wanted} kills: the other runs ended before their signals", flush=True)
    finish(options.out, rows, summary)


if __name__ == "__main__":
    main()
