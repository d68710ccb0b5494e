"""Damage every file of a run in many ways, and see what the commands that read it answer.

Which files a command reads is found out by running it once and watching what it opens, so a new file is covered at
once. A damaged file must be refused with one plain line, be mended, or not matter. A file of tensors has a checksum, so
a command that accepts a changed one is SILENT.

    cd benchmarks && python -m faults.damage --out results/faults/damage.json
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf

from faults import tiny
from faults.process import GOOD, Case, Outcome, copy_links, count_verdicts, describe, run, run_all, show
from faults.script import arguments, finish, scratch
from polytask.files import save_tensors

OPENED = "opened.txt"
EVALUATE = ("episode_length=2", "threads=1")
# Run folder -> command lines that read it. `mtopt check` exists to find damage.
READERS: dict[str, tuple[tuple[str, ...], ...]] = {
    **dict.fromkeys(
        ("run", "sac"),
        (
            ("train", "checkpoint=RUN", "max_iterations=4"),
            ("train", "init_from=RUN", "run_dir=new"),
            ("eval", "checkpoint=RUN", "episodes=1", *EVALUATE),
            ("record", "checkpoint=RUN", "width=32", "height=32", *EVALUATE),
            ("collect", "checkpoint=RUN", "episodes=1", "output=new", *EVALUATE),
            ("report", "runs=[RUN]", "output=new"),
        ),
    ),
    "swept": (("sweep", "preset=cpu_demo", "output=RUN", "dry_run=true"),),
    "bins": (
        ("mtopt", "run", "run_dir=RUN", "controller.rounds=1"),
        ("mtopt", "status", "run_dir=RUN"),
        ("mtopt", "eval", "run_dir=RUN"),
        ("mtopt", "relabel", "run_dir=RUN"),
        ("mtopt", "export", "run_dir=RUN", "output=new"),
        ("mtopt", "check", "run_dir=RUN"),
        ("label", "run_dir=RUN", "port=0"),
    ),
}
WRONG: tuple[Any, ...] = (None, 7, "text", [], {"a": 1})  # values of another type than a field has
TEXT = b"This is a text.\nIt has two lines.\n"
BAD_LINES = (
    b'{"iteration": 1, "fra',
    b"5",
    b"[]",
    b"null",
    b"{}",
    b"\xff\xfe",
    b'{"iteration": 1' + b"0" * 5000 + b"}",
)


@dataclass(frozen=True)
class Damage:
    """A way to damage a file.

    Attributes:
        kind: Bytes, size, content, line, field or weights. A sample has all kinds.
        name: What is done, for the result.
        apply: Damages a file.
        is_caught: The checksum of a file of tensors, or the check of its weights, must notice it.
    """

    kind: str
    name: str
    apply: Callable[[Path], None]
    is_caught: bool = False


def damages_of(path: Path, generator: random.Random) -> Iterator[Damage]:
    """Make all kinds of damage for a file, by its content."""
    data = path.read_bytes()
    protected = path.suffix == ".pt"
    for count in (1, 8, 64) if data else ():
        for repeat in range(3 if protected else 1):
            places = sorted(generator.sample(range(len(data)), min(count, len(data))))
            yield Damage("bytes", f"{count} flipped bytes ({repeat})", partial(_flip, places), protected)
    for part in range(10) if len(data) > 10 else ():
        size = generator.randrange(part * len(data) // 10, (part + 1) * len(data) // 10)
        yield Damage("size", f"truncated in part {part} of 10", partial(_truncate, size), protected)
    yield Damage("content", "empty", partial(_write, b""), protected)
    yield Damage("content", "text", partial(_write, TEXT), protected)
    yield Damage("content", "a longer file", _lengthen, protected)
    yield Damage("content", "random bytes", partial(_write, generator.randbytes(1000)), protected)
    yield Damage("content", "a folder", _to_folder, protected)
    yield Damage("content", "missing", _remove)
    if path.suffix == ".jsonl":
        yield from _line_damages(data)
    for name, content in field_damages(path):
        yield Damage("field", name, partial(_save, content))
    if protected:
        yield Damage("weights", "NaN weights", partial(_save, _with_nan(_load(path))), is_caught=True)


def field_damages(path: Path) -> Iterator[tuple[str, Any]]:
    """Return contents of a file of fields in which one field is missing or has another type. The file is valid."""
    content = _load(path)
    if not isinstance(content, dict):
        return
    for field in content:
        yield f"without {field}", {name: value for name, value in content.items() if name != field}
        for value in WRONG:
            if type(value) is not type(content[field]):
                yield f"{field} is {json.dumps(value)}", {**content, field: value}
    yield "a list", [1, 2]


def opened(words: tuple[str, ...], folder: Path, source: Path) -> list[str]:
    """Run a command on an undamaged run and return the files of the run that it opens.

    Raises:
        RuntimeError: If the command fails.
    """
    outcome = run(Case(words, folder, {}, tiny.limit_of(words), partial(_watch, source)))
    if outcome.verdict not in GOOD or outcome.verdict == "refused":
        raise RuntimeError(f"polytask {' '.join(words)}: {outcome.stderr}")
    found = {os.path.realpath(folder / name) for name in (folder / OPENED).read_text().splitlines()}
    home = os.path.realpath(folder / "RUN")
    names = {os.path.relpath(path, home) for path in found if path.startswith(home + os.sep)}
    return sorted(name for name in names if (source / name).is_file())


def cases(root: Path, count: int | None, seed: int, only: str = "") -> list[Case]:
    """Make the cases: each damaged file with each command that reads it; or a sample, even over files and kinds."""
    made: dict[str, list[Case]] = {}
    damages: dict[Path, list[Damage]] = {}
    for name, source, words in _reads(root, only):
        path = source / name
        if path not in damages:
            damages[path] = list(damages_of(path, random.Random(f"{seed} {source.name} {name}")))
        for damage in damages[path]:
            about = {"file": f"{source.name}/{name}", "damage": damage.name, "is_caught": damage.is_caught}
            here = made.setdefault(f"{damage.kind} {source.name}/{name}", [])
            folder = root / f"case-{sum(map(len, made.values()))}"
            here.append(Case(words, folder, about, tiny.limit_of(words), partial(_set_up, source, name, damage)))
    for here in made.values():
        random.Random(seed).shuffle(here)
    groups = list(made.values())
    random.Random(seed).shuffle(groups)  # else a small sample has only the files whose names come first
    even = [case for row in zip_longest(*groups) for case in row if case is not None]
    return even[:count]


def _reads(root: Path, only: str) -> Iterator[tuple[str, Path, tuple[str, ...]]]:
    """Return each file of the prepared runs, with its run, and each command line that reads it."""
    for run_name, readers in READERS.items():
        for number, line in enumerate(readers if only in run_name else ()):
            words = line
            if "init_from=RUN" in line:
                words = (*tiny.words_of("train", ("algo=sac",) if run_name == "sac" else ()), *line[1:])
            source = root / "prepared" / run_name
            for name in opened(words, root / f"watch-{run_name}-{number}", source):
                yield name, source, words


def row_of(outcome: Outcome, root: Path) -> dict[str, Any]:
    """Return the row of a case, with the verdict SILENT if damage that the checksum shows was accepted."""
    row = describe(outcome, root)
    is_accepted = outcome.verdict in ("ok", "stopped")
    return row | ({"verdict": "SILENT"} if outcome.case.about["is_caught"] and is_accepted else {})


def prepare(root: Path, only: str = "") -> None:
    """Make the runs that are damaged: all, or those whose names contain a text."""
    wanted = {name for name in READERS if only in name}
    sources = {"run" if name == "swept" else name for name in wanted}
    prepared = tiny.prepare(root, sorted(sources))
    if "swept" in wanted:
        swept = prepared / "swept/cpu_demo"
        swept.mkdir(parents=True)
        copy_links(prepared / "run", swept / "seed-0")


def _set_up(source: Path, name: str, damage: Damage) -> None:
    copy_links(source, Path("RUN"))
    damage.apply(Path("RUN") / name)


def _watch(source: Path) -> None:
    """Copy a run, and from now on write down all files that this process opens."""
    copy_links(source, Path("RUN"))
    log = os.open(OPENED, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def hook(event: str, details: tuple[Any, ...]) -> None:
        if event in ("open", "sqlite3.connect") and isinstance(details[0], str | bytes | os.PathLike):
            os.write(log, os.fsencode(details[0]) + b"\n")

    sys.addaudithook(hook)


def _write(data: bytes, path: Path) -> None:
    path.unlink()  # it may be a link to the original
    path.write_bytes(data)


def _flip(places: list[int], path: Path) -> None:
    changed = bytearray(path.read_bytes())
    for place in places:
        changed[place] ^= 0xFF
    _write(bytes(changed), path)


def _truncate(size: int, path: Path) -> None:
    _write(path.read_bytes()[:size], path)


def _lengthen(path: Path) -> None:
    _write(path.read_bytes() + TEXT, path)


def _to_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _remove(path: Path) -> None:
    path.unlink()


def _line_damages(data: bytes) -> Iterator[Damage]:
    lines = data.splitlines()
    for number, bad in enumerate(BAD_LINES):
        torn = [*lines[:1], bad, *lines[1:]]
        yield Damage("line", f"bad line {number} in the middle", partial(_write, b"\n".join(torn) + b"\n"))


def _load(path: Path) -> Any:
    """Read a file of fields; None if it is of another kind."""
    if path.suffix == ".json":
        return json.loads(path.read_bytes())
    if path.suffix == ".yaml":
        return OmegaConf.to_container(OmegaConf.load(path))
    return torch.load(path, map_location="cpu", weights_only=True) if path.suffix == ".pt" else None


def _save(content: Any, path: Path) -> None:
    path.unlink()
    if path.suffix == ".pt":
        save_tensors(path, content)
    else:
        path.write_text(json.dumps(content) if path.suffix == ".json" else OmegaConf.to_yaml(OmegaConf.create(content)))


def _with_nan(value: Any) -> Any:
    """Replace the first entry of every tensor of floats that has two dimensions, as weights have, by NaN."""
    if isinstance(value, torch.Tensor) and value.is_floating_point() and value.dim() >= 2:
        changed = value.clone()
        changed.view(-1)[:1] = torch.nan
        return changed
    if isinstance(value, dict):
        return {name: _with_nan(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_with_nan(each) for each in value)
    return value


def main() -> None:
    """Run the cases and write the result."""
    parser = arguments(__doc__)
    parser.add_argument("--only", default="", help="damage only this run: run, sac, swept or bins")
    options = parser.parse_args()
    rows = []
    with scratch() as root:
        prepare(root, options.only)
        for outcome in run_all(cases(root, options.count, options.seed, options.only), options.jobs):
            rows.append(row_of(outcome, root))
            if rows[-1]["verdict"] not in GOOD:
                show(rows[-1], outcome)
    damaged = len({(row["file"], row["damage"]) for row in rows})
    finish(options.out, rows, {"damaged_files": damaged, "verdicts": count_verdicts(rows)})


if __name__ == "__main__":
    main()
