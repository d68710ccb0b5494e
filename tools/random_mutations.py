"""Change random pieces of algorithms, networks and gradient methods, and count the changes that no test notices.

    python tools/random_mutations.py --seed 0 --count 60
    python tools/random_mutations.py --seed 7 --count 100 --most 0.1 --out mutations.json

`mutants.py` lists every possible change, and a generator with the seed draws some of them. A change to a function runs
the tests that call it: one run of all tests without changes records which these are. A change outside functions, and
one in a function that no test calls, runs all tests of the module. Changes that `equivalent_mutants.toml` explains do
not run. The exit status is 1 if more than the share `--most` survives.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import signal
import sys
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import torch
from mutants import Mutant, mutants
from mutations import FAILED, NOT_LEARNING, PASSED, ROOT, copied_package, prepare, replaced, run_tests

PARTS = ("algos", "nets", "grads")  # folders of the package, and of the tests
ON_GPU = ("grads/kernels.py",)  # files that only a GPU runs
EQUIVALENT = Path(__file__).with_name("equivalent_mutants.toml")
IMPORT_FAILED = (2, 4)  # exit statuses of pytest: test files or conftest.py cannot be imported
# All times are of the CPU, so that other load does not change a verdict.
CHOICE = ("-k", NOT_LEARNING)  # of tests, in place of that of the listed changes
BUDGET = 30.0  # seconds of tests per change, as measured without it
SPARE = 10.0  # seconds for imports, and twice the tests' own time: what takes longer does not end


class Verdict(NamedTuple):
    """What became of a change."""

    mutant: Mutant
    outcome: str  # killed, survived, or equivalent
    by: str  # the test that failed, or another reason; for equivalent ones why they are
    tests: int  # how many were chosen
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """Return what a reader needs to repeat and judge the change."""
        mutant = {name: getattr(self.mutant, name) for name in ("file", "line", "function", "kind", "before", "after")}
        own = {"verdict": self.outcome, "by": self.by, "tests": self.tests, "seconds": round(self.seconds, 1)}
        return mutant | own


class Calls:
    """Which tests call the functions of the package, and how long each test takes; a plugin of pytest records it."""

    def __init__(self, package: Path) -> None:
        """Record calls of functions in a copy of the package."""
        self.prefix, self.file = f"{package}/", package.parent / "calls.json"
        self.tests: dict[str, set[str]] = defaultdict(set)  # by file and first line of the function, "algos/sac.py:12"
        self.seconds: dict[str, float] = {}  # by test
        self.failed: set[str] = set()  # without a change: they would seem to notice every one
        self.current, self.start = "", 0.0

    def of(self, mutant: Mutant) -> list[str]:
        """Return the tests for a change: those in the module's own file first, then the fastest first."""
        called = self.tests.get(f"{mutant.file}:{mutant.first_line}", set())
        if not called:
            places = (place for place in self.tests if place.startswith(f"{mutant.file}:"))
            called = {test for place in places for test in self.tests[place]}
        path = Path(mutant.file)
        mirror = f"tests/{path.with_name(f'test_{path.name}')}::"
        ordered = sorted(called - self.failed, key=lambda test: (not test.startswith(mirror), self.seconds[test], test))
        return list(_within(ordered, self.seconds))

    def read(self) -> None:
        """Take over what the run in the fork recorded."""
        recorded = json.loads(self.file.read_text())
        self.tests |= {place: set(tests) for place, tests in recorded["tests"].items()}
        self.seconds |= recorded["seconds"]
        self.failed |= set(recorded["failed"])

    # Hooks of pytest

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Begin to record a test."""
        self.current, self.start = nodeid, time.process_time()
        sys.settrace(self._record)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Note a failure."""
        if report.failed:
            self.failed.add(report.nodeid)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """End the record of a test."""
        sys.settrace(None)
        self.seconds[nodeid] = time.process_time() - self.start

    def pytest_sessionfinish(self) -> None:
        """Write the record for the process that started the run."""
        tests = {place: sorted(found) for place, found in self.tests.items()}
        found = {"tests": tests, "seconds": self.seconds, "failed": sorted(self.failed)}
        self.file.write_text(json.dumps(found))

    def _record(self, frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if code.co_filename.startswith(self.prefix):
            self.tests[f"{code.co_filename[len(self.prefix) :]}:{code.co_firstlineno}"].add(self.current)


class Chosen:
    """A plugin of pytest: runs the given tests in the given order, and writes down which one fails."""

    def __init__(self, tests: Sequence[str], file: Path, seconds: float) -> None:
        """Store the tests, the file for the name, and the CPU time after which the process is ended."""
        self.places = {test: place for place, test in enumerate(tests)}
        self.file, self.limit = file, math.ceil(seconds)
        file.write_text("")

    def pytest_sessionstart(self) -> None:
        """Limit the time."""
        import resource  # not on Windows

        resource.setrlimit(resource.RLIMIT_CPU, (self.limit, self.limit))

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Choose and sort the tests."""
        chosen = (item for item in items if item.nodeid in self.places)
        items[:] = sorted(chosen, key=lambda item: self.places[item.nodeid])

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Write the name of the test that fails."""
        if report.failed:
            self.file.write_text(report.nodeid)


def _within(tests: Iterable[str], seconds: dict[str, float]) -> Iterable[str]:
    """Yield tests until they take as long as a change may."""
    total = 0.0
    for test in tests:
        yield test
        total += seconds[test]
        if total > BUDGET:
            return


def all_mutants(source: Path, parts: Collection[str] = PARTS) -> list[Mutant]:
    """Return every mutant of some folders of the package."""
    paths = sorted(path for part in parts for path in (source / part).rglob("*.py"))
    files = {path.relative_to(source).as_posix(): path for path in paths}
    return [each for file, path in files.items() if file not in ON_GPU for each in mutants(file, path.read_text())]


def read_equivalent(path: Path = EQUIVALENT) -> dict[tuple[str, str, str], str]:
    """Return why changes alter nothing that a test could see, by file, right lines and changed lines."""
    listed = tomllib.loads(path.read_text())
    return {(file, before, after): why for file, changes in listed.items() for before, after, why in changes["changes"]}


def judge(package: Path, mutant: Mutant, calls: Calls) -> Verdict:
    """Apply a change to the copy of the package, and run its tests until one fails."""
    start, tests, path = time.monotonic(), calls.of(mutant), package / mutant.file
    if not tests:
        return Verdict(mutant, "survived", "no test uses the module", 0, 0.0)
    limit = SPARE + 2 * sum(calls.seconds[test] for test in tests)
    choice = Chosen(tests, package.parent / "failed.txt", limit)
    with replaced(path, mutant.apply(path.read_text())):
        # A process that sleeps uses no CPU time, so there is a limit of another kind.
        files = sorted({test.partition("::")[0] for test in tests})
        status = run_tests(package, [*CHOICE, *files], 20 * limit, choice)
    if status == PASSED:
        outcome, by = "survived", ""
    elif status == FAILED:
        outcome, by = "killed", choice.file.read_text()
    elif status in (None, -signal.SIGXCPU, -signal.SIGKILL):
        outcome, by = "killed", "the tests do not end"
    elif status in IMPORT_FAILED:
        outcome, by = "killed", "the module cannot be imported"
    elif status < 0:
        outcome, by = "killed", f"signal {-status}"
    else:
        raise SystemExit(f"{mutant.file}, {mutant.after!r}: pytest could not run the tests (status {status})")
    return Verdict(mutant, outcome, by, len(tests), time.monotonic() - start)


def run_sample(sample: Sequence[Mutant], tests: Sequence[str]) -> list[Verdict]:
    """Judge every change of a sample, and print each verdict."""
    equivalent, verdicts = read_equivalent(), []
    with copied_package() as package:
        calls = Calls(package)
        status = run_tests(package, ["--maxfail=1000", *CHOICE, *tests], 3600, calls)
        if status not in (PASSED, FAILED):
            raise SystemExit(f"pytest could not run the tests without a change (status {status})")
        calls.read()
        for test in sorted(calls.failed):
            print(f"{test} fails without a change, so it is not used")
        for number, mutant in enumerate(sample, 1):
            why = equivalent.get((mutant.file, mutant.before, mutant.after))
            verdict = Verdict(mutant, "equivalent", why, 0, 0.0) if why else judge(package, mutant, calls)
            verdicts.append(verdict)
            line = f"{number}/{len(sample)} {mutant.file}:{mutant.line} {verdict.outcome}"
            print(f"{line} ({verdict.tests} tests, {verdict.seconds:.1f} s)", flush=True)
            if verdict.outcome == "survived":
                print(changed(mutant), flush=True)
    return verdicts


def changed(mutant: Mutant) -> str:
    """Return the lines that show a change."""
    return f"    - {mutant.before}\n    + {mutant.after}"


def survivors(verdicts: Sequence[Verdict]) -> list[str]:
    """Return the survivors as lines, each with its place: a list of new ones to look at."""
    left = [verdict.mutant for verdict in verdicts if verdict.outcome == "survived"]
    lines = [f"{mutant.file}:{mutant.line} {mutant.function}\n{changed(mutant)}" for mutant in left]
    return [f"{len(left)} survivors that {EQUIVALENT.name} does not explain:", *lines] if left else []


def report(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """Return the numbers of verdicts, and the share of survivors among the changes that are not equivalent."""
    counts = Counter(verdict.outcome for verdict in verdicts)
    share = counts["survived"] / max(1, counts["survived"] + counts["killed"])
    return {"killed": counts["killed"], "survived": counts["survived"], "equivalent": counts["equivalent"]} | {
        "share": round(share, 4)
    }


def write_results(path: Path, head: dict[str, Any], verdicts: Sequence[Verdict]) -> None:
    """Write the head and one line for each change as JSON."""
    lines = [f' "{name}": {json.dumps(value)}' for name, value in head.items()]
    rows = ",\n  ".join(json.dumps(verdict.as_json()) for verdict in verdicts)
    path.write_text("{\n" + ",\n".join(lines) + f',\n "mutants": [\n  {rows}\n ]\n}}\n')


def main() -> None:
    """Read the command line, draw and run a sample, and print and write what survived."""
    parser = argparse.ArgumentParser(description="Count random changes of the package that no test notices.")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--count", type=int, default=60, help="number of changes")
    parser.add_argument("--most", type=float, default=1.0, help="share of survivors above which the exit status is 1")
    parser.add_argument("--out", type=Path, help="JSON file for the verdicts")
    options = parser.parse_args()
    prepare()
    everything = all_mutants(ROOT / "src" / "polytask")
    sample = random.Random(options.seed).sample(everything, options.count)
    verdicts = run_sample(sample, [f"tests/{part}" for part in PARTS])
    found = report(verdicts)
    for line in survivors(verdicts):
        print(line)
    print(", ".join(f"{name} {value}" for name, value in found.items()))
    if options.out:
        from polytask.runs.provenance import provenance  # not before: the forks import the copy

        command = f"python tools/random_mutations.py --seed {options.seed} --count {options.count}"
        head = {"command": command, "population": len(everything), **provenance(torch.device("cpu")), **found}
        write_results(options.out, head, verdicts)
    sys.exit(1 if found["share"] > options.most else 0)


if __name__ == "__main__":
    main()
