"""The docs site: its links, its generated pages, and the answers of the FAQ."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from helpers.scripts import load_script

from polytask.cli.commands import COMMANDS
from polytask.cli.main import main
from polytask.config.compose import names_of
from polytask.config.groups import GROUPS

ROOT = Path(__file__).parents[1]
REPOSITORY = "https://github.com/polytask/polytask"


def answers() -> list[tuple[str, str]]:
    """Return the commands of the FAQ, and the line that each prints."""
    return re.findall(r"^\$ polytask ?(.*)\n(.*)$", (ROOT / "docs/faq.md").read_text(), re.MULTILINE)


def texts() -> set[str]:
    """Return all texts in the source, joined as Python joins them."""
    trees = (ast.parse(path.read_text()) for path in (ROOT / "src").rglob("*.py"))
    return {node.value for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant)}


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    return load_script("write_reference")


def test_reference_is_up_to_date(reference: ModuleType) -> None:
    stale = [path.name for path, text in reference.pages().items() if path.read_text() != text]
    assert stale == [], "run python tools/write_reference.py"


def test_reference_has_every_key_of_every_command(reference: ModuleType) -> None:
    page = reference.commands_page()
    keys = {key for command in COMMANDS.values() for key in names_of(command.schema)}
    missing = {key for key in keys if f"| `{key}` |" not in page and f"| `{key}." not in page}
    assert missing == set()
    assert [name for name in COMMANDS if f"\n## polytask {name}\n" not in page] == []
    for group, entries in GROUPS.items():
        assert re.findall(r"^## (.*)$", reference.group_page(group), re.MULTILINE) == list(entries)


@pytest.mark.parametrize(
    ("kind", "facts", "expected"),
    [
        (int | None, {"at_least": 0, "at_most": 2**32 - 1}, "whole number, at least 0 and at most 2^32 - 1"),
        (list[float], {"above": 0.0}, "list: number, more than 0.0 each"),
        (list[str] | None, {"choices": ("a", "b")}, "list of `a`, `b`"),
        (str, {"is_path": True}, "path"),
        (bool, {}, "true or false"),
    ],
)
def test_valid_values_in_words(reference: ModuleType, kind: type, facts: dict, expected: str) -> None:
    assert reference.valid(kind, facts) == expected


@pytest.mark.parametrize(("words", "line"), answers(), ids=lambda text: text[:40])
def test_commands_of_the_faq_print_what_it_says(words, line, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(shlex.split(words)) == 2
    assert capsys.readouterr().err == f"{line}\n"
    assert list(tmp_path.iterdir()) == []


def test_other_messages_of_the_faq_are_those_of_the_source() -> None:
    blocks = re.findall(r"```text\n(.*?)```", (ROOT / "docs/faq.md").read_text(), re.DOTALL)
    lines = {line for block in blocks for line in block.splitlines()}
    assert len(lines) >= 6
    assert lines - texts() == set()


def test_links_lead_to_the_repository_or_to_a_page() -> None:
    link = load_script("site_links").site_link
    docs = ROOT / "docs"
    assert link("../CHANGELOG.md", docs, REPOSITORY) == f"{REPOSITORY}/blob/main/CHANGELOG.md"
    assert link("../benchmarks/results", docs, REPOSITORY) == f"{REPOSITORY}/tree/main/benchmarks/results"
    assert link("../../README.md", docs / "nets", REPOSITORY) == f"{REPOSITORY}/blob/main/README.md"
    assert link("../grads", docs / "algos", REPOSITORY) == "../grads/index.md"
    assert link("results.md", docs, REPOSITORY) == "results.md"


def test_pictures_are_loaded_when_they_are_seen() -> None:
    loaded = load_script("site_links").on_page_content
    assert (
        loaded('<p><img alt="reach" src="reach.webp"></p>')
        == '<p><img loading="lazy" alt="reach" src="reach.webp"></p>'
    )


def test_the_walk_has_every_command_of_its_script_and_names_no_machine() -> None:
    script, page = load_script("walkthrough"), (ROOT / "docs/walkthrough.md").read_text()
    wheel = re.search(r"polytask-[\w.]+-py3-none-any\.whl", page)
    assert wheel is not None
    for number, step in enumerate(script.STEPS, 1):
        assert f"## {number}. {step.title}\n\n{step.about}\n" in page
        for command in step.commands:
            assert f"$ {command.replace('{wheel}', wheel[0])}\n" in page
    assert re.findall(r"/(?:tmp|root|home|work|opt)/", page) == []
    assert f"\n\n{script.preparation()}\n## 1. " in page


def test_the_walk_says_what_it_was_made_with() -> None:
    script, page = load_script("walkthrough"), (ROOT / "docs/walkthrough.md").read_text()
    version = re.search(r"polytask-([\w.]+)-py3-none-any\.whl", page)
    made = re.search(r"commit (\w{7,}), (\d{4}-\d\d-\d\d), Python ([\d.]+), (\d+) CPU", page)
    assert version is not None
    assert made is not None
    assert script.introduction(version[1], *made.groups()) in page
    assert f"$ polytask --version\npolytask {version[1]}\n" in page


def test_the_preparations_of_the_walk_put_into_the_folder_what_its_commands_use(tmp_path: Path, monkeypatch) -> None:
    script = load_script("walkthrough")
    (tmp_path / "lerobot/bin").mkdir(parents=True)
    (tmp_path / "walk").mkdir()
    monkeypatch.setattr(script, "PREPARATIONS", ("touch polytask-1.0-py3-none-any.whl", *script.PREPARATIONS[1:]))
    wheel = script.prepare(tmp_path / "walk", tmp_path / "lerobot/bin/python")
    assert wheel == "polytask-1.0-py3-none-any.whl"
    assert {path.name for path in (tmp_path / "walk").iterdir()} == {
        *(wheel, "constraints.txt", "run_onnx.py", "plugin", "lerobot-env")
    }
    assert (tmp_path / "walk/plugin/pyproject.toml").is_file()
    assert (tmp_path / "walk/lerobot-env").resolve() == tmp_path / "lerobot"


@pytest.mark.slow
def test_site_builds_without_a_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "results/index.html").read_text()
    assert f'href="{REPOSITORY}/blob/main/benchmarks/results/h200_parkour_hard_tuned.json"' in page
    assert "register_task" in (tmp_path / "reference/python/index.html").read_text()
