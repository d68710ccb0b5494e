"""Run two or three processes at once on one folder: one owns it, the others are refused, and nothing is lost.

cd benchmarks && python -m faults.pairs --out results/faults/pairs.json --count 20
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faults import tiny
from faults.process import Case, Outcome, Running, copy_links, describe, remove
from faults.script import arguments, finish, scratch

ITERATIONS = 40
LATEST = 0.2  # seconds between the starts, at most
LONG = (f"max_iterations={ITERATIONS}", "save_every=5")
UNNAMED = tuple(word for word in tiny.words_of("train") if not word.startswith("run_dir="))


@dataclass(frozen=True)
class Meeting:
    """Processes that meet.

    Attributes:
        lines: Their command lines.
        judge: Returns what is wrong with the outcomes and with what lies in the shared folder.
        source: The prepared run that the folder contains, if any.
    """

    lines: tuple[tuple[str, ...], ...]
    judge: Callable[[list[Outcome], Path], list[str]]
    source: str | None = None


def one_owner(outcomes: list[Outcome]) -> list[str]:
    """Return what is wrong unless one process ended well and all others were refused."""
    verdicts = sorted(outcome.verdict for outcome in outcomes)
    wanted = ["ok", *["refused"] * (len(outcomes) - 1)]
    return [] if verdicts == wanted else [f"ended {', '.join(verdicts)}"]


def whole_log(path: Path) -> list[str]:
    """Return what is wrong unless a log has every iteration once, in order."""
    found = [json.loads(line)["iteration"] for line in path.read_text().splitlines()]
    return [] if found == list(range(1, ITERATIONS + 1)) else [f"iterations {found}"]


def _judge_new(outcomes: list[Outcome], shared: Path) -> list[str]:
    return one_owner(outcomes) + whole_log(shared / "new/metrics.jsonl")


def _judge_resumed(outcomes: list[Outcome], shared: Path) -> list[str]:
    return one_owner(outcomes) + whole_log(shared / "run/metrics.jsonl")


def _judge_reader(outcomes: list[Outcome], shared: Path) -> list[str]:
    ended = [outcome.verdict for outcome in outcomes]
    wrong = [] if ended[0] == "ok" and ended[1] in ("ok", "refused") else [f"ended {', '.join(ended)}"]
    return wrong + whole_log(shared / "run/metrics.jsonl")


def _judge_seeds(outcomes: list[Outcome], shared: Path) -> list[str]:
    wrong = [f"ended {outcome.verdict}" for outcome in outcomes if outcome.verdict != "ok"]
    runs = sorted((shared / "runs").iterdir())
    wrong += [problem for run in runs for problem in whole_log(run / "metrics.jsonl")]
    texts = [(run / "config.yaml").read_text().splitlines() for run in runs]
    seeds = sorted(line for text in texts for line in text if line.startswith("seed:"))
    return wrong if seeds == ["seed: 0", "seed: 1", "seed: 2"] else [*wrong, f"runs with {seeds}"]


def _judge_rounds(outcomes: list[Outcome], shared: Path) -> list[str]:
    jobs = [json.loads(line) for line in (shared / "bins/metrics.jsonl").read_text().splitlines()]
    names = [(job["kind"], job["number"]) for job in jobs]
    return one_owner(outcomes) + ([] if len(names) == len(set(names)) else [f"jobs done twice: {names}"])


def _judge_status(outcomes: list[Outcome], shared: Path) -> list[str]:
    ended = [outcome.verdict for outcome in outcomes]
    return [] if ended == ["ok", "ok"] else [f"ended {', '.join(ended)}"]


_NEW = (*tiny.words_of("train"), *LONG)
_RESUMED = ("train", "checkpoint=run", *LONG)
_ROUND = ("mtopt", "run", "run_dir=bins", "controller.rounds=1")
MEETINGS: dict[str, Meeting] = {
    "two new runs": Meeting((_NEW, _NEW), _judge_new),
    "two that continue a run": Meeting((_RESUMED, _RESUMED), _judge_resumed, "run"),
    "train beside report": Meeting((_RESUMED, ("report", "runs=[run]", "output=new")), _judge_reader, "run"),
    "three seeds without run_dir": Meeting(tuple((*UNNAMED, *LONG, f"seed={seed}") for seed in range(3)), _judge_seeds),
    "two of mtopt run": Meeting((_ROUND, _ROUND), _judge_rounds, "bins"),
    "mtopt run beside status": Meeting((_ROUND, ("mtopt", "status", "run_dir=bins")), _judge_status, "bins"),
}


def meet(meeting: Meeting, root: Path, name: str, generator: random.Random) -> tuple[list[Outcome], list[str]]:
    """Let processes meet in a new folder, and return their outcomes and what is wrong."""
    shared = root / name
    shared.mkdir()
    if meeting.source is not None:
        copy_links(root / "prepared" / meeting.source, shared / meeting.source)
    running = list[Running]()
    for number, words in enumerate(meeting.lines):
        running.append(Running(Case(words, root / f"{name}-{number}", seconds=300, setup=lambda: os.chdir(shared))))
        time.sleep(generator.uniform(0, LATEST))
    outcomes = [one.wait() for one in running]
    return outcomes, meeting.judge(outcomes, shared)


def main() -> None:
    """Let processes meet until there have been enough meetings, and write the result."""
    options = arguments(__doc__).parse_args()
    rows: list[dict[str, Any]] = []
    with scratch() as root:
        tiny.prepare(root)
        for number in range(options.count or 24):
            kind = list(MEETINGS)[number % len(MEETINGS)]
            name = f"pair-{number}"
            outcomes, wrong = meet(MEETINGS[kind], root, name, random.Random(f"{options.seed} {number}"))
            row = {"meeting": kind, "wrong": wrong, "processes": [describe(outcome, root) for outcome in outcomes]}
            rows.append(row | {"verdict": "ok" if not wrong else "WRONG"})
            if wrong:
                print(kind, wrong, *(outcome.last_line for outcome in outcomes), sep="\n  ", flush=True)
            for folder in root.glob(f"{name}*"):
                remove(folder)
    counts = {kind: [row["verdict"] for row in rows if row["meeting"] == kind] for kind in MEETINGS}
    table = {kind: {verdict: found.count(verdict) for verdict in sorted(set(found))} for kind, found in counts.items()}
    finish(options.out, rows, {"meetings": table})


if __name__ == "__main__":
    main()
