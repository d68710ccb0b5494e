"""Draw the results of full_mdp.py and sharing.py: lifting over updates, the table of sharing, a task by relabelling.

python benchmarks/mtopt/plot.py --mdp benchmarks/results/h200_mtopt_full_mdp.json \
    --sharing benchmarks/results/h200_mtopt_sharing.json --out docs/images/mtopt_h200.png
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from experiment import LIFTS, pooled
from matplotlib.axes import Axes

STAGES = {"untrained": "untrained", "offline": "offline", "round_1": "round 1", "round_2": "round 2"}


def bootstrap(axis: Axes, report: dict[str, Any]) -> None:
    """Draw the success of greedy episodes over updates, one colour a stage."""
    curve, before = report["curve"], None
    for stage, name in STAGES.items():
        points = [point for point in curve if point["stage"] == stage]
        updates = [point["updates"] for point in points]
        low, mean, high = ([point["lift-any"][key] for point in points] for key in ("low", "mean", "high"))
        errors = [[a - b for a, b in zip(mean, low, strict=True)], [a - b for a, b in zip(high, mean, strict=True)]]
        drawn = axis.errorbar(updates, mean, yerr=errors, marker="o", markersize=4, capsize=2, label=name)
        if before is not None:
            axis.plot(*zip(before, (updates[0], mean[0]), strict=True), color=drawn[0].get_color(), alpha=0.5)
        before = (updates[-1], mean[-1])
    axis.axhline(report["scripted"]["success"], color="grey", linestyle="--", label="scripts")
    axis.set(xlabel="updates", ylabel="success", title="lift-any, by the detector's rewards", ylim=(0, 1))
    axis.legend(frameon=False, fontsize=8, loc="center right")


def sharing(axis: Axes, report: dict[str, Any]) -> None:
    """Draw the mean of the lifts of one kind for each setting, with its interval over seeds and episodes."""
    table, rarest = report["table"], report["skill_balanced_above"]["task"]
    settings = [f"{strategy}\n{mix}" for strategy, mix in (key.split("/") for key in table)]
    kinds = [sum(row["tasks"][name]["mean"] for name in LIFTS[1:]) / len(LIFTS[1:]) for row in table.values()]
    rare = [row["tasks"][rarest] for row in table.values()]
    place = range(len(settings))
    axis.bar([x - 0.2 for x in place], kinds, 0.38, label="mean of the seven kinds")
    errors = [[row["mean"] - row["low"] for row in rare], [row["high"] - row["mean"] for row in rare]]
    bars = axis.bar([x + 0.2 for x in place], [row["mean"] for row in rare], 0.38, yerr=errors, capsize=2)
    bars.set_label(f"{rarest}, the rarest")
    axis.set(title="the same episodes, shared", xticks=list(place), ylim=(0, 1))
    axis.set_xticklabels(settings, fontsize=8)
    axis.legend(frameon=False, fontsize=8, loc="upper left")


def relabelling(axis: Axes, report: dict[str, Any]) -> None:
    """Draw the new task's success by accident, on command before it was learned, and after relabelling."""
    names = {"accidental": "by accident\n(lift-any)", "before": "asked, not\nlearned", "after": "relabelled"}
    rows = [pooled([row[key] for row in report["relabelling"]]) for key in names]
    errors = [[row["mean"] - row["low"] for row in rows], [row["high"] - row["mean"] for row in rows]]
    axis.bar(list(names.values()), [row["mean"] for row in rows], 0.6, yerr=errors, capsize=3, color="tab:green")
    axis.set(title=f"{report['settings']['new_task']}: no new episode", ylim=(0, 1))
    axis.tick_params(axis="x", labelsize=8)


def main() -> None:
    """Draw three pictures side by side."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mdp", type=Path, required=True, help="report of full_mdp.py")
    parser.add_argument("--sharing", type=Path, required=True, help="report of sharing.py")
    parser.add_argument("--out", type=Path, required=True, help="picture to write")
    options = parser.parse_args()
    shared = json.loads(options.sharing.read_text())
    figure, axes = plt.subplots(1, 3, figsize=(13.0, 3.6), width_ratios=(4, 5, 2.6), layout="constrained")
    bootstrap(axes[0], json.loads(options.mdp.read_text()))
    sharing(axes[1], shared)
    relabelling(axes[2], shared)
    for axis in axes:
        axis.grid(alpha=0.3, axis="y")
        axis.set_axisbelow(True)
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(options.out, dpi=120)


if __name__ == "__main__":
    main()
