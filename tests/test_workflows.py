"""The workflows of continuous integration load, and name files, targets, extras and jobs that exist."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tomllib
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from polytask.adapters import _ADAPTERS

ROOT = Path(__file__).parents[1]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
TARGETS = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
# Files of this repository. What a command makes itself is not one: `dist/*.whl`, `touch no-constraints.txt`.
FILE = re.compile(r"(?<![\w/-])(?:\.ci/|tests/|tools/|docker/)[\w./-]+|(?<![\w/-])constraints[\w-]*\.txt")


def jobs(path: Path) -> dict[str, dict[str, Any]]:
    return yaml.safe_load(path.read_text())["jobs"]


def steps(job: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the steps of a job, once for every combination of its matrix."""
    matrix = job.get("strategy", {}).get("matrix", {})
    found = []
    for values in product(*matrix.values()):
        text = json.dumps(job["steps"])
        for name, value in zip(matrix, values, strict=True):
            text = text.replace(f"${{{{ matrix.{name} }}}}", value)
        found += json.loads(text)
    return found


def test_there_are_workflows() -> None:
    assert [path.stem for path in WORKFLOWS] == ["ci", "nightly", "release"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_jobs_wait_for_jobs_that_exist(path: Path) -> None:
    needed = [job["needs"] for job in jobs(path).values() if "needs" in job]
    assert {name for names in needed for name in ([names] if isinstance(names, str) else names)} <= set(jobs(path))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_steps_name_what_exists(path: Path) -> None:
    for step in [step for job in jobs(path).values() for step in steps(job)]:
        assert ("run" in step) != ("uses" in step), step
        assert "matrix." not in json.dumps(step), "the matrix of a job has no such entry"
        assert re.fullmatch(r"[\w-]+/[\w-]+@[\w./]+", step.get("uses", "an/action@v1")), step
        command = step.get("run", "")
        for file in FILE.findall(f"{command} {json.dumps(step.get('with', {}))}"):
            assert (ROOT / file).exists(), step
            assert not file.startswith(".ci/") or os.access(ROOT / file, os.X_OK), step
        assert set(re.findall(r"\bmake ([\w-]+)", command)) <= set(TARGETS), step
        extras = {extra for words in re.findall(r"EXTRAS=(\S+)", command) for extra in words.split(",")}
        assert extras <= set(EXTRAS), step


def test_every_library_with_an_adapter_is_tested_nightly() -> None:
    adapters = jobs(ROOT / ".github" / "workflows" / "nightly.yml")["adapters"]
    assert set(adapters["strategy"]["matrix"]["library"]) == {extra for _, extra in _ADAPTERS.values()}


def test_every_image_is_published() -> None:
    images = jobs(ROOT / ".github" / "workflows" / "release.yml")["images"]
    files = {step["with"]["file"] for step in steps(images) if "file" in step.get("with", {})}
    assert files == {f"docker/{path.name}" for path in (ROOT / "docker").iterdir()}


def run_steps(job: str, folder: Path, tag: str) -> dict[str, str]:
    """Run the commands of a job of the release workflow as GitHub does, with a `gh` that only writes down its words."""
    (folder / "gh").write_text('#!/bin/sh\necho "$@" > gh.txt\n')
    (folder / "gh").chmod(0o755)
    for name in ("docs", "src"):
        (folder / name).symlink_to(ROOT / name)
    path = f"{folder}:{os.environ['PATH']}"
    settings = {"PATH": path, "GITHUB_REF_NAME": tag, "GITHUB_REPOSITORY": "polytask/polytask"}
    for step in steps(jobs(ROOT / ".github" / "workflows" / "release.yml")[job]):
        if "run" in step:
            subprocess.run(["bash", "-e", "-c", step["run"]], cwd=folder, env=settings, check=True)
    return {path.name: path.read_text() for path in folder.glob("*.*") if path.is_file()}


def test_the_notes_of_a_release_have_links_that_work_outside_of_the_repository(tmp_path: Path) -> None:
    made = run_steps("notes", tmp_path, "v0.2.0")
    assert made["gh.txt"] == "release create v0.2.0 --notes-file notes.md\n"
    written = (ROOT / "docs" / "release_notes_0.2.0.md").read_text()
    links, pages = (re.findall(r"\]\(([^)]+)\)", text) for text in (made["notes.md"], written))
    assert "../CHANGELOG.md" in pages
    assert links == [f"https://github.com/polytask/polytask/blob/v0.2.0/docs/{page}" for page in pages]


def test_a_release_without_notes_stops(tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        run_steps("notes", tmp_path, "v9.9.9")
    assert not (tmp_path / "gh.txt").exists()
