"""Write the summary of a run and a curve of about 60 points to one JSON file.

python benchmarks/run_json.py runs/mt10 --command "polytask train preset=mt10_gpu" --out benchmarks/results/run.json
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from polytask.files import read_json_lines
from polytask.runs.file_names import METRICS_FILE, SUMMARY_FILE

POINTS = 60
# Prefixes of the per-task and detailed metrics to keep. Metrics without a "/" are always kept.
SHOWN = ("success/", "eval/success", "policy/", "value/", "level/")


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="run directory")
    parser.add_argument("--command", required=True, help="command line of the run")
    parser.add_argument("--note", help="remark on the run, such as a disturbance")
    parser.add_argument("--commit", help="commit and device of a run that was stopped, which has no summary")
    parser.add_argument("--device", help="see --commit")
    parser.add_argument("--evaluation", type=Path, help="output of `polytask eval format=json` to add")
    parser.add_argument("--out", type=Path, required=True, help="file to write")
    options = parser.parse_args()
    rows = read_json_lines(options.run / METRICS_FILE)
    summary = read_summary(options.run / SUMMARY_FILE, rows[-1])
    summary |= {name: value for name in ("commit", "device") if (value := getattr(options, name))}
    if options.evaluation:
        evaluation = json.loads(options.evaluation.read_text())
        summary["evaluation"] = evaluation | {"policy": Path(evaluation["policy"]).name}
    kept = [*rows[: -1 : max(1, len(rows) // POINTS)], rows[-1]]
    curve = [
        {
            name: float(f"{value:.4g}") if isinstance(value, float) else value
            for name, value in row.items()
            if "/" not in name or name.startswith(SHOWN)
        }
        for row in kept
    ]
    head = {"command": options.command, **({"note": options.note} if options.note else {}), **summary}
    lines = [f' "{name}": {json.dumps(value)}' for name, value in head.items()]
    points = ",\n  ".join(json.dumps(point) for point in curve)
    options.out.write_text("{\n" + ",\n".join(lines) + f',\n "curve": [\n  {points}\n ]\n}}\n')


def read_summary(file: Path, last: dict[str, Any]) -> dict[str, Any]:
    """Return the summary of a run, or what its last row of metrics tells if it was stopped and has none."""
    if not file.exists():
        success = {name.removeprefix("success/"): value for name, value in last.items() if name.startswith("success/")}
        return {
            "complete": False,
            **{name: last[name] for name in ("frames", "seconds", "success")},
            "tasks": {task: {"success": value} for task, value in success.items()},
        }
    summary: dict[str, Any] = json.loads(file.read_text())
    summary.pop("run_dir")
    if start := summary.get("initialization"):
        start["checkpoint"] = Path(start["checkpoint"]).name  # the folder is of no use to a reader
    return summary


if __name__ == "__main__":
    main()
