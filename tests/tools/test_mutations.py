"""The list of wrong lines fits the code, and the tool tells survivors from changes that tests notice."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest
from helpers.scripts import ROOT, load_script


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    return load_script("mutations")


def test_every_change_fits_its_file_and_has_tests(tool: ModuleType) -> None:
    mutations = tool.read_mutations()
    assert len(mutations) == len({(each.file, each.old, each.new) for each in mutations}) > 100
    for each in mutations:
        text = (ROOT / "src" / "polytask" / each.file).read_text()
        changed = each.apply(text)
        assert changed != text
        compile(changed, each.file, "exec")
        assert all((ROOT / test).is_file() for test in each.tests), each


def test_a_piece_that_does_not_occur_once_is_refused(tool: ModuleType) -> None:
    with pytest.raises(SystemExit, match=r"a\.py: 'x' occurs 2 times"):
        tool.Mutation("a.py", "", "x", "y", ()).apply("x + x")


def test_words_and_parts_choose_changes(tool: ModuleType) -> None:
    mutations = [tool.Mutation(f"{name}.py", "wrong sign", "", "", ()) for name in "abcd"]
    assert tool.chosen(mutations, [], "1/1") == mutations
    assert [each.file for each in tool.chosen(mutations, ["a.py", "d.py"], "1/1")] == ["a.py", "d.py"]
    parts = [tool.chosen(mutations, ["sign"], f"{part}/3") for part in (1, 2, 3)]
    assert sorted(each for part in parts for each in part) == mutations


def test_a_change_that_no_test_notices_survives(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    package = tmp_path / "src" / "polytask"
    package.mkdir(parents=True)
    (package / "sums.py").write_text("def add(a, b):\n    return a + b\n\n\ndef sub(a, b):\n    return a - b\n")
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    monkeypatch.setattr(tool, "run_tests", lambda folder, tests, seconds: outcome(folder / "sums.py"))
    noticed = tool.Mutation("sums.py", "adds wrongly", "a + b", "a * b", ("test_sums.py",))
    missed = tool.Mutation("sums.py", "subtracts wrongly", "a - b", "b - a", ("test_sums.py",))
    assert tool.survivors([noticed, missed], 60) == [missed]
    assert "adds wrongly: noticed" in capsys.readouterr().out


def outcome(path: Path) -> int:
    """Return the status of the only test on a copy of the module: whether it adds rightly."""
    names: dict[str, object] = {}
    exec(path.read_text(), names)
    return 0 if names["add"](1, 2) == 3 else 1  # type: ignore[operator]


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork")
def test_tests_run_in_a_fork_and_give_their_status(tool: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "test_good.py").write_text("def test_good():\n    assert True\n")
    (tmp_path / "test_bad.py").write_text("def test_bad():\n    assert False\n")
    (tmp_path / "test_slow.py").write_text("import time\n\n\ndef test_slow():\n    time.sleep(60)\n")
    found = [tool.run_tests(tmp_path, [f"{tmp_path}/test_{name}.py"], 20) for name in ("good", "bad")]
    assert found == [0, 1]
    assert tool.run_tests(tmp_path, [f"{tmp_path}/test_slow.py"], 0.5) is None
