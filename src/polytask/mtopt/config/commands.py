"""Settings of the MT-Opt commands that show, evaluate, relabel or export a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from polytask.errors import UserError
from polytask.settings import MAX_SEED, CommandConfig, setting


@dataclass
class FolderCommandConfig(CommandConfig):
    """The settings that every command on the folder of an MT-Opt run has."""

    renamed: ClassVar[dict[str, str]] = {"store": "run_dir"}

    run_dir: str | None = setting(None, "folder of the run", is_path=True)

    @property
    def root(self) -> Path:
        """Return the run's folder.

        Raises:
            UserError: If none is named.
        """
        if self.run_dir is None:
            raise UserError("name the folder of a run: run_dir=DIR")
        return Path(self.run_dir).expanduser()


@dataclass
class EvaluateConfig(FolderCommandConfig):
    """`polytask mtopt eval`."""

    tasks: list[str] = setting([], "tasks to evaluate (default: those of the run)")
    scripted: bool = setting(False, "evaluate the scripts instead of the learned policy")
    weights: int | None = setting(None, "version of the weights (default: the newest)", at_least=1)
    episodes: int | None = setting(
        None, "episodes per task (default: evaluator.episodes of the run)", within=(1, 10**6)
    )
    max_steps: int | None = setting(
        None, "most actions of an episode (default: evaluator.max_steps of the run)", within=(1, 10_000)
    )
    seed: int = setting(1000, "seed of the scenes", within=(0, MAX_SEED))
    device: str | None = setting(None, "torch device (default: that of the run)")
    sim: str | None = setting(None, "physics backend: cpu or warp (default: that of the run)", choices=("cpu", "warp"))
    num_envs: int | None = setting(None, "worlds at once (default: those of the run)", within=(1, 10**6))


@dataclass
class RelabelConfig(FolderCommandConfig):
    """`polytask mtopt relabel`."""

    detector: str | None = setting(None, "version of the detector that the run uses from now on (default: the newest)")
    add: list[str] = setting([], "held-out tasks that the run learns from now on, such as [lift-red-thing]")
    train: bool = setting(False, "first train a new detector from all labels, and use it")
    updates: int | None = setting(
        None, "train=true: optimizer steps (default: detector.updates of the run)", within=(1, 10**9)
    )
    device: str | None = setting(None, "torch device (default: that of the run)")

    def check_together(self, prefix: str = "") -> None:
        """Check that there is a training where its length is given."""
        if self.updates is not None and not self.train:
            raise UserError(f"{prefix}updates={self.updates} is the length of a training: give train=true, too")


@dataclass
class TaskConfig(FolderCommandConfig):
    """`polytask mtopt task`."""

    action: str = setting(
        "list",
        "list: show the tasks of a run; add: give it a new one; learn: let it learn one from now on",
        choices=("list", "add", "learn"),
    )
    name: str | None = setting(None, "name of the task, such as wipe-table")
    skill: str | None = setting(None, "add: tasks of one skill share their episodes, such as lift, place or wipe")
    sentence: str | None = setting(None, "add: what success looks like, for the person who labels")
    success: list[str] = setting([], "add: pictures that show success (PNG, JPEG or WebP)", is_path=True)
    failure: list[str] = setting([], "add: pictures that show failure", is_path=True)
    world: str = setting("bins", "add: world of a run that does not exist yet; else the run's counts")


@dataclass
class StatusConfig(FolderCommandConfig):
    """`polytask mtopt status`."""


@dataclass
class CheckConfig(FolderCommandConfig):
    """`polytask mtopt check`."""

    repair: bool = setting(False, "mend what can be mended: rebuild the index, cut off torn ends, remove leftovers")


@dataclass
class ExportConfig(FolderCommandConfig):
    """`polytask mtopt export`."""

    to: str = setting(
        "lerobot", "lerobot or minari: format of the data set (extra: export)", choices=("lerobot", "minari")
    )
    output: str | None = setting(None, "folder to write to (default: <run_dir>/<format>)", is_path=True)
    tasks: list[str] = setting([], "tasks to export (default: those of the run)")
