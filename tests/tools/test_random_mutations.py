"""The generator makes the usual changes and no others, and the tool tells killed from surviving ones."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from helpers.scripts import ROOT, load_script

needs_fork = pytest.mark.skipif(sys.platform == "win32", reason="needs fork")

TINY = """def add(a, b):
    return a + b


def sub(a, b):
    return a - b


def count(n):
    while n:
        n -= 1
    return n


def unused(a):
    return a and 1
"""
TESTS = """from tiny.sums import add, count, sub


def test_add():
    assert add(1, 2) == 3


def test_sub():
    assert sub(3, 0) == 3


def test_count():
    assert count(2) == 0


def test_that_fails_already():
    assert add(1, 1) == sub(1, 1)
"""


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    load_script("mutants")
    load_script("mutations")
    return load_script("random_mutations")


def changes(tool: ModuleType, text: str) -> set[str]:
    """Return the changed lines that the generator makes of a text."""
    return {mutant.after for mutant in tool.mutants("a.py", text)}


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("x = a < b", {"x = (a <= b)", "x = (a >= b)"}),
        ("x = a == b in c", {"x = (a != b in c)", "x = (a == b not in c)"}),
        ("x = a is None", {"x = (a is not None)"}),
        ("x = (a + b) * c", {"x = ((a - b)) * c", "x = ((a + b) / c)"}),
        ("x = a & ~b", {"x = (a | ~b)", "x = a & b"}),
        ("x = -y", {"x = y"}),
        ("x = a and b", {"x = (a or b)"}),
        ("x = a if b else c", {"x = a", "x = c"}),
        ("x = [a for a in b if c]", {"x = [a for a in b if (not (c))]"}),
        ("x = y[-1]", {"x = y[0]", "x = y[-2]"}),
        ("x = 0.5", {"x = 1.5", "x = -0.5"}),
        ("x = True", {"x = False"}),
        ("x = max(a, b)", {"x = min(a, b)", "x = max(a)"}),
        ("x = y.amin(dim=d)", {"x = y.amax(dim=d)", "x = y.amin()"}),
        ("x = y.sum(d)", {"x = y.mean(d)"}),
        ("x = f(a, b=c)", {"x = f(a)"}),
        ("x = y.exp()", {"x = y.log()", "x = y"}),
        ("f(a)", {"pass"}),
        ("x[a] = b", {"pass"}),
        ("x += y", {"x -= y", "pass"}),
        ("x.y = z", {"pass"}),
        ("if a:\n    b = c", {"if not (a):"}),
        ("while a:\n    b = c", {"while not (a):"}),
    ],
)
def test_makes_the_usual_changes(tool: ModuleType, right: str, wrong: set[str]) -> None:
    assert changes(tool, right) == wrong


@pytest.mark.parametrize(
    "text",
    [
        '"""Text."""\nimport torch\nfrom a import b',
        "x: int | None = y",
        "def f(a: int | None = None) -> int | None:\n    ...",
        "@f(1, a=2)\ndef g():\n    ...",
        'raise ValueError(f"{a + 1} is not {b < 2}")',
        "assert a < 1",
        'x = f"{a + 1}"',
        'x = "a" + b',
        "x = zip(a, strict=True)",
        "x: float = setting(0.5, 'a number', above=0.0)",
        "x: float = with_default(Config, 'x', 0.5)",
        "class A(Protocol):\n    def f(self, a=1): ...",
        "x = torch.empty(a, device=b)",
        "x = y.contiguous()",
        "x = sum(y)",  # Python has no mean
        "class A:\n    def __init__(self, a):\n        self.a = a",
    ],
)
def test_leaves_out_what_makes_no_result_wrong(tool: ModuleType, text: str) -> None:
    assert changes(tool, text) == set()


def test_a_mutant_knows_its_place(tool: ModuleType) -> None:
    text = "class A:\n    @property\n    def f(self):\n        é = 'é'; x = (\n            self.y\n            + z)\n"
    (mutant,) = tool.mutants("a.py", text)
    assert (mutant.line, mutant.function, mutant.first_line) == (5, "A.f", 2)
    assert (mutant.before, mutant.after) == ("self.y + z)", "(self.y - z))")
    assert mutant.apply(text) == text.replace("self.y\n            + z", "(self.y - z)")


def test_all_mutants_of_the_package_can_be_compiled(tool: ModuleType) -> None:
    source = ROOT / "src" / "polytask"
    everything = tool.all_mutants(source)
    assert len(everything) > 4000
    assert {mutant.file.partition("/")[0] for mutant in everything} == {"algos", "nets", "grads"}
    for mutant in random.Random(0).sample(everything, 100):
        text = (source / mutant.file).read_text()
        assert mutant.apply(text) != text
        compile(mutant.apply(text), mutant.file, "exec")


def test_every_equivalent_mutant_exists(tool: ModuleType) -> None:
    everything = {(each.file, each.before, each.after) for each in tool.all_mutants(ROOT / "src" / "polytask")}
    listed = tool.read_equivalent()
    assert [place for place in listed if place not in everything] == []
    assert all(listed.values())


@needs_fork
def test_counts_what_tests_notice(tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "copy" / "tiny"
    package.mkdir(parents=True)
    (package / "sums.py").write_text(TINY)
    (tmp_path / "test_all.py").write_text(TESTS)
    listed = tmp_path / "equivalent.toml"
    listed.write_text('["sums.py"]\nchanges = [["return a - b", "return (a + b)", "nobody subtracts"]]\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tool, "copied_package", lambda: given(package))
    monkeypatch.setattr(tool, "read_equivalent", lambda read=tool.read_equivalent: read(listed))
    sample = {mutant.after: mutant for mutant in tool.mutants("sums.py", TINY)}
    # One test adds, the only test of `count` has an even number, and no test calls `unused`.
    names = ["return (a - b)", "return (a + b)", "n -= 2", "return (a or 1)"]

    verdicts = tool.run_sample([sample[name] for name in names], ["test_all.py"])

    outcomes = ["killed", "equivalent", "survived", "survived"]
    assert [verdict.outcome for verdict in verdicts] == outcomes
    assert [verdict.by for verdict in verdicts] == ["test_all.py::test_add", "nobody subtracts", "", ""]
    assert [verdict.tests for verdict in verdicts] == [1, 0, 1, 3]  # of the function; for `unused` of the module
    assert (package / "sums.py").read_text() == TINY
    counts = {"killed": 1, "survived": 2, "equivalent": 1, "share": 0.6667}
    assert tool.report(verdicts) == counts
    tool.write_results(tmp_path / "out.json", {"command": "x", **counts}, verdicts)
    written = json.loads((tmp_path / "out.json").read_text())
    assert written["share"] == 0.6667
    assert [each["verdict"] for each in written["mutants"]] == outcomes
    assert written["mutants"][0]["function"] == "add"


@needs_fork
def test_tests_that_cannot_run_are_no_verdict(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "copy" / "tiny"
    package.mkdir(parents=True)
    (package / "sums.py").write_text(TINY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tool, "copied_package", lambda: given(package))
    with pytest.raises(SystemExit, match=r"pytest could not run the tests without a change \(status 4\)"):
        tool.run_sample(tool.mutants("sums.py", TINY), ["no_such_file.py"])


@needs_fork
def test_a_change_without_end_is_killed(tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "copy" / "tiny"
    package.mkdir(parents=True)
    (package / "sums.py").write_text(TINY)
    (tmp_path / "test_all.py").write_text(TESTS)
    monkeypatch.chdir(tmp_path)
    calls = tool.Calls(package)
    calls.tests["sums.py:9"], calls.seconds["test_all.py::test_count"] = {"test_all.py::test_count"}, 0.1
    (endless,) = (mutant for mutant in tool.mutants("sums.py", TINY) if mutant.after == "pass")
    monkeypatch.setattr(tool, "SPARE", 1.0)
    verdict = tool.judge(package, endless, calls)
    assert (verdict.outcome, verdict.by) == ("killed", "the tests do not end")


@contextmanager
def given(package: Path) -> Iterator[Path]:
    """Stand in for the copy of the package."""
    yield package


@pytest.mark.parametrize(("most", "status"), [("0.5", 0), ("0.4", 1)])
def test_too_many_survivors_fail(
    tool: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    most: str,
    status: int,
) -> None:
    verdict = ["survived", "killed"]
    drawn: list[list[object]] = []

    def run_sample(sample: list[object], tests: list[str]) -> list[object]:
        drawn.append(sample)
        return [tool.Verdict(each, outcome, "", 1, 0.0) for each, outcome in zip(sample, verdict, strict=True)]

    monkeypatch.setattr(tool, "prepare", lambda: None)
    monkeypatch.setattr(tool, "run_sample", run_sample)
    out = tmp_path / "out.json"
    monkeypatch.setattr(sys, "argv", ["x", "--seed", "5", "--count", "2", "--most", most, "--out", str(out)])
    for _ in range(2):
        with pytest.raises(SystemExit) as stop:
            tool.main()
        assert stop.value.code == status
    assert drawn[0] == drawn[1]  # the seed gives the sample
    survivor: Any = drawn[0][0]
    listed = f"1 survivors that equivalent_mutants.toml does not explain:\n{survivor.file}:{survivor.line} "
    assert listed in capsys.readouterr().out
    head = json.loads(out.read_text())
    assert head["command"] == "python tools/random_mutations.py --seed 5 --count 2"
    assert head["population"] > 4000 and {"device", "commit"} <= set(head)
