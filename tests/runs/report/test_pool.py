"""Pooling the runs of a setting."""

import json

import numpy as np
import pytest
from helpers.report_runs import evaluation, row, write_run

from polytask.errors import UserError
from polytask.runs.report.pool import _score, measure_titles, payload, pool_runs
from polytask.runs.report.read import read_run
from polytask.runs.report.remarks import remarks
from polytask.statistics import run_interval, wilson

EPISODES = "one seed, or equal seeds: the interval is over episodes, and says nothing about other seeds"


@pytest.fixture
def make(tmp_path):
    """Write runs, and return their pools."""

    def write(*runs):
        folders = [
            write_run(tmp_path / str(number), *run.pop("words", ()), **run)
            for number, run in enumerate(map(dict, runs))
        ]
        return pool_runs([read_run(folder) for folder in folders])

    return write


def rates(reach, push):
    return {"reach": reach, "push": push}


def run(seed, reach, push, **more):
    return {"seed": seed, "rows": [row(2, rates(reach, push))], **more}


def test_seeds_are_averaged_and_whole_runs_give_the_interval(make):
    (one,) = make(run(1, 0.5, 0.9), run(0, 0.1, 0.5))
    score = one.scores["training"]
    assert [log.seed for log in one.logs] == [0, 1]
    assert score.value == pytest.approx(0.5)
    assert score.interval == pytest.approx(run_interval(np.array([[0.1, 0.5], [0.5, 0.9]]), bounds=(0.0, 1.0)))
    assert (score.runs, score.is_over_runs) == (2, True)
    assert remarks([one]) == []
    assert one.tasks["training"]["push"].value == pytest.approx(0.7)
    assert one.episode_return()[0] == pytest.approx(5.0)


def test_one_seed_has_an_interval_over_its_episodes(make):
    (one,) = make(run(0, 0.4, 0.6, evaluation=evaluation(rates(1.0, 1.0), episodes=25)))
    score = one.scores["noiseless"]
    assert (score.runs, score.is_over_runs) == (1, False)
    assert score.interval == pytest.approx(wilson(1.0, 50))
    assert one.tasks["noiseless"]["reach"].interval == pytest.approx(wilson(1.0, 25))


def test_seeds_that_agree_have_an_interval_over_their_episodes(make):
    (one,) = make(*(run(seed, 0, 0, evaluation=evaluation(rates(1.0, 1.0), 20)) for seed in range(3)))
    assert one.scores["noiseless"].interval == pytest.approx(wilson(1.0, 3 * 20 * 2))
    assert not one.scores["noiseless"].is_over_runs


def test_the_rounding_of_equal_seeds_is_no_difference_between_them(make):
    (one,) = make(*(run(seed, 0.1, 0.1) for seed in range(3)))
    assert not one.scores["training"].is_over_runs


def test_training_success_counts_no_more_episodes_than_the_run_can_have_had(make):
    short = {"rows": [row(2, rates(1.0, 1.0), length=50.0)]}  # 2000 frames of two tasks: twenty episodes of each
    (one,) = make(short)
    assert one.scores["training"].interval == pytest.approx(wilson(1.0, 40))


def test_noiseless_and_training_success_are_not_mixed(make):
    (one,) = make(run(0, 0.0, 0.0, evaluation=evaluation(rates(1.0, 1.0))), run(1, 0.2, 0.2))
    assert one.scores["noiseless"].value == 1.0
    assert (one.scores["noiseless"].runs, one.scores["training"].runs) == (1, 2)
    assert one.scores["training"].value == pytest.approx(0.1)
    assert remarks([one]) == [
        EPISODES,
        f"reach+push ppo mlp: '{one.logs[1].directory}' is missing from the noiseless success: it was not evaluated",
    ]


def test_a_run_without_episodes_of_a_task_is_missing_and_not_zero(make):
    (one,) = make(run(0, 0.8, 0.6), run(1, 0.8, None), run(2, None, None))
    assert one.scores["training"].value == pytest.approx(0.7)
    assert one.scores["training"].runs == 1
    assert one.tasks["training"]["reach"].value == pytest.approx(0.8)
    assert one.tasks["training"]["reach"].runs == 2
    assert [line.rpartition(": ")[2] for line in remarks([one])[1:]] == [
        "no episode of push ended",
        "no episode ended",
    ]


def test_a_mean_over_terrains_is_without_flat_ground_as_in_an_evaluation(make):
    words = ("tasks=[box-climb,a-frame,flat]",)
    three = {"box-climb": 0.2, "a-frame": 0.4, "flat": 1.0}
    first = {"words": words, "rows": [row(2, three)], "evaluation": evaluation(three)}
    (one,) = make(first, {"words": words, "seed": 1, "rows": [row(2, {**three, "flat": None})]})
    assert one.scores["noiseless"].value == one.scores["training"].value == pytest.approx(0.3)
    assert (one.scores["training"].runs, one.missing["training"]) == (2, [])
    assert one.tasks["noiseless"]["flat"].value == 1.0
    assert one.episode_return()[0] == pytest.approx(3.0)


def test_no_run_with_episodes_is_no_score(make):
    (one,) = make(run(0, None, None))
    assert one.scores == {}
    assert payload(one)["tasks"] == {"reach": {}, "push": {}}


def test_one_seed_twice_is_refused(make):
    with pytest.raises(
        UserError, match=r"'.*/0' and '.*/1' are the same setting with the same seed, 3; report only one"
    ):
        make(run(3, 0.1, 0.1), run(3, 0.2, 0.2))


def test_runs_of_different_settings_are_not_pooled(make):
    words = ((), ("algo.lr=1e-4",), ("net.hidden=[9]",), ("goals=fixed",))
    assert len(make(*(run(0, 0.1, 0.1, words=each) for each in words))) == 4


def test_seeds_that_began_before_and_after_their_sweep_moved_are_of_one_setting(tmp_path):
    later = {"config": {"init_from": "{output}/00-first/seed-{seed}"}}
    index = {"settings": {"01-later": later, "02-other": {"config": {}}}}
    (tmp_path / "index.json").write_text(json.dumps(index))

    def folder(name, seed, start):
        return write_run(tmp_path / name / f"seed-{seed}", f"init_from={start}", seed=seed)

    runs = [folder("01-later", seed, f"{place}/00-first/seed-{seed}") for seed, place in enumerate(("/old", "new"))]
    assert {read_run(run).config["init_from"] for run in runs} == {
        f"{tmp_path}/00-first/seed-0", f"{tmp_path}/00-first/seed-1",
    }  # fmt: skip
    others = [folder("02-other", 0, "/old/00-first/seed-0"), folder("03-unknown", 0, "/else/00-first/seed-0")]
    pools = pool_runs([read_run(run) for run in (*runs, *others)])
    assert [[log.seed for log in one.logs] for one in pools] == [[0, 1], [0], [0]]


@pytest.mark.parametrize("limit", ["max_frames", "max_iterations", "max_minutes"])
def test_runs_that_were_meant_to_be_shorter_are_no_seeds_of_the_longer_ones(make, limit):
    long, short = make(
        run(0, 0.1, 0.1, words=(f"{limit}=500",)),
        run(1, 0.3, 0.3, words=(f"{limit}=50",)),
        run(2, 0.3, 0.3, words=(f"{limit}=500",)),
    )
    assert [[log.seed for log in one.logs] for one in (long, short)] == [[0, 2], [1]]
    value = "{:.1f}" if limit == "max_minutes" else "{}"
    assert [one.name for one in (long, short)] == [f"{limit}={value.format(number)}" for number in (500, 50)]


def test_runs_of_different_length_are_remarked(make):
    (one,) = make(run(0, 0.1, 0.1), {"seed": 1, "rows": [row(5, rates(0.1, 0.1))]})
    assert remarks([one]) == [EPISODES, "reach+push ppo mlp: its runs have 2,000 to 5,000 frames"]


def test_runs_that_are_not_complete_are_named(make):
    (one,) = make(run(0, 0.1, 0.1, complete=False), run(1, 0.1, 0.1), run(2, 0.1, 0.1, complete=None))
    first, _, last = (log.directory for log in one.logs)
    line = f"reach+push ppo mlp: not complete: '{first}' (2,000 frames), '{last}' (2,000 frames)"
    assert remarks([one]) == [EPISODES, line]


def test_settings_of_different_length_are_remarked(make):
    pools = make(
        run(0, 0.1, 0.1),
        run(0, 0.1, 0.1, words=("net=moore",)),
        {"words": ("net=bro",), "rows": [row(50, rates(0.1, 0.1))]},
    )
    assert remarks(pools)[1:] == [
        "the settings have different numbers of frames: 0.002 M frames: mlp, moore; 0.05 M frames: bro"
    ]
    assert remarks(pools[:2]) == [EPISODES]


def test_runs_that_shared_a_device_are_remarked_since_their_minutes_are_more(make):
    sharing = {"runs_on_device": 4}
    pools = make(
        run(0, 0.1, 0.1, **sharing),
        run(1, 0.1, 0.1, runs_on_device=2),
        run(0, 0.1, 0.1, words=("net=moore",), runs_on_device=1),
        run(0, 0.1, 0.1, words=("net=bro",)),
    )
    assert remarks(pools)[1:] == [
        "minutes cannot be compared, because runs shared a device; "
        "runs on a device, at most: 4: mlp; 1: moore; not known: bro"
    ]
    line = "up to 4 runs shared a device, so minutes are more than those of a run alone"
    assert remarks(pools[:1])[1:] == [line]
    assert remarks(pools[1:]) == [EPISODES]


def test_fixed_goals_are_evaluated_on_the_goals_of_training_and_on_new_ones(make):
    fixed = {"words": ("goals=fixed",)}
    both = {"evaluation": evaluation(rates(1.0, 0.5)), "evaluation_new_goals": evaluation(rates(0.0, 0.5))}
    (one,) = make(run(0, 0.1, 0.1, **fixed, **both))
    assert (one.scores["noiseless"].value, one.scores["new_goals"].value) == (0.75, 0.25)
    assert measure_titles([one]) == {
        "noiseless": "noiseless success, goals of training",
        "new_goals": "noiseless success on new goals",
        "training": "training success",
    }


def test_the_only_evaluation_of_an_old_run_with_fixed_goals_was_on_new_goals(make):
    (one,) = make(run(0, 0.1, 0.1, words=("goals=fixed",), evaluation=evaluation(rates(1.0, 0.5))))
    assert "noiseless" not in one.scores
    assert one.scores["new_goals"].value == 0.75


def test_titles_say_so_if_only_some_goals_are_fixed(make):
    found = {"evaluation": evaluation(rates(1.0, 0.5)), "evaluation_new_goals": evaluation(rates(0.0, 0.5))}
    pools = make(run(0, 0, 0, words=("goals=fixed",), **found), run(0, 0, 0, evaluation=found["evaluation"]))
    assert measure_titles(pools)["noiseless"] == "noiseless success, goals as in training"


@pytest.mark.parametrize(("runs", "expected"), [(2, 0.77), (3, 0.66), (5, 0.83), (10, 0.95)])
def test_few_seeds_do_not_hold_the_truth_where_one_of_ten_tasks_is_found_or_not(runs, expected):
    # The figures of docs/report.md: nine tasks at 0.99, and one that a run finds with probability 0.7.
    draw, truth, held = np.random.default_rng(6), (9 * 0.99 + 0.7) / 10, []
    for _ in range(1000):
        found = np.column_stack([np.full((runs, 9), 0.99), draw.random(runs) < 0.7])
        low, high = _score(draw.binomial(20, found) / 20, 20).interval
        held.append(low <= truth <= high)
    assert np.mean(held) == pytest.approx(expected, abs=0.04)
