"""Write the summary of a run and a curve of about 60 points to one JSON file.

python benchmarks/run_json.py runs/mt10 --command "polytask train preset=mt10_gpu" --out benchmarks/results/run.json
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

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
    parser.add_argument("--out", type=Path, required=True, help="file to write")
    options = parser.parse_args()
    summary = json.loads((options.run / SUMMARY_FILE).read_text())
    summary.pop("run_dir")
    if start := summary.get("initialization"):
        start["checkpoint"] = Path(start["checkpoint"]).name  # the folder is of no use to a reader
    rows = read_json_lines(options.run / METRICS_FILE)
    kept = [*rows[: -1 : max(1, len(rows) // POINTS)], rows[-1]]
    curve = [
        {
            name: round(value, 4) if isinstance(value, float) else value
            for name, value in row.items()
            if "/" not in name or name.startswith(SHOWN)
        }
        for row in kept
    ]
    head = {"command": options.command, **({"note": options.note} if options.note else {}), **summary}
    lines = [f' "{name}": {json.dumps(value)}' for name, value in head.items()]
    points = ",\n  ".join(json.dumps(point) for point in curve)
    options.out.write_text("{\n" + ",\n".join(lines) + f',\n "curve": [\n  {points}\n ]\n}}\n')


if __name__ == "__main__":
    main()
