"""Write docs/results_mt50.md, the results of each task of MT50, from raw files: python tools/write_mt50_tasks.py"""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

from polytask.statistics import run_interval

ROOT = Path(__file__).parents[1]
RAW = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "results_mt50.md"
SEEDS = ("h200_mt50_bounded", "h200_mt50_bounded_seed1", "h200_mt50_bounded_seed2")
ORIGINAL = ("metaworld_eval_mt50_bounded", "metaworld_eval_mt50_seed1", "metaworld_eval_mt50_seed2")
SHAPED, SHAPED_ORIGINAL = "h200_mt50_bounded_shaped", "metaworld_eval_mt50_shaped_bounded"
HEAD = """# MT50, task by task

Noiseless success of each task, 30 episodes: the runs of [Results](results.md#mt50) with Meta-World's own reward, seeds
0 to 2, and the one run with [our shaped reward](shaped_reward.md), which is no result of the same kind. *Meta-World* is
the success of the same policies in the original Meta-World, 20 goals a task, the mean of the three seeds. *Last step*
is the share of those episodes in which the task is still solved when the episode ends, in our worlds and then in
Meta-World, on the same goals; all other columns count success at any step. Intervals are 95 % over seeds (Student's t,
cut at 0 and 1); where all seeds agree, there is none. Random actions succeed in 0.003 of all episodes, the scripted
experts in all ([raw](../benchmarks/results/cpu_mt50_random_eval.json),
[raw](../benchmarks/results/h200_mt50_scripted_eval.json)). In hammer, the policies of seeds 1 and 2
push the nail in with the hand; the test of success does not ask for the hammer.

Written by `python tools/write_mt50_tasks.py`, not by hand.

| task | seed 0 | seed 1 | seed 2 | mean | interval | Meta-World | last step | shaped reward | shaped, Meta-World |
|---|---|---|---|---|---|---|---|---|---|
"""


def tasks_of(name: str) -> dict[str, Any]:
    """Return the results of each task in a raw file: of a run's last evaluation, or of both worlds."""
    content = json.loads((RAW / f"{name}.json").read_text())
    found: dict[str, Any] = content.get("evaluation", content)["tasks"]
    return found


def interval(rates: list[float]) -> str:
    """Return the interval of a mean over seeds as text; nothing if all seeds agree."""
    if len(set(rates)) == 1:
        return ""
    low, high = run_interval(np.array(rates)[:, None], bounds=(0.0, 1.0))
    return f"[{low:.2f}, {high:.2f}]"


def rows() -> list[str]:
    """Return the rows of the table: the worst tasks first, the mean of all at the end."""
    seeds, theirs = [tasks_of(name) for name in SEEDS], [tasks_of(name) for name in ORIGINAL]
    shaped, shaped_theirs = tasks_of(SHAPED), tasks_of(SHAPED_ORIGINAL)
    rates = {task: [float(one[task]["success"]) for one in seeds] for task in seeds[0]}
    others = {
        task: [
            mean(one[task]["original"]["success"] for one in theirs),
            mean(one[task]["ours"]["success_at_end"] for one in theirs),
            mean(one[task]["original"]["success_at_end"] for one in theirs),
            shaped[task]["success"],
            shaped_theirs[task]["original"]["success"],
        ]
        for task in rates
    }
    order = sorted(rates, key=lambda task: (mean(rates[task]), task))
    every = [[mean(column) for column in zip(*table.values(), strict=True)] for table in (rates, others)]
    return [*(row(task, rates[task], others[task]) for task in order), row("**all fifty**", *every)]


def row(task: str, rates: list[float], others: list[float]) -> str:
    """Return one row of the table. Others: Meta-World, both at the last step, and the shaped reward in both worlds."""
    theirs, end, theirs_end, shaped, shaped_theirs = (f"{rate:.2f}" for rate in others)
    cells = [task, *(f"{rate:.2f}" for rate in (*rates, mean(rates))), interval(rates)]
    return f"| {' | '.join([*cells, theirs, f'{end}, {theirs_end}', shaped, shaped_theirs])} |"


def page() -> str:
    """Return the text of the page."""
    return HEAD + "\n".join(rows()) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
