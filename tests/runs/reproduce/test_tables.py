"""The published tables as data: their rows can be trained, and their numbers are those of their sources."""

import json
from dataclasses import fields, replace
from pathlib import Path

import pytest
import yaml

from polytask.config.groups import GROUPS
from polytask.config.launching import ReproduceConfig
from polytask.envs.suites import SUITES
from polytask.errors import UserError
from polytask.runs.reproduce.command import choose, setting_of
from polytask.runs.reproduce.estimate import estimate, sources
from polytask.runs.reproduce.tables import (
    FOLDER,
    SPEEDS,
    PublishedTable,
    Row,
    Speed,
    names,
    read_table,
    source_texts,
    stages,
)
from polytask.runs.sweep.grid import check_different

RESULTS = Path(__file__).parents[3] / "benchmarks" / "results"


@pytest.mark.parametrize("name", names())
def test_every_row_is_a_setting_of_its_own_with_the_frames_of_its_preset(name):
    table, config = read_table(name), ReproduceConfig()
    keys = [row.key for row in table.rows]
    assert len({row.name for row in table.rows}) == len(keys)
    rows = table.rows if name != "mtbench/single_task" else table.rows[:2]  # they differ only in the task
    settings = [setting_of(row, config, dict.fromkeys(keys, "start")) for row in rows]
    check_different(settings)
    assert [one.config.max_frames for one in settings] == [row.frames for row in rows]
    assert sorted(row.key for stage in stages(table.rows) for row in stage) == sorted(keys)  # each can start
    for row, one in zip(rows, settings, strict=True):
        assert (
            row.success is None
            or (row.suite == one.config.suite and one.config.tasks is None)
            or (row.suite is None and f"tasks=[{','.join(one.config.tasks)}]" in row.words)
        ), row.key
    assert all(row.success is None or 0.0 <= row.success <= 1.0 for row in table.rows)
    assert table.paper is not None or not any(row.success for row in table.rows)
    for row in table.rows:
        assert row.interval is None or row.interval[0] <= row.success <= row.interval[1], row.name


def test_no_key_of_a_file_is_misspelt():
    rows = {"name", "preset", "words", "frames", "after", "success", "interval", "hours", "return", "speed", "measure"}
    rows |= {"like", "share", "suite", "same_as"}
    for path in FOLDER.rglob("*.yaml"):
        content = yaml.safe_load(path.read_text())
        assert content.keys() <= {
            "title",
            "kind",
            "source",
            "paper",
            "measure",
            "suite",
            "like",
            "seeds",
            "frames",
            "words",
            "baseline",
            "rows",
        }, path
        assert content.get("baseline") in {None, *content["rows"]}, path
        assert content["kind"] in ("table", "figure")
        for row in content["rows"].values():
            measure = row.get("measure", content.get("measure"))
            assert measure in (("training", "noiseless") if "success" in row else (None, "training", "noiseless")), path
        assert all(row.keys() <= rows for row in content["rows"].values()), path
        assert not any({"speed", "like"} <= row.keys() or row.keys() & {"like", "share"} == {"share"}
                       for row in content["rows"].values()), path  # fmt: skip


def test_the_table_of_single_tasks_has_all_fifty():
    table = read_table("mtbench/single_task")
    assert sorted(row.words for row in table.rows) == sorted((f"tasks=[{task}]",) for task in SUITES["mt50"])
    known = [row.success for row in table.rows]
    assert sum(known) / len(known) == pytest.approx(0.753, abs=5e-4)  # the mean that the source gives


@pytest.mark.parametrize(
    ("table", "row", "key", "value"),
    [
        ("mtbench/grpo", "mt10_dr", "standardize", False),
        ("mtbench/grpo", "mt10_vanilla", "standardize", True),
        ("mtbench/fast_td3", "mt10_simba_v2_mean", "twin", "mean"),
        ("mtbench/fast_td3", "mt50_simba_v2", "twin", "min"),
    ],
)
def test_rows_of_variants_train_them(table, row, key, value):
    (found,) = [one for one in read_table(table).rows if one.key == row]
    assert getattr(setting_of(found, ReproduceConfig(), {}).config.algo, key) == value


def test_the_table_of_ten_tasks_has_the_methods_of_the_source():
    table = read_table("mtbench/mt10_rand")
    assert {row.name: row.success for row in table.rows if row.success} == {
        "Vanilla": 0.875,
        "Multihead": 0.852,
        "PCGrad": 0.862,
        "CAGrad": 0.830,
        "FAMO": 0.873,
        "PaCo": 0.844,
        "SH-MOORE": 0.846,
        "MH-MOORE": 0.869,
        "SH-CARE": 0.815,
        "MH-CARE": 0.848,
        "Soft-Modularization": 0.830,
    }
    assert [row.name for row in table.rows if row.success is None] == ["SimbaV2"]


def test_speeds_are_those_of_the_files_they_name():
    for name, one in yaml.safe_load(SPEEDS.read_text()).items():
        found = json.loads((RESULTS / one["source"]).read_text())
        for key in one.get("inside", []):
            found = found[key]
        assert one["frames_per_second"] == pytest.approx(found["frames"] / found["seconds"], rel=2e-3), name


def test_speeds_agree_with_the_newest_benchmarks():
    cases = json.loads((RESULTS / "h200_speeds.json").read_text())["tasks"]
    known = yaml.safe_load(SPEEDS.read_text())
    for name, case in {"mt10_sac": "mt10_sac", "mt10_fast_td3_simba_v2": "mt10_fast_td3"}.items():
        assert (known[name]["source"], known[name]["inside"]) == ("h200_speeds.json", ["tasks", case])
    for name, case in {
        "mt10_ppo_mlp": "mt10_mlp",
        "mt10_ppo_mh_moore": "mt10_moore",
        "mt50_ppo_simba_v2": "mt50_simba_v2",
    }.items():  # a whole run is slower than its start; if it is much slower, it is one of old code
        start = cases[case]["frames"] / cases[case]["seconds"]
        assert 0.4 < known[name]["frames_per_second"] / start < 1.0, name


def test_every_published_number_is_written_once_and_so_is_every_source():
    known = [row for name in names() for row in read_table(name).rows if row.success is not None]
    own = {(row.preset, row.words): row for row in known if not row.is_repeated}
    repeated = [row for row in known if row.is_repeated]
    assert (len(own), len(repeated)) == (112, len(known) - 112) == (112, 4)
    for row in repeated:
        original = own[row.preset, row.words]
        assert replace(row, key=original.key, name=original.name, is_repeated=False) == original
    for text in source_texts().values():
        assert not any(text[:30] in path.read_text() for path in FOLDER.rglob("*.yaml"))


def test_fast_td3_was_measured_without_noise_and_the_others_in_training():
    measures = {name: {row.measure for row in read_table(name).rows if row.success is not None} for name in names()}
    assert measures.pop("mtbench/fast_td3") == {"noiseless"}
    algorithms = {row.key: row.measure for row in read_table("mtbench/algorithms").rows if row.success is not None}
    assert algorithms == {"ppo": "training", "grpo": "training", "fast_td3": "noiseless"}
    assert measures["mtbench/mt10_rand"] == {"training"}


def test_rows_are_chosen_by_patterns_with_the_rows_they_start_from():
    table = read_table("parkour/hard")
    assert [row.key for row in choose(table, ["famo", "moore"])] == ["vanilla_flat", "moore_flat", "moore", "famo"]
    assert len(choose(table, None)) == 15
    with pytest.raises(UserError, match="unknown row 'moor' of table 'parkour/hard'; did you mean 'moore'"):
        choose(table, ["moor"])
    with pytest.raises(UserError, match="unknown table 'mtbench/mt10'; did you mean 'mtbench/mt10_rand'"):
        read_table("mtbench/mt10")


def test_rows_are_ordered_by_how_many_rows_they_start_from():
    after = {"hard": "easy", "easy": "flat", "flat": None, "other": None, "also_easy": "flat", "last": "hard"}
    rows = [Row(key, key, "", (), 1, after=start) for key, start in after.items()]
    found = [[row.key for row in stage] for stage in stages(rows)]
    assert found == [["flat", "other"], ["easy", "also_easy"], ["hard"], ["last"]]
    assert stages([]) == []
    for wrong in ({"a": "b", "b": "a"}, {"a": "b"}):
        with pytest.raises(ValueError, match="rows start from each other or from none of the table"):
            stages([Row(key, key, "", (), 1, after=start) for key, start in wrong.items()])
    table = PublishedTable("", "", "table", "", None, None, tuple(rows))
    assert [row.key for row in choose(table, ["last"])] == ["hard", "easy", "flat", "last"]
    assert [row.key for row in choose(table, ["easy", "hard"])] == ["hard", "easy", "flat"]


def test_an_estimate_counts_what_was_measured_and_says_what_was_not():
    fast, slow = Speed(1000.0, "a.json"), Speed(100.0, "b.json")
    rows = [Row(str(number), "", "", (), 3_600_000, speed=speed) for number, speed in enumerate((fast, slow, None))]
    whole = estimate(rows[:2], seeds=2, budget=0.5)
    assert whole.seconds == 3600 + 36000
    assert whole.text == "11.0 h"
    assert estimate(rows, seeds=1, budget=0.1).text == "at least 1.1 h (2 of 3 rows measured)"
    assert estimate(rows[:1], seeds=1, budget=0.5).text == "30 min"
    assert estimate(rows[2:], seeds=1, budget=1.0).text == "not measured"
    assert len(sources([whole])) == 1
    assert sources([whole])[0].endswith("a.json (1 k frames/s), b.json (0 k frames/s)")
    assert sources([estimate(rows[2:], 1, 1.0)]) == []


def test_an_estimate_of_seconds_is_no_zero_minutes_and_one_from_shared_devices_is_about():
    alone, shared = Speed(1000.0, "a.json"), Speed(1000.0, "", is_shared=True)
    rows = [Row(str(number), "", "", (), 3_600_000, speed=speed) for number, speed in enumerate((alone, shared, None))]
    assert estimate(rows[:1], seeds=1, budget=0.5).text == "30 min"
    assert estimate(rows[:2], seeds=1, budget=0.5).text == "about 1.0 h"
    assert estimate(rows[:1], seeds=1, budget=59 / 3600).text == "less than a minute"
    assert estimate(rows[:1], seeds=1, budget=60 / 3600).text == "1 min"
    assert estimate(rows[1:], seeds=1, budget=0.001).text == "less than a minute (1 of 2 rows measured)"


def test_rows_like_a_measured_one_make_an_estimate_one_that_is_about():
    own, alike = Speed(1000.0, "a.json"), Speed(1000.0, "a.json", share=0.5, is_alike=True)
    rows = [Row(str(number), "", "", (), 3_600_000, speed=speed) for number, speed in enumerate((own, alike, None))]
    both = estimate(rows[:2], seeds=1, budget=1.0)
    assert (both.seconds, both.measured, both.alike, both.text) == (3600 + 7200, 1, 1, "about 3.0 h")
    assert estimate(rows, seeds=1, budget=1.0).text == "at least about 3.0 h (for 2 of 3 rows, 1 measured)"
    first, second = sources([both])
    assert first.count("a.json (1 k frames/s)") == 1
    assert second.startswith("about: rows that were not measured count with the speed of a similar run")


def test_a_row_is_measured_or_like_a_measured_one_or_neither():
    speeds = {row.key: row.speed for row in read_table("mtbench/mt10_rand").rows}
    assert (speeds["vanilla"].is_alike, speeds["cagrad"].is_alike, speeds["paco"]) == (False, True, None)
    assert speeds["cagrad"].frames_per_second == speeds["vanilla"].frames_per_second
    shares = [row.speed.share for row in read_table("mtbench/sac_grid").rows]
    assert shares == [1.0] * 5 + [0.75] * 5 + [0.5] * 5 + [0.3] * 5
    assert all(row.speed.is_alike for row in read_table("mtbench/single_task").rows)
    sizes = {row.key: row.speed for row in read_table("mtbench/critic_scaling").rows}
    assert {key for key, speed in sizes.items() if speed is not None} == {
        "mlp_100k", "mlp_te_100k", "mlp_1m", "mlp_te_1m", "simba_v2_1m", "simba_v2_te_1m",
    }  # fmt: skip


def test_updates_of_sac_take_the_share_of_time_that_was_measured():
    update = json.loads((RESULTS / "h200_update_profile_after_sac.json").read_text())["update"]["ms"]
    measured = json.loads((RESULTS / "h200_speeds.json").read_text())["tasks"]["mt10_sac"]
    step = 1e3 * 4096 * measured["seconds"] / measured["frames"]  # ms, with four updates
    for row in read_table("mtbench/sac_grid").rows:
        updates = int(row.key.partition("_")[0].removeprefix("u"))
        assert row.speed.share == pytest.approx(step / (step + update * (updates - 4)), abs=0.005), row.key


def test_our_table_of_ten_tasks_has_all_five_algorithms():
    found = [setting_of(row, ReproduceConfig(), {}).config for row in read_table("metaworld/mt10").rows]
    assert {one.algo.name for one in found} == {"ppo", "grpo", "pqn", "sac", "fast_td3"}
    assert {(one.suite, one.reward) for one in found} == {("mt10", "dense")}


def test_our_table_of_fifty_tasks_adds_imitation_and_noise_that_swings_to_the_preset():
    rows = {row.key: row for row in read_table("metaworld/mt50").rows}
    assert rows["both"].words == rows["imitation"].words + rows["swing"].words
    found = {key: setting_of(row, ReproduceConfig(), {"preset": "x"}).config for key, row in rows.items()}
    assert {(one.suite, one.reward) for one in found.values()} == {("mt50", "dense")}
    late, both = found["both_late"].algo, found["both"].algo
    assert (late.imitation_coef, late.search_std, late.search_period) == (both.imitation_coef, both.search_std, 40)
    assert late.search_std_start == late.novelty_start == 0  # the easy tasks are solved


def test_a_budget_is_a_share_of_all_that_counts_frames_of_the_run():
    rows, start = {row.key: row for row in read_table("metaworld/mt50").rows}, {"preset": "x"}
    short = {key: setting_of(row, ReproduceConfig(budget=0.05), start).config for key, row in rows.items()}
    assert (short["preset"].max_frames, short["preset"].algo.novelty_start) == (14_000_000, 3_000_000)
    assert (short["swing"].algo.search_std_start, short["swing"].algo.novelty_start) == (3_000_000, 3_000_000)
    assert short["both_late"].algo.search_std_start == short["both_late"].algo.novelty_start == 0
    given = ReproduceConfig(budget=0.05, changes=["algo.novelty_start=7"])
    assert setting_of(rows["swing"], given, start).config.algo.novelty_start == 7


def test_settings_that_count_frames_of_the_run_say_so():
    for config in GROUPS["algo"].values():
        for each in fields(config):
            is_said = each.metadata.get("is_in_frames", False)
            assert is_said == each.metadata.get("about", "").startswith("frames of the run"), each.name


def test_additions_are_single_changes_on_hard_terrain_after_flat_ground_and_easy_terrain():
    rows = {row.key: row for row in read_table("parkour/additions").rows}
    plain = rows["plain"]
    hard = [row for row in rows.values() if row.preset == plain.preset]
    assert len(hard) == 11
    for row in hard:
        easy = rows[row.after]
        assert (easy.preset, rows[easy.after].preset) == ("parkour/vanilla_easy_tuned", "parkour/vanilla_flat_tuned")
        assert row.words[: len(plain.words)] == plain.words
        assert len({word.partition(".")[0] for word in row.words[len(plain.words) :]}) == (row is not plain)
    assert [row.key for row in hard if rows[row.after] is not rows["easy"]] == ["feet"]  # it has longer observations
    assert all("algo.target_kl=0.02" in row.words for row in rows.values())


@pytest.mark.parametrize("name", ["staged", "staged_cl"])
def test_easy_and_hard_terrain_of_the_staged_rows_have_the_frames_of_the_others(name):
    rows = {row.key: row for row in read_table("parkour/tuned").rows}
    last = rows[name]
    easy = rows[last.after]
    assert last.frames + easy.frames == rows["vanilla"].frames
    assert rows[easy.after].frames == rows["vanilla_flat"].frames
    changed = setting_of(easy, ReproduceConfig(), {easy.after: "x"}).config.algo
    assert (changed.max_std, changed.initial_std, changed.entropy_coef, changed.target_kl) == (0.25, 0.25, 0.0, 0.02)
