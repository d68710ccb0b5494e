"""Published results beside ours."""

import pytest
from helpers.report_runs import row, write_run

from polytask.config.presets import presets
from polytask.envs.suites import SUITES
from polytask.runs.report.pool import pool_runs
from polytask.runs.report.published import beside, find_published, published, published_numbers, sources
from polytask.runs.report.read import read_run

PRESET = "mtbench/mt10_rand/ppo_mh_moore"


def test_every_published_result_belongs_to_a_preset_and_has_a_source():
    found = published()
    assert {each.preset for each in found} <= presets().keys()
    assert len({each.preset for each in found}) == len(found) == 62
    for each in found:
        assert 0.0 <= each.success <= 1.0
        assert each.interval is None or each.interval[0] <= each.success <= each.interval[1]
        assert "thesis" in each.source
        assert each.about.endswith(".")


def test_known_figures():
    (moore,) = [each for each in published() if each.preset == "mtbench/mt50_rand/ppo_mh_moore"]
    assert (moore.name, moore.success, moore.interval, moore.episode_return) == (
        "MH-MOORE",
        0.795,
        (0.774, 0.822),
        1020,
    )
    assert (moore.seeds, moore.frames) == (10, 10**9)


@pytest.fixture(scope="module")
def pools(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    rates = dict.fromkeys(SUITES["mt10"], 0.5)
    for name, words in (("ours", ["max_frames=5", "device=cpu", "sim=cpu"]), ("changed", ["algo.lr=1e-4"])):
        write_run(folder / name, f"preset={PRESET}", "suite=mt10", *words, rows=[row(2, rates)])
    return pool_runs([read_run(folder / name) for name in ("ours", "changed")])


def test_a_run_with_the_settings_of_a_preset_gets_its_published_result(pools):
    found = find_published(pools)
    ours, changed = pools
    assert found.keys() == {ours.name}
    assert found[ours.name].preset == PRESET
    columns, rows = beside(pools, found)
    line = dict(zip(columns, rows[0], strict=True))
    assert (line["setting"], line["published as"]) == (ours.name, "MH-MOORE")
    assert (line["training success"], line["published success"], line["published interval"]) == (
        0.5, 0.869, "0.84 to 0.89",
    )  # fmt: skip
    assert (line["M frames"], line["its M frames"], line["its return"]) == (0.002, 1000.0, 1045)
    assert "its hours" not in columns  # the source has none for this row
    assert len(sources(found)) == 1
    assert published_numbers(found).splitlines()[1] == (
        f"{ours.name},{PRESET},MH-MOORE,0.869,0.839,0.89,1045,10,1000000000,"
    )
    assert changed.name not in found
