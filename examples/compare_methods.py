"""Compare two networks over several seeds, and print the table that `polytask report` makes.

python examples/compare_methods.py OUTPUT [key=value ...]
"""

import sys
from pathlib import Path

from polytask.cli.console import show
from polytask.config.compose import compose
from polytask.config.schema import ReportConfig, TrainConfig
from polytask.runs.report import report
from polytask.runs.train import train

output, words = Path(sys.argv[1]), sys.argv[2:]
runs = []
for net in ("mlp", "multihead"):
    for seed in (0, 1):
        run = output / f"{net}-{seed}"
        train(
            compose(
                TrainConfig, ["preset=cpu_demo", f"net={net}", "video=false", *words, f"seed={seed}", f"run_dir={run}"]
            )
        )
        runs.append(str(run))

show(report(ReportConfig(runs=runs, output=str(output / "report"))), "table")
