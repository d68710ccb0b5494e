"""Find the folders of runs: a run's own folder, a folder that contains runs at any depth, or a pattern."""

from __future__ import annotations

from collections.abc import Sequence
from glob import glob
from pathlib import Path

from polytask.errors import UserError
from polytask.files import can_read, exists
from polytask.result import note
from polytask.runs.file_names import CONFIG_FILE, METRICS_FILE, MTOPT_FILE

NOT_A_RUN = f"it has no {METRICS_FILE} with a row, or no {CONFIG_FILE}"


def find_runs(names: Sequence[str]) -> list[Path]:
    """Return the folders of the runs that names mean, in the order of the names.

    Raises:
        UserError: If a name means no run, or two names mean the same one, since a run would count twice.
    """
    folders: dict[Path, tuple[Path, str]] = {}
    for name in names:
        for folder in _named(name):
            one = (folder, name)
            with can_read(folder):
                same = folders.setdefault(folder.resolve(), one)
            if same is not one:
                raise UserError(f"runs names one run twice: {_from(*same)} and {_from(*one)}")
    return [folder for folder, _ in folders.values()]


def _from(folder: Path, name: str) -> str:
    """Write a folder together with the name that means it, if that is another one."""
    return f"'{folder}'" if str(folder) == name else f"'{folder}' by runs={name}"


def _named(name: str) -> list[Path]:
    """Return the folders of the runs that one name means."""
    try:
        path = Path(name).expanduser()
    except RuntimeError as error:
        raise UserError(f"runs: there is no home folder for '{name}'") from error
    if exists(path) or not any(sign in name for sign in "*?["):
        return _inside(path)
    with can_read(path):
        matches = [Path(match) for match in sorted(glob(str(path), recursive=True))]
    found = dict.fromkeys(run for match in matches if match.is_dir() for run in _inside(match, is_certain=False))
    if not found:
        raise UserError(f"no run matches '{name}'")
    return list(found)


def _inside(folder: Path, *, is_certain: bool = True) -> list[Path]:
    """Return a folder if it is that of a run, else the folders of runs in it.

    Raises:
        UserError: If there is none although the user said so (`is_certain`).
    """
    if exists(folder / MTOPT_FILE):
        what = f"'{folder}' is a run of `polytask mtopt`"
        if is_certain:
            raise UserError(f"{what}, which has no report; see `polytask mtopt status run_dir={folder}`")
        note(f"{what}; it is left out")
        return []
    if exists(folder / METRICS_FILE) or exists(folder / CONFIG_FILE):
        return [folder]
    if is_certain and not exists(folder):
        raise UserError(f"there is no folder '{folder}'")
    with can_read(folder):
        configs = sorted(folder.rglob(CONFIG_FILE)) if folder.is_dir() else []
        found = [config.parent for config in configs if _has_rows(config.parent)]
    if is_certain and not found:
        raise UserError(f"'{folder}' is not a run directory: {NOT_A_RUN}; no folder in it is one either")
    return found


def _has_rows(folder: Path) -> bool:
    """Return whether a run has logged something. If it has only begun, print a note: it is left out."""
    log = folder / METRICS_FILE
    if log.is_file() and log.stat().st_size > 0:
        return True
    note(f"'{folder}' has no rows of metrics yet; it is left out")
    return False
