"""Give every key of every command bad values of all kinds, and see what polytask answers.

The keys are found in the config classes themselves. A command line must run (exit code 0), be refused with one plain
line (exit code 2), or end by the documented signal. Each runs in a process of its own, in an empty folder.

    cd benchmarks && python -m faults.command_lines --out results/faults/command_lines.json
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from faults import tiny
from faults.keys import Key, keys_of
from faults.process import GOOD, Case, count_verdicts, describe, run_all, show
from faults.script import arguments, finish, scratch
from polytask.cli.commands import COMMANDS

NUMBERS = ("nan", "inf", "-inf", "-1", "0", "1e308", "-1e30")  # shown in the table of accepted numbers


def lines(seed: int = 0) -> Iterator[tuple[str, tuple[str, ...], dict[str, Any]]]:
    """Make all command lines: the command, its words, and the key and value that are tried."""
    generator, seen = random.Random(seed), set[tuple[str, type[Any]]]()
    # `mtopt run` before `mtopt collect`: it uses all the settings that they share.
    for command in sorted(COMMANDS, key=lambda name: name != "mtopt run"):
        for entry in entries(command):
            yield command, tiny.words_of(command, entry), {"key": " ".join(entry), "value": ""}
        keys = list(keys_of(COMMANDS[command].schema))
        for key in keys:
            # What commands have in common is tried once in full, then once more with each.
            place = (key.name, key.owner)
            values = key.values if place not in seen or "." not in key.name else (generator.choice(key.values),)
            words = tiny.words_of(command, key.chosen)
            for value in values:
                yield command, (*words, f"{key.name}={value}"), {"key": key.name, "value": value}
        seen |= {(key.name, key.owner) for key in keys}
        yield from _words(command, keys)


def entries(command: str) -> list[tuple[str, ...]]:
    """Return the choices of groups with which a command must run: none, and each entry of each group."""
    if command not in ("train", "show"):
        return [()]
    chosen = {key.chosen for key in keys_of(COMMANDS[command].schema)}
    return sorted(words for words in chosen if "sim=warp" not in words)


def _words(command: str, keys: list[Key]) -> Iterator[tuple[str, tuple[str, ...], dict[str, Any]]]:
    """Make command lines whose keys, not values, are odd."""
    base = tiny.words_of(command)
    name = keys[0].name
    odd = ["nothing=1", f"{name}", "=", "=1", f"+{name}=1", f"~{name}", f"++{name}=1", f"{name}.deeper=1", f"{name}x=1"]
    odd += [f"{name[:-1]}=1", "--nothing", "-x", "", " ", "\0=1", "x" * 5000, "a.b.c.d=1", "[=]", "preset=nothing"]
    odd += [
        "preset=",
        "preset=[a]",
        "preset=../train",
        "lr=1",
        "hydra.run.dir=x",
        "hydra/launcher=x",
        "_target_=os.system",
    ]
    for word in odd:
        yield command, (*base, word), {"key": "", "value": word}
    for word in base[len(command.split()) :]:
        yield command, (*base, word), {"key": word.partition("=")[0], "value": "twice"}


def folders(command: str, prepared: Path) -> None:
    """Fill the folder in which a case runs."""
    Path("a_file").write_text("some text\n")
    Path("a_folder").mkdir()
    Path("a_folder/file").write_text("other text\n")
    Path("locked").mkdir()
    Path("locked_file").write_text("locked\n")
    Path("loop").symlink_to("loop")
    Path("locked_file").chmod(0o444)
    Path("locked").chmod(0o555)
    tiny.copy_runs(command, prepared)


def cases(root: Path, count: int | None, seed: int, is_wanted: Callable[[str], bool] = bool) -> list[Case]:
    """Make the cases, or a random sample of them."""
    prepared, made = root / "prepared", list[Case]()
    for number, (command, words, about) in enumerate(lines(seed)):
        if is_wanted(command):
            about = {"polytask": command, **{name: ascii(value)[1:-1][:80] for name, value in about.items()}}
            made.append(
                Case(words, root / f"case-{number}", about, tiny.limit_of(words), partial(folders, command, prepared))
            )
    return made if count is None or count >= len(made) else random.Random(seed).sample(made, count)


def accepted(rows: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Return, for each key, the odd numbers with which its command ran."""
    table: dict[str, list[str]] = {}
    for row in rows:
        if row["verdict"] in ("ok", "stopped") and row["value"] in NUMBERS:
            table.setdefault(f"{row['polytask']} {row['key']}", []).append(row["value"])
    return table


def main() -> None:
    """Run the cases and write the result."""
    parser = arguments(__doc__)
    parser.add_argument("--only", help="run only the commands whose names contain this text")
    options = parser.parse_args()
    rows = []
    with scratch() as root:
        tiny.prepare(root)
        chosen = cases(root, options.count, options.seed, lambda command: (options.only or "") in command)
        for outcome in run_all(chosen, options.jobs):
            rows.append(describe(outcome, root))
            if outcome.verdict not in GOOD:
                show(rows[-1], outcome)
    finish(options.out, rows, {"verdicts": count_verdicts(rows), "accepted_numbers": accepted(rows)})


if __name__ == "__main__":
    main()
