"""The GPU experiments of MT-Opt run through at toy sizes, and their statistics are right."""

import argparse
import json
import math
from pathlib import Path

import pytest
import torch

FOLDER = Path(__file__).parents[2] / "benchmarks" / "mtopt"

TINY = {
    "speed": "--counts 2 --collect-seconds 0 --repeats 1 --max-steps 1 --batches 2 --train-seconds 0 --networks small",
    "one_step": "--worlds 8 --samples 8 --held-out 8 --updates 2 --batch 8 --rounds 1 --act-seconds 0 --cem-rounds 1",
    "full_mdp": "--worlds 16 --episodes 16 --detector-outcomes 16 --labels detector --labels-per-task 8 "
    "--detector-updates 1 --least-precision 0 --least-tested 0 --max-steps 2 --rounds 1 --round-batches 1 --updates 1 "
    "--round-updates 1 --batch 4 --cem-samples 8 --capacity 200 --assisted --flat --bound --conservatism 0.1",
    "detector": "--worlds 4 --outcomes 16 --test-outcomes 8 --frames 8 --rounds new:8 likely:1,uncertain:1 "
    "--detector-updates 1",
    "sharing": "--worlds 12 --episodes 24 --labels truth --updates 1 --fine-tuning 1 --batch 13 --seeds 0 "
    "--strategies skill --cem-samples 8 --cem-rounds 1",
    "scale": "--episodes 600",
}
FOUND = {
    "speed": ("collection", "training"),
    "one_step": ("scripted", "auc", "acting_located", "acting_added"),
    "full_mdp": ("detector", "buffers", "curve", "collected", "simple"),
    "detector": ("store", "rounds"),
    "sharing": ("own_data", "table", "relabelling", "simple"),
    "scale": ("ingest", "judge", "grade", "status", "page", "replay", "prune", "workers", "check", "rebuild"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", TINY)
def test_runs_through(name, load, tmp_path, capsys):
    out = tmp_path / "result.json"
    sizes = "--seconds 60 --device cpu --sim cpu --outcome-size 64"
    results = load(name).main([*sizes.split(), *TINY[name].split(), "--out", str(out)])
    assert results["finished"] and all(results[key] for key in FOUND[name])
    written = json.loads(out.read_text(encoding="utf-8"))
    assert written["name"] == name and json.loads(capsys.readouterr().out) == written


PERSON = (
    "--seconds 200 --device cpu --sim cpu --outcome-size 64 --worlds 12 --episodes 24 --labels person "
    "--labels-per-task 10 --least-precision 0 --least-tested 0 --detector-updates 1 --detector-batch 4 "
    "--detector-outcomes 24 --updates 1 --fine-tuning 1 --batch 13 --strategies skill --cem-samples 8 --cem-rounds 1"
)


@pytest.mark.slow
def test_sharing_with_labels_of_a_person_continues_where_it_ended(load, tmp_path):
    main, out = load("sharing").main, tmp_path / "result.json"
    first = main([*PERSON.split(), "--seeds", "0", "--out", str(out)])
    assert set(first["pictures_viewed"].values()) == {10}, "each labelled picture was looked at"
    policies = {"close now", "open now", "end now", "random", "script"}
    assert all(set(row) == policies for row in first["simple"].values()) and len(first["simple"]) == 13
    assert first["best_blind"]["place-any"]["mean"] >= first["simple"]["place-any"]["close now"]["mean"]
    assert all(row["policy"] != "script" for row in first["best_blind"].values())
    detector = (tmp_path / "result_detector.pt").read_bytes()
    short = [*PERSON.split(), "--seeds", "0", "1", "--cell-seconds", "1000", "--out", str(out)]
    assert not main([*short, "--seconds", "199"])["complete"], "there is time for neither a setting nor relabelling"
    then = main([*PERSON.split(), "--seeds", "0", "1", "--out", str(out)])
    assert (tmp_path / "result_detector.pt").read_bytes() == detector, "both seeds have the rewards of one detector"
    kept = ("detector", "pictures_viewed", "refused", "taught", "judged")
    assert all(then[key] == load("experiment").clean(first[key]) for key in kept)
    assert first["complete"] and then["complete"] and set(first["judged"]) == set(first["taught"])
    assert [(cell["setting"], cell["seed"]) for cell in then["cells"]] == [
        (f"skill/{mix}", seed) for seed in (0, 1) for mix in ("uniform", "balanced")
    ]
    assert then["cells"][:2] == load("experiment").clean(first["cells"]), "not trained again"
    assert then["table"]["skill/balanced"]["tasks"]["lift-any"]["seeds"] == 2
    assert [row["seed"] for row in then["relabelling"]] == [0, 1]


def test_a_study_goes_on_with_the_same_episodes_only(load):
    started = argparse.Namespace(results={"collected": {"episodes": 24}})
    load("shared_log").require_equal(started, 24)
    with pytest.raises(ValueError, match="12 episodes were collected, 24 before"):
        load("shared_log").require_equal(started, 12)


def test_a_study_goes_on_with_the_same_detector_only(load, tmp_path):
    arguments, started = argparse.Namespace(out=tmp_path / "a.json"), argparse.Namespace(results={"detector": {}})
    with pytest.raises(ValueError, match=r"a_detector\.pt', which gave the finished rows their rewards, is gone"):
        load("shared_log").taught(arguments, started, (), [], None)


@pytest.mark.parametrize("name", ["sharing", "full_mdp"])
def test_too_few_labels_to_test_a_task_are_refused_before_anything_is_collected(name, load, tmp_path, capsys):
    """Of 200 labels 16 are kept aside, so a detector would be trained twice and then refused for every task."""
    out = tmp_path / "result.json"
    flags = ["--device", "cpu", "--out", str(out)]
    with pytest.raises(SystemExit):
        load(name).main([*flags, "--labels-per-task", "200"])
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "keeps 16" in said and "--labels-per-task 244 or more" in said
    assert not out.exists(), "a study that is there already is not overwritten"


def test_enough_labels_and_labels_by_truth_are_not_refused(load):
    labelled = load("labelled")
    flags = argparse.ArgumentParser()
    labelled.detector_flags(flags)
    labelled.labels_flag(flags)
    assert labelled.kept_aside(244) == 20 > labelled.kept_aside(243)
    for words in (
        "--labels-per-task 244",
        "--labels-per-task 10 --labels truth",
        "--labels-per-task 10 --least-tested 1",
    ):
        labelled.require_tested(flags.parse_args(words.split()), flags)
    for words in ("--labels-per-task 243", "--labels-per-task 243 --labels detector"):
        with pytest.raises(SystemExit):
            labelled.require_tested(flags.parse_args(words.split()), flags)


def test_sharing_without_a_rewarded_lift_compares_what_is_left_and_does_not_relabel(load, capsys):
    """A detector may judge places alone: then there is no rarest lift and no lift to learn the new task from."""
    module, experiment = load("sharing"), load("experiment")
    report = experiment.Report("test", argparse.Namespace(seconds=1, out=None, device="cpu"))
    row = {"place-any": experiment.rate(torch.ones(4)), "lift-any": experiment.rate(torch.zeros(4))}
    module.conclude(report, {"skill/balanced": [{"seed": 0, "tasks": row}]}, ("place-any",), ["place-any"])
    said = capsys.readouterr().err
    assert "no lift is judged" in said and "mean 1.000" in said
    assert "skill_balanced_above" not in report.results
    log = module.Log([], [], [], ("place-any", "lift-red-thing"))
    arguments = argparse.Namespace(new_task="lift-red-thing", seeds=[0])
    assert module.relabel(arguments, report, None, log, ("place-any", "lift-red-thing")), "nothing is left of it"
    assert "does not judge lift-any" in capsys.readouterr().err and "relabelling" not in report.results


def test_settings_of_sharing_are_compared_on_the_seeds_that_both_have(load):
    """A stop leaves settings with fewer seeds, and seeds differ."""
    module, experiment = load("sharing"), load("experiment")
    report = experiment.Report("test", argparse.Namespace(seconds=1, out=None, device="cpu"))
    rates = {"skill/balanced": (0.2, 0.8), "orig/uniform": (0.2,)}
    cells = [
        {"setting": setting, "seed": seed, "lift-can": rate, "counts": {"lift-can": 100}}
        for setting, each in rates.items()
        for seed, rate in enumerate(each)
    ]
    cells.append({"setting": "all/uniform", "seed": 7, "lift-can": 0.1, "counts": {"lift-can": 100}})
    report.results["cells"] = cells
    module.conclude(report, module.finished(report)[0], ("lift-can",), ["lift-can"])
    above = report.results["skill_balanced_above"]
    assert set(above) == {"task", "orig/uniform"}, "no seed of all/uniform is one of the paper's setting"
    assert above["orig/uniform"]["difference"] == 0.0


def test_sharing_takes_means_over_judged_tasks_only(load):
    module, rate = load("sharing"), load("experiment").rate
    row = {
        "lift-any": rate(torch.ones(4)),
        "lift-can": rate(torch.tensor([1.0, 0.0])),
        "lift-box": rate(torch.zeros(4)),
    }
    found = module.summary([{"seed": 0, "tasks": row}], ("lift-can",), ["lift-any", "lift-can"])
    assert (found["min"], found["mean"], found["max"]) == (0.5, 0.75, 1.0), "lift-box was refused: nothing learned it"
    assert found["judged"] == ["lift-any", "lift-can"] and set(found["tasks"]) == set(row)


DRAWER = (
    "--limits 1 10 --episodes 2 world.num_envs=4 world.image_size=16 world.outcome_size=16 "
    "learner.network.image_size=16 collector.episodes=16 labels.per_task=24 detector.updates=2 detector.batch=4 "
    "detector.least_precision=0 detector.least_tested=0 "
    "learner.bellman.cem.samples=8 learner.bellman.cem.elites=2 trainer.updates=4 "
    "trainer.batch=8 trainer.publish_every=4 trainer.buffer=64 updater.rows=16 replay.capacity=200 "
    "collector.round_episodes=4 trainer.round_updates=2"
)


@pytest.mark.slow
def test_the_drawer_is_evaluated_with_fewer_and_fewer_actions(load, tmp_path):
    pytest.importorskip("fastapi")  # the stand-in labels through the page
    out = tmp_path / "result.json"
    words = ["--seeds", "0", "--out", str(out), "--work", str(tmp_path / "work"), *DRAWER.split()]
    found = load("drawer").main(words)
    rows = [(row["round"], row["limit"]) for row in found["rows"]]
    assert found["complete"] and rows == [(0, 1), (0, 10), (1, 1), (1, 10)]
    assert all(row["length"] == 1.0 for row in found["rows"][0]["tasks"].values())
    updates = json.loads((tmp_path / "work" / "seed0" / "run.json").read_text(encoding="utf-8"))["controller"][
        "updates"
    ]
    assert updates == 6, "four, then two of the round"
    assert set(found["baselines"]["drawer-close"]) == {"episodes", "script", "end now", "random"}
    assert set(found["table_round_1"]["drawer-close"]) == {1, 10}
    assert found["gaps_round_1"]["drawer-open"]["above_blind"]["policy"] in ("end now", "random")
    again = load("drawer").main(words)
    assert len(again["rows"]) == 4, "nothing was left to do"


@pytest.mark.slow
def test_a_seed_decides_everything(load):
    def rates():
        results = load("one_step").main(["--seconds", "60", *TINY["one_step"].split(), "--outcome-size", "64"])
        return [row["loss"] for row in results["auc"]], results["acting_located"], results["scripted"]

    assert rates() == rates()


def test_an_error_is_reported_with_what_was_found(load, tmp_path):
    experiment = load("experiment")
    arguments = experiment.parser("", 10, 1).parse_args(["--out", str(tmp_path / "r.json")])

    def body(arguments, report):
        report.put("first", 1.0)
        raise ValueError("broken")

    with pytest.raises(SystemExit):
        experiment.run("test", arguments, body)
    written = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))
    assert written["first"] == 1.0 and not written["finished"] and "broken" in written["error"]
    assert not list(tmp_path.glob("*.part"))


def test_a_study_goes_on_in_a_copy_that_does_not_know_its_commit(load, tmp_path, monkeypatch):
    experiment = load("experiment")
    arguments = experiment.parser("", 10, 1).parse_args(["--out", str(tmp_path / "r.json")])
    for commit in ("abc", None):
        monkeypatch.setattr(experiment, "provenance", lambda _, commit=commit: {"commit": commit})
        report = experiment.Report("test", arguments)
        report.resume(("first",))
        report.put("first", 1.0)
    assert report.results["commits"] == ["abc"]


def test_area_under_the_curve_by_hand(load):
    auc = load("experiment").auc
    truth = torch.tensor([True, False, True, False])
    assert auc(torch.tensor([0.9, 0.1, 0.4, 0.6]), truth) == 0.75  # three of the four pairs are in order
    assert auc(torch.zeros(4), truth) == 0.5
    assert math.isnan(auc(torch.zeros(2), torch.ones(2)))


def test_intervals_shrink_with_the_number_of_episodes(load):
    rate = load("experiment").rate
    few, many = (rate(torch.arange(count) % 4 == 0) for count in (40, 4000))
    assert few["mean"] == many["mean"] == 0.25
    assert few["low"] < many["low"] < 0.25 < many["high"] < few["high"]
    assert many["high"] - many["low"] == pytest.approx(4 * math.sqrt(0.25 * 0.75 / 4000), rel=0.1)  # four deviations


def test_pooled_seeds_that_differ_widen_the_interval(load):
    pooled = load("experiment").pooled
    alike = pooled([{"mean": 0.5, "count": 1000}] * 3)
    apart = pooled([{"mean": mean, "count": 1000} for mean in (0.2, 0.5, 0.8)])
    assert alike["mean"] == pytest.approx(apart["mean"]) == 0.5
    assert apart["high"] - apart["low"] > 3 * (alike["high"] - alike["low"])


def test_a_clear_difference_lies_outside_its_interval(load):
    contrast = load("experiment").contrast
    low, high = ([{"mean": mean, "count": 500}] * 3 for mean in (0.1, 0.3))
    found = contrast(high, low)
    assert found["difference"] == pytest.approx(0.2) and 0.1 < found["low"] < 0.2 < found["high"] < 0.3
    assert contrast(low, low)["low"] < 0 < contrast(low, low)["high"]


def test_the_page_of_scale_has_the_table_of_its_result(load):
    root = FOLDER.parents[1]
    results = json.loads((root / "benchmarks/results/cpu_mtopt_scale.json").read_text(encoding="utf-8"))
    page = (root / "docs/mtopt_scale.md").read_text(encoding="utf-8")
    assert load("scale").table(results) in page
    assert f"`{results['commit'][:7]}`" in page and f"{results['workers']['workers']} workers" in page
    assert results["finished"] and results["rebuild"]["is_equal"] and results["check"]["is_sound"]


def test_ten_million_lie_on_the_line_through_both_stores(load):
    def figures(episodes, seconds, memory):
        ingest = {"episodes": episodes, "shard_bytes_per_episode": 6000.0, "index_bytes_per_episode": 400.0}
        judge = {"index_bytes_per_episode": 1400.0}
        status = {"first_seconds": seconds, "own_seconds": 1.0, "peak_mb": memory}
        return {"ingest": ingest, "judge": judge, "status": status}

    found = load("scale").extrapolated(figures(1_000_000, 3.0, 300.0), figures(4_000_000, 9.0, 290.0))
    assert found["status/first_seconds"] == pytest.approx(21.0)
    assert found["status/peak_mb"] == 290.0, "it does not grow"
    assert "status/own_seconds" not in found
    assert (found["gb/shards"], found["gb/index_judge"]) == (60.0, 14.0)
