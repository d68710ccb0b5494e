"""The runs of a sweep: their folders, and what each still needs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polytask.errors import UserError
from polytask.files import Fields, check_fields, exists, read_json
from polytask.result import note
from polytask.runs.file_names import CHECKPOINT_FILE, SUMMARY_FILE
from polytask.runs.sweep.grid import Setting
from polytask.runs.sweep.index import Index

LOG_FILE = "log.txt"
SUMMARY_FIELDS: Fields = {"complete": bool, "success": float | None, "evaluation": dict | None}


@dataclass
class Item:
    """One run of a sweep.

    Attributes:
        setting: What is trained.
        seed: The seed.
        name: The folder inside the sweep's folder, such as "00-mean-mlp/seed-0".
        run_dir: The folder.
        state: "new", "interrupted" (it can continue), "running", "done" or "failed".
        success: Of the evaluation, or of the last training episodes if there was none.
        measure: Which of them: "noiseless" or "training".
        error: One line that says why it failed.
    """

    setting: Setting
    seed: int
    name: str
    run_dir: Path
    state: str
    success: float | None = None
    measure: str | None = None
    error: str | None = None

    @property
    def log(self) -> Path:
        """The file with all that the run printed."""
        return self.run_dir / LOG_FILE

    @property
    def words(self) -> list[str]:
        """The words after `polytask train`. `{seed}` stands for the seed, as in init_from=runs/flat/seed-{seed}.

        A run that continues has its networks and its demonstrations already.
        """
        own = [f"seed={self.seed}", f"run_dir={self.run_dir}"]
        words = [word.replace("{seed}", str(self.seed)) for word in self.setting.words]
        if self.state != "interrupted":
            return [*words, *own]
        kept = [word for word in words if not word.startswith(("init_from=", "demos="))]
        return [*kept, *own, f"checkpoint={self.run_dir}"]

    @property
    def command(self) -> str:
        """The command line of the run, as a shell reads it."""
        return shlex.join(["polytask", "train", *self.words])

    def facts(self) -> dict[str, Any]:
        """Return what the index and `format=json` tell about the run."""
        return {
            "setting": self.name.partition("/")[0],
            "label": self.setting.label,
            "seed": self.seed,
            "run_dir": str(self.run_dir),
            "state": self.state,
            "success": self.success,
            "measure": self.measure,
            "error": self.error,
            "command": self.command,
        }


def plan(settings: Sequence[Setting], seeds: Sequence[int], root: Path, index: Index) -> list[Item]:
    """Return the runs of a sweep, seed by seed, so that all settings have results for the first seeds early."""
    folders = [index.folder_of(setting) for setting in settings]
    items = []
    for seed in seeds:
        for setting, folder in zip(settings, folders, strict=True):
            name = f"{folder}/seed-{seed}"
            items.append(Item(setting, seed, name, root / name, *state_of(root / name)))
    return items


def state_of(directory: Path) -> tuple[str, float | None, str | None]:
    """Return the state of the run in a folder, and if it is done, its success and how that was measured."""
    path = directory / SUMMARY_FILE
    try:
        summary = read_json(path, "summary of a run", SUMMARY_FIELDS) if exists(path) else {}
        if summary.get("evaluation") is not None:
            check_fields(summary, {"evaluation": {"mean_success": float}}, path)
    except UserError as error:
        note(f"{error}; the run counts as not done")
        summary = {}
    if summary.get("complete"):
        return "done", *success_of(summary)
    return ("interrupted" if (directory / CHECKPOINT_FILE).exists() else "new"), None, None


def success_of(summary: dict[str, Any]) -> tuple[float | None, str | None]:
    """Return the success of the evaluation, or of the last training episodes if there was none, and its measure."""
    evaluation = summary.get("evaluation")
    success = summary.get("success") if evaluation is None else evaluation["mean_success"]
    return (None, None) if success is None else (float(success), "training" if evaluation is None else "noiseless")
