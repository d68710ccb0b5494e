"""Write docs/presets_differences.md: presets beside their sources. Run python tools/write_preset_differences.py

The values of the sources are in tools/preset_sources.toml. Ours are read from the composed presets, so the page cannot
miss a change of a preset.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from polytask.config.compose import compose
from polytask.config.schema import TrainConfig

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "presets_differences.md"
SOURCES = Path(__file__).with_name("preset_sources.toml")
DEFAULTS = {"reward_scale": 1.0, "goals": "random", "episode_length": 150}  # what None means in manipulation

INTRODUCTION = """# Presets beside their sources

Written by `python tools/write_preset_differences.py`, not by hand; the test suite checks that it is up to date. The
sources are MTBench (code, configs and scripts of August 2025, and the thesis "Massively Parallelized Multi-Task RL")
and the code of PTSL. Where a source contradicts itself, both values are named. [Presets](presets.md) explains the
families.
"""


class Row(NamedTuple):
    """A setting of a preset: the source's value, where the source says so, our value, and why it differs."""

    preset: str
    key: str
    source: Any
    where: str
    ours: Any
    why: str

    @property
    def is_equal(self) -> bool:
        """Whether the preset has the value of the source."""
        return bool(self.source == self.ours)


def read_rows() -> list[Row]:
    """Read the settings of the sources and compose the presets."""
    rows = tomllib.loads(SOURCES.read_text())["settings"]
    return [Row(preset, key, source, where, ours(preset, key), why) for preset, key, source, where, why in rows]


@cache
def composed(preset: str) -> TrainConfig:
    """Return the settings of a preset."""
    return compose(TrainConfig, [f"preset={preset}"])


def ours(preset: str, key: str) -> Any:
    """Return the value that a preset gives a key."""
    value: Any = composed(preset)
    for name in key.split("."):
        value = getattr(value, name)
    return DEFAULTS.get(key) if value is None else value


def shown(value: Any) -> str:
    """Write a value for a table."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ", ".join(str(each) for each in value)
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return "none" if math.isinf(value) else f"{value:g}"
    return str(value)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def page() -> str:
    """Return the text of the page."""
    rows = read_rows()
    facts = tomllib.loads(SOURCES.read_text())["facts"]
    different = [
        [f"`{row.preset}`", f"`{row.key}`", f"{shown(row.source)} ({row.where})", shown(row.ours), row.why]
        for row in rows
        if not row.is_equal
    ]
    others = [[f"`{preset}`", what, f"{source} ({where})", own] for preset, what, source, where, own in facts]
    equal = [[f"`{row.preset}`", f"`{row.key}`", shown(row.ours), row.where] for row in rows if row.is_equal]
    return "\n".join([
        INTRODUCTION,
        "## Settings that differ\n",
        table(["preset", "setting", "source", "ours", "why"], different),
        "## Other differences\n",
        "What no setting changes. Pages of [networks](nets/index.md) and algorithms list more of their own.\n",
        table(["presets", "what", "source", "ours"], others),
        "## Settings that were compared and are equal\n",
        table(["preset", "setting", "value", "where"], equal),
    ])  # fmt: skip


if __name__ == "__main__":
    PAGE.write_text(page())
