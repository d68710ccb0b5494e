"""The folder of a run: its name, and that it belongs to one run and to one process."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from pathlib import Path

from polytask.config.schema import TrainConfig
from polytask.errors import UserError
from polytask.files import can_write, exists, make_folder
from polytask.files.folder_lock import FolderLock
from polytask.runs.checkpoint import load
from polytask.runs.file_names import CHECKPOINT_FILE, METRICS_FILE, MTOPT_FILE


def choose_folder(config: TrainConfig, source: Path | None) -> Path:
    """Return the folder of a run: the named one, else that of the checkpoint `source`, else a new one."""
    if config.run_dir is not None:
        return Path(config.run_dir).expanduser()
    return Path("runs") / default_name(config) if source is None else source.parent


def default_name(config: TrainConfig) -> str:
    """Return the name of a new folder: time, tasks, algorithm, network and seed."""
    if config.tasks is None:
        tasks = config.suite
    else:
        tasks = config.tasks[0] if len(config.tasks) == 1 else f"{len(config.tasks)}tasks"
    parts = (f"{datetime.now():%Y-%m-%d_%H-%M-%S}", tasks, config.algo.name, config.net.name, f"seed{config.seed}")
    return "-".join(parts)


def check_free(folder: Path) -> None:
    """Check that a new run may use a folder. A run that was killed before its first iteration is replaced.

    Raises:
        UserError: If the folder contains a run.
    """
    if exists(folder / MTOPT_FILE):
        raise UserError(f"'{folder}' contains a run of `polytask mtopt`; name another run_dir")
    metrics, checkpoint = folder / METRICS_FILE, folder / CHECKPOINT_FILE
    has_rows = exists(metrics) and metrics.stat().st_size > 0
    if exists(checkpoint) and (has_rows or load(checkpoint)["iteration"] > 0):
        raise UserError(
            f"'{folder}' already contains a run; continue it with checkpoint={folder}, or name another run_dir"
        )
    if has_rows:
        raise UserError(f"'{folder}' already contains the log of a run without a checkpoint; name another run_dir")


def claim_folder(folder: Path, *, is_named: bool) -> tuple[Path, FolderLock]:
    """Make and lock the folder of a new run.

    Args:
        folder: The folder.
        is_named: Whether the user named it. If not, and it exists, the name gets a number.

    Raises:
        BusyError: If another process has the folder.
        UserError: If the folder contains a run, or cannot be made.
    """
    if not is_named:
        folder = _make_new_folder(folder)
    lock = FolderLock(folder)
    lock.take()
    try:
        check_free(folder)  # again, because another process may have used it since
        with can_write(folder):
            (folder / CHECKPOINT_FILE).unlink(missing_ok=True)  # of a run that was killed before its first iteration
    except UserError:
        lock.release()
        raise
    return folder, lock


def _make_new_folder(folder: Path) -> Path:
    """Make a folder that no other process has made. If the name is taken, append -2, -3, and so on."""
    make_folder(folder.parent)
    path, number = folder, 1
    while True:
        with can_write(path), suppress(FileExistsError):
            path.mkdir()
            return path
        number += 1
        path = folder.with_name(f"{folder.name}-{number}")
