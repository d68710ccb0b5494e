"""Bring the runs of a sweep or of a reproduced table home: one JSON file to publish, or what another machine needs.

The JSON file has what the settings differ in, and of every run its results, commit and hardware. The zip file
(`--pack`) has the settings, metrics and summary of every complete run, and the sweep's index: where it is unpacked, the
same command finds nothing to run and makes the report. Checkpoints and runs that are not complete are left out; with
`--interrupted` such runs are in it, too, with checkpoints and histories, and the same command continues them elsewhere.
`--unpack` adds the runs of zip files to a folder, also those of several machines that each began with an empty one.

    python benchmarks/table_json.py runs/sweep --command "polytask sweep ..." --out benchmarks/results/h200_sweep.json
    python benchmarks/table_json.py runs/sweep --pack sweep.zip
    python benchmarks/table_json.py runs/sweep --unpack sweep.zip another.zip    # on the other machine
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory
from typing import Any
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile

from publish import layout
from run_json import read_summary

from polytask.errors import UserError
from polytask.files import write_atomically, write_text
from polytask.files.folder_lock import FolderLock
from polytask.runs.file_names import (
    CHECKPOINT_FILE,
    CONFIG_FILE,
    INDEX_FILE,
    METRICS_FILE,
    OUTPUT,
    START_FILE,
    SUMMARY_FILE,
)
from polytask.runs.history.writer import FOLDER as HISTORY_FOLDER
from polytask.runs.report.labels import differences, setting_of
from polytask.runs.report.read import RunLog, read_run
from polytask.runs.sweep.index import Index
from polytask.runs.sweep.plan import state_of

RUN_FILES = (CONFIG_FILE, START_FILE, METRICS_FILE, SUMMARY_FILE)
FOLDER_KEYS = ("init_from", "demos")  # settings that name a folder


@dataclass(frozen=True)
class Sweep:
    """The runs of a sweep's folder.

    Attributes:
        root: The folder.
        index: What the sweep knows about them.
        runs: The runs that are complete, by folder and seed, such as "00-plain/seed-0".
        left_out: The others.
    """

    root: Path
    index: Index
    runs: dict[str, RunLog]
    left_out: list[str]

    @property
    def interrupted(self) -> list[str]:
        """The runs that can continue."""
        return [name for name in self.left_out if (self.root / name / CHECKPOINT_FILE).exists()]


def read_sweep(root: Path) -> Sweep:
    """Read the folder of a sweep.

    Raises:
        UserError: If a file of a complete run is damaged.
    """
    index = Index(root)
    done = {name: state_of(root / name)[0] == "done" for name in index.runs}
    runs = {name: read_run(root / name) for name, is_done in done.items() if is_done}
    return Sweep(root, index, runs, [name for name, is_done in done.items() if not is_done])


def described(sweep: Sweep, command: str, note: str | None) -> dict[str, Any]:
    """Return what is published about the runs."""
    first = {name.partition("/")[0]: log for name, log in reversed(sweep.runs.items())}
    folders = [name for name in sweep.index.settings if name in first]
    differing = differences([setting_of(first[name].config) for name in folders])
    settings = {
        name: {
            "label": sweep.index.settings[name]["label"],
            "differs": {key: _portable(key, values[at], sweep) for key, values in differing.items()},
        }
        for at, name in enumerate(folders)
    }
    runs = {
        name: {"seed": log.seed, **read_summary(log.directory / SUMMARY_FILE, log.rows[-1])}
        for name, log in sweep.runs.items()
    }
    head = {"command": command, **({"note": note} if note else {})}
    return {**head, "settings": settings, "runs": runs, "not_complete": sweep.left_out}


def _portable(key: str, value: Any, sweep: Sweep) -> Any:
    """Return the value of a setting without the folders of the machine that trained."""
    if key not in FOLDER_KEYS or value is None:
        return value
    parts = Path(value).parts
    first = next((at for at, part in enumerate(parts) if part in sweep.index.settings), len(parts) - 1)
    return "/".join(parts[first:])


def pack(sweep: Sweep, path: Path, interrupted: Sequence[str] = ()) -> None:
    """Write what another machine needs to report the complete runs, and to continue interrupted ones."""
    names = [INDEX_FILE, *(f"{run}/{file}" for run in sweep.runs for file in RUN_FILES)]
    for run in interrupted:
        names += [f"{run}/{file}" for file in (*RUN_FILES, CHECKPOINT_FILE)]
        history = sorted((sweep.root / run / HISTORY_FOLDER).rglob("*"))  # without it the run could not go on
        names += [path.relative_to(sweep.root).as_posix() for path in history if path.is_file()]

    def write(temporary: Path) -> None:
        with ZipFile(temporary, "w", ZIP_DEFLATED) as archive:
            for name in names:
                if (sweep.root / name).exists():  # a killed run has no summary
                    archive.write(sweep.root / name, name)

    write_atomically(path, write)


def unpack(root: Path, path: Path) -> None:
    """Add the runs of a zip file to a folder. Runs that the folder has stay, unless they are complete only in the file.

    Raises:
        UserError: If the file is no such zip file, a sweep uses the folder, or a folder that other runs start from
            would get another name: the saved settings of these runs name it.
    """
    with TemporaryDirectory() as temporary:
        try:
            with ZipFile(path) as archive:
                archive.getinfo(INDEX_FILE)
                archive.extractall(temporary)
        except (OSError, BadZipFile, KeyError) as error:
            raise UserError(f"'{path}' cannot be unpacked: {error.args[-1]}") from error
        packed = read_sweep(Path(temporary))
        lock = FolderLock(root)
        lock.take()
        try:
            _add(packed, root, path)
        finally:
            lock.release()


def _add(packed: Sweep, root: Path, path: Path) -> None:
    """Add the runs of an unpacked zip file to a folder."""
    index, settings = Index(root), packed.index.settings
    names = {name: index.adopt(name.partition("-")[2], one) for name, one in settings.items()}
    for name, other in names.items():
        begin = f"{OUTPUT}{name}/"
        if other != name and any(str(one["config"].get("init_from")).startswith(begin) for one in settings.values()):
            raise UserError(
                f"'{path}': '{name}' would be '{other}' in '{root}', but runs start from it by its name; unpack this "
                "file into an empty folder, and where runs continue, unpack the earlier files before"
            )
    for run in (*packed.runs, *packed.interrupted):
        folder, seed = run.split("/")
        target = root / names[folder] / seed
        if state_of(target)[0] in (("done",) if run in packed.runs else ("done", "interrupted")):
            continue  # the folder's own run is at least as far, and its index says so
        copytree(packed.root / run, target, dirs_exist_ok=True)
        index.record(f"{names[folder]}/{seed}", {**packed.index.runs[run], "setting": names[folder]})
    index.write()


def main(argv: list[str] | None = None) -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder of a sweep or of a reproduced table")
    parser.add_argument("--command", help="command line that made the runs; needed by --out")
    parser.add_argument("--note", help="remark on the runs, such as a disturbance")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--pack", type=Path, metavar="FILE.zip", help="zip file to write")
    parser.add_argument(
        "--interrupted", action="store_true", help="pack these runs, too, with checkpoints and histories"
    )
    parser.add_argument("--unpack", type=Path, nargs="+", metavar="FILE.zip", default=[], help="zip files to add")
    options = parser.parse_args(argv)
    if options.out is None and options.pack is None and not options.unpack:
        parser.error("name what to do: --out FILE.json, --pack FILE.zip, --unpack FILE.zip, or several")
    if options.out is not None and options.command is None:
        parser.error("--out needs --command: what made the runs is published with them")
    try:
        for path in options.unpack:
            unpack(options.folder, path)
        if options.out is None and options.pack is None:
            return
        sweep = read_sweep(options.folder)
        interrupted = sweep.interrupted if options.interrupted else []
        if not (sweep.runs or (interrupted and options.out is None)):
            raise UserError(f"'{options.folder}' has no complete run of a sweep; name the folder that has {INDEX_FILE}")
        if options.out is not None:
            write_text(options.out, layout(described(sweep, options.command, options.note)) + "\n")
        if options.pack is not None:
            pack(sweep, options.pack, interrupted)
    except UserError as error:
        parser.exit(2, f"{error}\n")
    for name in sweep.left_out:
        print(f"packed with its checkpoint: {name}" if name in interrupted else f"left out: {name} is not complete")


if __name__ == "__main__":
    main()
