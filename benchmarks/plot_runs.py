"""Draw the success of published runs over frames and over time.

python benchmarks/plot_runs.py PPO=benchmarks/results/h200_mt10_ppo_run.json ... --out docs/images/curves.png
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter


def main() -> None:
    """Draw one line per run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", help="NAME=FILE, a file that run_json.py wrote")
    parser.add_argument("--label", default="success in training episodes", help="label of the vertical axis")
    parser.add_argument("--out", type=Path, required=True, help="picture to write")
    options = parser.parse_args()
    figure, axes = plt.subplots(1, 2, figsize=(9.0, 3.4), sharey=True, layout="constrained")
    for word in options.runs:
        name, _, path = word.partition("=")
        curve = [point for point in json.loads(Path(path).read_text())["curve"] if point["success"] is not None]
        success = [point["success"] for point in curve]
        axes[0].plot([point["frames"] / 1e6 for point in curve], success, label=name)
        axes[1].plot([point["seconds"] / 60.0 for point in curve], success, label=name)
    axes[0].set(xscale="log", xlabel="million frames", ylabel=options.label, ylim=(0.0, 1.0))
    axes[0].xaxis.set(major_locator=LogLocator(subs=(1, 2, 5)), major_formatter=ScalarFormatter())
    axes[0].xaxis.set_minor_formatter(NullFormatter())
    axes[1].set(xlabel="minutes")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=6, frameon=False)
    for axis in axes:
        axis.grid(alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(options.out, dpi=130)


if __name__ == "__main__":
    main()
