"""A folder of detectors, and which of them is in use.

    FOLDER/VERSION.pt            a detector, of the run or of the labelling page
    FOLDER/VERSION.json          its figures, as the labelling page shows them
    FOLDER/VERSION.scores.json   its full scores, for detectors of the run
    FOLDER/in_use                version whose verdicts are the rewards of the run; without this file, the newest

A detector that a person trains on the page meanwhile changes no rewards: `polytask mtopt relabel` puts it into use.
"""

from __future__ import annotations

import re
from pathlib import Path

from polytask.errors import UserError, shown
from polytask.files import can_read, write_text

IN_USE = "in_use"
LONGEST = 200  # bytes of a version; file systems allow 255 with the ending and a temporary name's parts


def newest(folder: Path) -> str | None:
    """Return the version that was written last; None if there is none."""
    files = [(path.stat().st_mtime_ns, path.stem) for path in folder.glob("*.pt")]
    return max(files)[1] if files else None


def in_use(folder: Path) -> str | None:
    """Return the version in use: the chosen one, else the newest; None if there is none.

    Raises:
        UserError: If the file that names it cannot be read, or the file of the chosen version is missing.
    """
    path = folder / IN_USE
    if not path.exists():
        return newest(folder)
    with can_read(path):
        version = path.read_bytes().decode(errors="replace").strip()
    if not is_version(version):
        raise UserError(f"'{path}' is damaged: it does not name a detector; choose one by `relabel`")
    if not path_of(folder, version).is_file():
        raise UserError(
            f"detector {version} is in use, but its file is missing in '{folder}'; choose another one by `relabel`"
        )
    return version


def choose(folder: Path, version: str) -> None:
    """Put a version into use, in one step.

    Raises:
        UserError: If there is no such detector.
    """
    if not is_version(version) or not path_of(folder, version).is_file():
        raise UserError(f"no success detector '{shown(version)}' in '{folder}'")
    write_text(folder / IN_USE, version + "\n")


def next_version(folder: Path, prefix: str) -> str:
    """Return the first version `PREFIX-N` whose number is greater than that of every other `PREFIX-N`."""
    pattern = re.compile(rf"{re.escape(prefix)}-(\d+)")
    numbers = [int(found[1]) for path in folder.glob("*.pt") if (found := pattern.fullmatch(path.stem))]
    return f"{prefix}-{max(numbers, default=0) + 1}"


def is_version(name: str) -> bool:
    """Return whether a text can be a version: a part of a file name, without bytes that could not be decoded."""
    is_text = name.isprintable() and "\N{REPLACEMENT CHARACTER}" not in name
    return bool(name) and is_text and "/" not in name and len(name.encode()) <= LONGEST


def path_of(folder: Path, version: str) -> Path:
    """Return the file of a version."""
    return folder / f"{version}.pt"


def figures_path(folder: Path, version: str) -> Path:
    """Return the file of a version's figures."""
    return folder / f"{version}.json"


def scores_path(folder: Path, version: str) -> Path:
    """Return the file of a version's full scores."""
    return folder / f"{version}.scores.json"
