"""The page that compares presets with their sources is up to date, and every difference has a reason."""

from types import ModuleType

import pytest
from helpers.scripts import load_script


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return load_script("write_preset_differences")


def test_page_is_up_to_date(script: ModuleType) -> None:
    assert script.PAGE.read_text() == script.page(), "run python tools/write_preset_differences.py"


def test_a_setting_differs_exactly_where_there_is_a_reason(script: ModuleType) -> None:
    rows = script.read_rows()
    assert [(row.preset, row.key) for row in rows if row.is_equal == bool(row.why)] == []
    assert len(rows) == len({(row.preset, row.key) for row in rows})
    assert {row.preset.partition("/")[0] for row in rows} == {"mtbench", "parkour", "ptsl"}


def test_values_are_written_as_readers_expect(script: ModuleType) -> None:
    values = [1_000_000, 5e-4, float("inf"), [50, 50], True, "trunk"]
    assert [script.shown(value) for value in values] == ["1,000,000", "0.0005", "none", "50, 50", "true", "trunk"]
