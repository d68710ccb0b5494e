"""Change one line of the package at a time, run the tests that should notice, and print the changes that survive.

    python tools/mutations.py                    all changes of tools/mutations.toml
    python tools/mutations.py sac "never move"   those whose file or description contains one of these words
    python tools/mutations.py --part 2/6         the second of six equal parts

The working tree is not touched: a copy of the package is changed. Every change runs in a fork of this process, which
has imported torch already. A run ends with the share of survivors; its exit status is 1 if there is any.
"""

from __future__ import annotations

import argparse
import importlib
import os
import shutil
import signal
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import torch

ROOT = Path(__file__).parents[1]
LIST = Path(__file__).with_suffix(".toml")
# Tests that train until something is learned take most of the time and notice little, so exact tests must notice.
LEARNING = ("point_mass", "every_gradient_method", "combine", "no_more_steps", "large_critic", "methods_train")
# These notice more, but a part of it only after some iterations; the random changes may use them.
ITERATING = ("bit_for_bit", "_trains")
EXACT, NOT_LEARNING = (" and ".join(f"not {word}" for word in words) for words in ((*LEARNING, *ITERATING), LEARNING))
# What the tests import anyway; an optimizer's first step imports torch._dynamo.
SLOW_IMPORTS = (
    "pytest",
    "torch._dynamo",
    "torch.distributions",
    "torchjd.aggregation",
    "torchjd.scalarization",
    "mujoco",
)
PASSED, FAILED = 0, 1  # exit statuses of pytest; others mean that it could not run the tests


class Mutation(NamedTuple):
    """A piece of a file that is replaced by a wrong one, and the tests that should fail then."""

    file: str  # relative to the package
    about: str
    old: str
    new: str
    tests: tuple[str, ...]

    def apply(self, text: str) -> str:
        """Return the text of the file with the change."""
        if text.count(self.old) != 1:
            raise SystemExit(f"{self.file}: {self.old!r} occurs {text.count(self.old)} times, it must occur once")
        return text.replace(self.old, self.new)


def read_mutations(path: Path = LIST) -> list[Mutation]:
    """Read the list: by file, the tests and the changes (description, old piece, new piece)."""
    parts = tomllib.loads(path.read_text())
    return [
        Mutation(file, *change, tuple(f"tests/{name}" for name in part["tests"]))
        for file, part in parts.items()
        for change in part["changes"]
    ]


def chosen(mutations: Sequence[Mutation], words: Sequence[str], part: str) -> list[Mutation]:
    """Return the mutations that contain one of the words (all without words), and of these one part, such as "2/6"."""
    number, _, count = part.partition("/")
    named = [m for m in mutations if not words or any(word in f"{m.file} {m.about}" for word in words)]
    return named[int(number) - 1 :: int(count)]


@contextmanager
def copied_package() -> Iterator[Path]:
    """Copy the package into a temporary folder, where its files may be changed."""
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "polytask"
        shutil.copytree(ROOT / "src" / "polytask", package, ignore=shutil.ignore_patterns("__pycache__"))
        yield package


@contextmanager
def replaced(path: Path, text: str) -> Iterator[None]:
    """Give a file another text for a while."""
    right = path.read_text()
    path.write_text(text)
    try:
        yield
    finally:
        path.write_text(right)


def run_tests(package: Path, arguments: Sequence[str], seconds: float, *plugins: object) -> int | None:
    """Run pytest on a copy of the package, in a fork; return its exit status, or None if it took too long.

    Args:
        package: The copy.
        arguments: Files of tests and other arguments of pytest.
        seconds: The limit.
        plugins: Objects with hooks of pytest.
    """
    child = os.fork()
    if child == 0:
        _test_in_child(package, arguments, plugins)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def _test_in_child(package: Path, arguments: Sequence[str], plugins: Sequence[object]) -> None:
    """Run pytest without output and leave the process with its exit status."""
    import pytest

    status = 3
    try:
        os.environ["PYTHONPATH"] = str(package.parent)  # for processes that tests start
        sys.path.insert(0, str(package.parent))
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        options = ["-x", "-q", "-m", "not slow and not gpu", "-k", EXACT, "-p", "no:cacheprovider"]
        status = int(pytest.main([*options, *arguments], plugins=list(plugins)))
    finally:
        os._exit(status)


def survivors(mutations: Sequence[Mutation], seconds: float) -> list[Mutation]:
    """Apply every mutation to a copy of the package, and return those that no test noticed."""
    found = []
    with copied_package() as package:
        require_passing(package, sorted({test for m in mutations for test in m.tests}))
        for number, mutation in enumerate(mutations, 1):
            path = package / mutation.file
            with replaced(path, mutation.apply(path.read_text())):
                status = run_tests(package, mutation.tests, seconds)
            if status not in (PASSED, FAILED, None):
                raise SystemExit(f"{mutation.file}, {mutation.about}: pytest could not run the tests (status {status})")
            word = {PASSED: "SURVIVED", FAILED: "noticed", None: "noticed (too slow)"}[status]
            print(f"{number}/{len(mutations)} {mutation.file}: {mutation.about}: {word}", flush=True)
            if status == PASSED:
                found.append(mutation)
    return found


def require_passing(package: Path, tests: Sequence[str]) -> None:
    """Check that the tests pass without a change; otherwise every change would seem to be noticed."""
    if (status := run_tests(package, tests, 3600)) != PASSED:
        raise SystemExit(f"the tests do not pass without a change (status {status}): {' '.join(tests)}")


def prepare() -> None:
    """Import what takes long, so that no fork does it again."""
    os.chdir(ROOT)
    sys.dont_write_bytecode = True  # a cached module could outlive the change of a line by one of the same length
    if not torch.cuda.is_available():
        os.environ.setdefault("TRITON_INTERPRET", "1")  # as tests/conftest.py, but before torch imports Triton
    for name in SLOW_IMPORTS:
        importlib.import_module(name)


def main() -> None:
    """Read the command line, run the chosen mutations and print the survivors."""
    parser = argparse.ArgumentParser(description="Check that tests notice wrong lines.")
    parser.add_argument("words", nargs="*", help="only changes whose file or description contains one of these")
    parser.add_argument("--part", default="1/1", help="only one part of the list, such as 2/6")
    parser.add_argument("--seconds", type=float, default=300, help="limit of one test run; longer counts as noticed")
    options = parser.parse_args()
    prepare()
    mutations = chosen(read_mutations(), options.words, options.part)
    found = survivors(mutations, options.seconds)
    print(f"{len(found)} of {len(mutations)} changes survived the tests ({len(found) / max(1, len(mutations)):.0%})")
    for mutation in found:
        print(f"  {mutation.file}: {mutation.about}: {mutation.old!r} -> {mutation.new!r}")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
