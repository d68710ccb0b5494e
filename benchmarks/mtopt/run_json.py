"""Write a run of MT-Opt to one JSON file: command, commit, hardware, settings, jobs and evaluations.

python benchmarks/mtopt/run_json.py runs/gpu --command "polytask mtopt run preset=gpu" --out benchmarks/results/run.json

Commit and hardware are those of this machine and source tree unless they are given. Of a run that was made elsewhere,
`run.json`, `tasks.json` and `metrics.jsonl` suffice.
A run that was stopped has `"complete": false` and the evaluations of the rounds that it has finished.
"""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from polytask.files import read_json_lines
from polytask.mtopt.run_tasks import tasks_of
from polytask.mtopt.runtime.base import restored_controller
from polytask.mtopt.runtime.folder import RunFolder
from polytask.runs.provenance import provenance

EVALUATE, TRAIN = "evaluate", "train"
PATHS = ("run_dir", "plugins")  # settings that say nothing to a reader


def described(root: Path) -> dict[str, Any]:
    """Return what a run's folder tells: settings, tasks, counts, jobs and evaluations.

    Raises:
        UserError: If the folder holds no run.
    """
    folder = RunFolder(root)
    state, config = folder.require(), folder.config()
    rows = [dict(row) for row in read_json_lines(root / "metrics.jsonl")]
    return {
        "complete": bool(state["controller"]) and restored_controller(config, state).is_done,
        "settings": {key: value for key, value in state["config"].items() if key not in PATHS},
        "tasks": list(tasks_of(config)),
        "seconds": sum(float(row["seconds"]) for row in rows),
        "jobs": [rounded(row) for row in rows if row["kind"] not in (EVALUATE, TRAIN)],
        "training": [rounded(row) for row in rows if row["kind"] == TRAIN],
        "rounds": [rounded(row) for row in rows if row["kind"] == EVALUATE],
        "evaluation": rounded(state["evaluation"]) if state["evaluation"] else None,
    }


def rounded(value: Any) -> Any:
    """Return plain values with four digits."""
    if isinstance(value, dict):
        return {key: rounded(part) for key, part in value.items() if key != "iteration"}
    if isinstance(value, list):
        return [rounded(part) for part in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def written(head: dict[str, Any]) -> str:
    """Return JSON with one line for each job, so that people can read it and compare two files."""
    lines = []
    for name, value in head.items():
        rows = ",\n  ".join(json.dumps(row) for row in value) if isinstance(value, list) and value else None
        lines.append(f' "{name}": {json.dumps(value)}' if rows is None else f' "{name}": [\n  {rows}\n ]')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Write the file and return its content."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = flags.add_argument
    add("run", type=Path, help="folder of the run")
    add("--command", required=True, help="command line of the run")
    add("--note", help="remark on the run, such as a disturbance")
    add("--commit", help="commit of the run (default: that of the source tree)")
    add("--device", help="hardware of the run (default: that of this machine)")
    add("--out", type=Path, required=True, help="file to write")
    options = flags.parse_args(argv)
    found = described(options.run)
    # With --device, the run is from another machine: this one may not have its device, nor its version of torch.
    here = torch.device("cpu" if options.device else found["settings"]["device"])
    origin: dict[str, Any] = dict(provenance(here)) | ({"torch": None} if options.device else {})
    origin |= {name: value for name in ("commit", "device") if (value := getattr(options, name))}
    note = {"note": options.note} if options.note else {}
    date = f"{datetime.now(UTC):%Y-%m-%d}"
    head = {"name": "mtopt run", "command": options.command, **note, "date": date, **origin, **found}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(written(head), encoding="utf-8")
    return head


if __name__ == "__main__":
    main()
