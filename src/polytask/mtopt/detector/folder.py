"""A folder of detectors, and which of them is in use.

    FOLDER/VERSION.pt    detectors, of the run and of the labelling page
    FOLDER/in_use        version whose verdicts are the rewards of the run; where it is missing, the newest one's are

A detector that somebody trains on the page meanwhile changes no rewards: `polytask mtopt relabel` takes it into use.
"""

from __future__ import annotations

from pathlib import Path

from polytask.errors import UserError
from polytask.files import write_text

IN_USE = "in_use"


def newest(folder: Path) -> str | None:
    """Name the version that was written last; None where there is none."""
    files = [(path.stat().st_mtime_ns, path.stem) for path in folder.glob("*.pt")]
    return max(files)[1] if files else None


def in_use(folder: Path) -> str | None:
    """Name the version in use: the one that was chosen, else the newest; None where there is none.

    Raises:
        UserError: If the chosen one is gone.
    """
    try:
        version = (folder / IN_USE).read_text().strip()
    except FileNotFoundError:
        return newest(folder)
    if not path_of(folder, version).is_file():
        raise UserError(
            f"detector {version}, which is in use, is gone from '{folder}'; choose another one by `relabel`"
        )
    return version


def choose(folder: Path, version: str) -> None:
    """Take a version into use, in one step.

    Raises:
        UserError: If there is no such detector.
    """
    if not path_of(folder, version).is_file():
        raise UserError(f"no success detector at '{path_of(folder, version)}'")
    write_text(folder / IN_USE, version + "\n")


def path_of(folder: Path, version: str) -> Path:
    """Return the file of a version."""
    return folder / f"{version}.pt"
