"""Published results beside ours."""

import pytest
from helpers.report_runs import evaluation, row, write_run

from polytask.config.presets import presets
from polytask.envs.suites import SUITES
from polytask.result import cell
from polytask.runs.report.pool import pool_runs
from polytask.runs.report.published import beside, find_published, published, published_numbers, sources
from polytask.runs.report.read import read_run

PRESET = "mtbench/mt10_rand/ppo_mh_moore"


def test_every_published_result_belongs_to_a_preset_and_has_a_source():
    found = published()
    assert {each.preset for each in found} <= presets().keys()
    assert len({(each.preset, each.words) for each in found}) == len(found) == 112
    assert {each.name for each in found if each.measure == "noiseless"} == {
        "FastTD3+SimbaV2, MT10",
        "FastTD3+SimbaV2, MT50",
    }
    assert {each.measure for each in found} == {"noiseless", "training"}
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
    # Of two tables with the same number, the one that does not repeat it names the row.
    (vanilla,) = [each for each in published() if each.preset == "mtbench/mt10_rand/ppo_vanilla"]
    assert (vanilla.name, vanilla.table) == ("Vanilla", "PPO with multi-task methods, MT10, random goals")
    (reach,) = [each for each in published() if each.words == ("tasks=[reach]",)]
    assert (reach.success, reach.table) == (0.907, "PPO on each task of MT50 alone")


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
    assert (line["measure"], line["success"], line["published success"], line["published interval"]) == (
        "training", 0.5, 0.869, "0.839 to 0.890",
    )  # fmt: skip
    assert (cell(line["success"]), cell(line["published success"])) == ("0.500", "0.869")
    assert line["95 % interval"].startswith("0.4") and len(line["95 % interval"].partition(" to ")[0]) == len("0.469")
    assert (line["M frames"], line["its M frames"], line["its return"]) == (0.002, 1000.0, 1045)
    assert (line["hours"], line["return"]) == (pytest.approx(2 / 60), pytest.approx(5.0))
    assert "its hours" not in columns  # the source has none for this row
    assert len(sources(found)) == 1
    assert published_numbers(found).splitlines()[1] == (
        f"{ours.name},{PRESET},MH-MOORE,training,0.869,0.839,0.89,1045,10,1000000000,"
    )
    assert changed.name not in found


def test_a_result_without_noise_is_beside_ours_without_noise(tmp_path):
    words = ("preset=mtbench/mt10_rand/fast_td3_simba_v2", "suite=mt10")
    rates = dict.fromkeys(SUITES["mt10"], 0.5)
    for name, more in (("both", {"evaluation": evaluation(dict.fromkeys(rates, 0.75))}), ("training", {})):
        (one,) = pool_runs([read_run(write_run(tmp_path / name, *words, rows=[row(2, rates)], **more))])
        found = find_published([one])
        columns, rows = beside([one], found)
        line = dict(zip(columns, rows[0], strict=True))
        assert (line["measure"], line["published success"]) == ("noiseless", 0.85)
        assert line.get("success") == (0.75 if more else None)  # and not 0.5, which is that of training
        assert "without exploration noise" in sources(found)[0]


def test_a_run_on_a_single_task_gets_what_was_published_of_this_task(tmp_path):
    words = ("preset=mtbench/single_task/ppo", "device=cpu", "sim=cpu", "max_frames=5")
    for task in ("reach", "assembly"):
        write_run(tmp_path / task, *words, f"tasks=[{task}]", rows=[row(2, {task: 0.5})])
    write_run(tmp_path / "both", *words, "tasks=[reach,assembly]", rows=[row(2, {"reach": 0.5, "assembly": 0.5})])
    pools = pool_runs([read_run(tmp_path / name) for name in ("reach", "assembly", "both")])
    found = find_published(pools)
    assert {name: one.success for name, one in found.items()} == {"reach": 0.907, "assembly": 0.029}
