"""The raw files that README and docs link to say how their numbers were measured."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
KEYS = {  # what must be said, and the keys that say it, at any depth
    "command": {"command", "commands"},
    "commit": {"commit", "commits", "old_commit", "new_commit"},
    "device": {"device", "devices", "hardware", "machine"},
}
OLDER = {  # files of earlier versions, and what they do not say; a note in each says why
    "h200_batches.json": {"command"},
    "h200_mt50_step_variants.json": {"command"},
    "metaworld_eval_mt50_correlated.json": {"device"},
    "metaworld_eval_mt50_policy.json": {"device"},
    "metaworld_eval_mt50_policy_floor.json": {"device"},
    "metaworld_eval_mt50_search.json": {"device"},
    "metaworld_eval_mt50_shaped.json": {"device"},
    "metaworld_eval_push_back.json": {"commit", "device"},
    "metaworld_eval_stick_push.json": {"commit", "device"},
}


def linked() -> list[str]:
    """Return the raw files that a page links to, as paths in the folder of results."""
    pages = [ROOT / "README.md", *ROOT.glob("docs/**/*.md")]
    return sorted(
        {name for page in pages for name in re.findall(r"benchmarks/results/([\w./-]+\.json)", page.read_text())}
    )


def entries(content: Any) -> Iterator[tuple[str, Any]]:
    """Return all keys of a JSON file with their values, however deep."""
    if isinstance(content, dict):
        yield from content.items()
    for inner in content.values() if isinstance(content, dict) else content if isinstance(content, list) else ():
        yield from entries(inner)


@pytest.mark.parametrize("name", linked())
def test_a_linked_raw_file_names_command_commit_and_device(name: str) -> None:
    content = json.loads((RESULTS / name).read_text(encoding="utf-8"))
    said = {key for key, value in entries(content) if value}
    missing = {what for what, keys in KEYS.items() if not said & keys}
    assert missing == OLDER.get(name, set())
    assert not missing or content["note"]


def test_the_older_files_are_still_linked() -> None:
    assert set(OLDER) <= set(linked())
