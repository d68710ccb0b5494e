"""Run every command on a full disk, with a limit on the size of files, and in folders that cannot be written.

A command must answer with one plain line and leave no temporary file and no damaged file behind. All episodes and
labels that MT-Opt's store had must still be there; the bytes of an unfinished episode after them are no damage. The
full disk is a file system in memory of the process's own (Linux, user namespaces); without the right to make one, only
the limit and the read-only folders are tried.

    cd benchmarks && python -m faults.disks --out results/faults/disks.json
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import resource
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from faults import tiny
from faults.process import GOOD, Case, Outcome, count_verdicts, describe, run_all, show
from faults.rights import can, make_read_only, mount_memory
from faults.script import arguments, finish, scratch
from polytask.cli.commands import COMMANDS
from polytask.errors import UserError
from polytask.files import load_tensors
from polytask.mtopt.store import EpisodeStore

DISK = "disk"  # folder in which the command runs
FOUND = "found.json"  # what the check found, beside this folder
STORES = "stores"  # copies of stores, beside it too: to open a store is to write to its folder
LEFT = (0, 5_000, 100_000, 700_000, 1_500_000, 6_000_000)  # bytes that are left on the full disk
LARGEST = (20_000, 300_000, 1_000_000, 5_000_000)  # bytes of the largest file
# Command lines that write in other ways than the short ones of all commands.
MORE: tuple[tuple[str, ...], ...] = (
    ("train", "checkpoint=run", "max_iterations=5", "save_every=1"),
    (*tiny.words_of("train"), "video=true", "eval_episodes=1", "episode_length=2"),
    (*tiny.words_of("train"), "tensorboard=true"),
    (*tiny.words_of("sweep"), "dry_run=false"),
    (*tiny.words_of("collect"), "export=minari"),
    ("mtopt", "run", "run_dir=bins", "controller.rounds=1"),
    ("mtopt", "export", "run_dir=bins", "to=minari", "output=new"),
    ("mtopt", "relabel", "run_dir=bins", "train=true"),
)


def lines() -> list[tuple[str, ...]]:
    """Return the command lines that are tried on every disk."""
    return [tiny.words_of(command) for command in COMMANDS] + list(MORE)


def disks() -> dict[str, Callable[[], None]]:
    """Return the ways to prepare the disk, each a function that runs in the process of the command."""
    ways: dict[str, Callable[[], None]] = {}
    if can(mount_memory):
        ways |= {f"{left} bytes left": partial(_fill, left) for left in LEFT}
        ways["read-only disk"] = _remount
    ways |= {f"files of at most {size} bytes": partial(_limit, size) for size in LARGEST}
    return {**ways, "read-only folders": _lock}


def cases(root: Path, count: int | None, seed: int) -> list[Case]:
    """Make the cases, or a random sample of them."""
    made = [
        Case(
            words,
            root / f"case-{place}-{number}",
            {"disk": name},
            tiny.limit_of(words),
            partial(set_up, root / "prepared", name, prepare),
            partial(check, name.startswith("read-only")),
        )
        for place, (name, prepare) in enumerate(disks().items())
        for number, words in enumerate(lines())
    ]
    return made if count is None or count >= len(made) else random.Random(seed).sample(made, count)


def set_up(prepared: Path, name: str, prepare: Callable[[], None]) -> None:
    """Make the disk, copy the runs that commands read to it, and fill it."""
    Path(DISK).mkdir()
    if name.endswith(("left", "disk")):
        mount_memory(Path(DISK))
    os.chdir(DISK)
    for run in ("run", "bins"):
        _copy(prepared / run, Path(run))
    rows = _rows(_copy_store(Path("bins"), "before"))
    Path(f"../{FOUND}").write_text(json.dumps({"before": digests(), "rows": rows}))
    prepare()


def check(is_locked: bool) -> None:
    """Look for what a failed command must not leave behind, and write it to a file."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    path = Path(f"../{FOUND}")
    found = json.loads(path.read_text())
    before, after = found["before"], digests()
    problems = [f"{name} is gone" for name in before if name not in after]
    problems += [f"{name} is left" for name in after if name.endswith(".part")]
    problems += [f"{name} is damaged" for name in after if not is_whole(Path(name))]
    for number, store in enumerate(stores()):
        rows = found["rows"] if store == Path("bins") else (0, 0)
        problems += [f"{store}: {problem}" for problem in store_problems(_copy_store(store, str(number)), rows)]
    if is_locked:
        problems += [f"{name} has changed" for name in after if after[name] != before.get(name)]
    path.write_text(json.dumps({**found, "problems": problems}))


def is_whole(path: Path) -> bool:
    """Return whether a file can be read to its end. A kill may cut the last line of a log."""
    try:
        if path.suffix == ".pt":
            load_tensors(path, "file")
        elif path.suffix == ".json":
            json.loads(path.read_bytes())
        elif path.suffix == ".jsonl":
            for line in filter(None, path.read_bytes().split(b"\n")[:-1]):
                json.loads(line)
    except (UserError, ValueError):
        return False
    return path.stat().st_size > 0 or path.suffix not in (".mp4", ".png", ".md", ".tex", ".csv", ".npz", ".yaml")


def stores() -> list[Path]:
    """Return the folders below the present one that are stores of episodes, or were to become one."""
    indexes = {path.parent for path in Path().rglob(EpisodeStore.INDEX)}
    return sorted(indexes | {path.parent for path in Path().rglob("shards")})


def store_problems(root: Path, rows: Sequence[int]) -> Iterator[str]:
    """Return what is wrong with a store that had a number of episodes and of labels. It is opened, so it may change."""
    try:
        with closing(EpisodeStore(root, rebuilds=False)) as store:
            report, problem = store.check(deep=True), store.index_problem()
    except UserError as error:
        yield str(error)
        return
    if problem is not None:
        yield problem
    if not report.is_sound:  # tails do not count: the disk was full in the middle of an append
        yield from report.lines()[1:]
    for name, had, has in zip(("episodes", "labels"), rows, (report.episodes, report.labels), strict=True):
        if has < had:
            yield f"{had - has} {name} are gone"


def digests() -> dict[str, str]:
    """Return a digest of every file below the present folder, except the filler."""
    files = sorted(path for path in Path().rglob("*") if path.is_file() and path.name != "filler")
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def row_of(outcome: Outcome, root: Path) -> dict[str, Any]:
    """Return the row of a case. Its verdict is BROKEN if something was left behind or destroyed."""
    file = outcome.case.folder / FOUND
    problems = json.loads(file.read_text()).get("problems") if file.is_file() else None
    row = describe(outcome, root)
    if row["verdict"] in GOOD and problems != []:
        return row | {"verdict": "BROKEN", "problems": "not checked" if problems is None else problems[:5]}
    return row


def _copy(source: Path, target: Path) -> None:
    """Copy a folder, without links, which do not reach another file system."""
    for path in sorted(source.rglob("*")):
        place = target / path.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        if path.is_file():
            place.write_bytes(path.read_bytes())


def _copy_store(root: Path, name: str) -> Path:
    """Copy the shards and the index of a store to a folder that can be written."""
    target = Path("..", STORES, name)
    _copy(root / "shards", target / "shards")
    target.mkdir(parents=True, exist_ok=True)
    for path in root.glob("index*"):
        (target / path.name).write_bytes(path.read_bytes())
    return target


def _rows(root: Path) -> tuple[int, int]:
    """Count the episodes and the labels of a store."""
    with closing(EpisodeStore(root, rebuilds=False)) as store:
        report = store.check()
    return report.episodes, report.labels


def _fill(left: int) -> None:
    """Fill the disk until some bytes are left."""
    state = os.statvfs(".")
    free = state.f_bavail * state.f_frsize
    Path("filler").write_bytes(bytes(max(0, free - left)))


def _limit(size: int) -> None:
    """Let every file that grows beyond a size fail, as on a full disk."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def _lock() -> None:
    """Take the right to write from all files and folders."""
    for path in [Path(), *Path().rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)


def _remount() -> None:
    make_read_only(Path.cwd())


def main() -> None:
    """Run the cases and write the result."""
    options = arguments(__doc__).parse_args()
    rows = []
    with scratch() as root:
        tiny.prepare(root)
        for outcome in run_all(cases(root, options.count, options.seed), options.jobs):
            rows.append(row_of(outcome, root))
            if rows[-1]["verdict"] not in GOOD:
                show(rows[-1], outcome)
    finish(options.out, rows, {"disks": list(disks()), "command_lines": len(lines()), "verdicts": count_verdicts(rows)})


if __name__ == "__main__":
    main()
