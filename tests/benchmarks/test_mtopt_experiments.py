"""The GPU experiments of MT-Opt run through at toy sizes, and their statistics are right."""

import argparse
import importlib
import json
import math
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from polytask.errors import UserError
from polytask.mtopt.roles import evaluator

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


@pytest.fixture
def load(monkeypatch):
    """Import a script as if it were run from its folder."""
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module


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
    module.conclude(report, {"skill/balanced": [row]}, ("place-any",), ["place-any"])
    said = capsys.readouterr().err
    assert "no lift is judged" in said and "mean 1.000" in said
    assert "skill_balanced_above" not in report.results
    log = module.Log([], [], [], ("place-any", "lift-red-thing"))
    arguments = argparse.Namespace(new_task="lift-red-thing", seeds=[0])
    assert module.relabel(arguments, report, None, log, ("place-any", "lift-red-thing")), "nothing is left of it"
    assert "does not judge lift-any" in capsys.readouterr().err and "relabelling" not in report.results


def test_sharing_takes_means_over_judged_tasks_only(load):
    module, rate = load("sharing"), load("experiment").rate
    row = {
        "lift-any": rate(torch.ones(4)),
        "lift-can": rate(torch.tensor([1.0, 0.0])),
        "lift-box": rate(torch.zeros(4)),
    }
    found = module.summary([row], ("lift-can",), ["lift-any", "lift-can"])
    assert (found["min"], found["mean"], found["max"]) == (0.5, 0.75, 1.0), "lift-box was refused: nothing learned it"
    assert found["judged"] == ["lift-any", "lift-can"] and set(found["tasks"]) == set(row)


class YesDetector:
    """Says yes to everything, as a new detector of two tasks."""

    taught, tasks = ("lift-any", "place-any"), ("lift-any", "place-any")

    def predict(self, frames, task):
        return torch.ones(len(frames))

    def predict_all(self, frames):
        return torch.ones(len(frames), 2)

    def index(self, task):
        return self.tasks.index(task)

    def threshold_of(self, task):
        return 0.5

    @property
    def used(self):
        return tuple(task for task in self.taught if task not in self.refused)


def test_a_detector_that_is_wrong_on_random_pictures_gives_no_reward(load, monkeypatch):
    labelled = load("labelled")
    detector, trained = YesDetector(), []
    monkeypatch.setattr(labelled, "train_on", lambda pool, tasks, chosen, *_: trained.append(chosen) or detector)
    is_place = torch.arange(400) % 2 == 1
    truth = torch.zeros(400, len(labelled.ALL_TASKS), dtype=torch.bool)
    truth[1::2, labelled.ALL_TASKS.index("place-any")] = True
    pool = labelled.Pool(torch.zeros(400, 1, 1, 1, 3), truth, is_place)
    arguments = argparse.Namespace(labels="person", least_precision=0.5, least_tested=4)
    found = labelled.fit_detector(pool, detector.tasks, 50, arguments, torch.Generator().manual_seed(0))
    assert list(detector.refused) == ["lift-any"] and found.viewed == {"lift-any": 50, "place-any": 50}
    assert labelled.kept_aside(50) == 4 and {len(rows) for rows in trained[-1]} == {46}, "some only measure"
    assert int((~found.is_new).sum()) == 100, "those that measure were seen, too"
    verdicts = labelled.verdicts(detector, pool.frames, detector.tasks)
    assert verdicts.dtype == torch.int8 and (verdicts[:, 0] == -1).all(), "no verdict, which is not a failure"
    assert (verdicts[:, 1] == 1).all()
    arguments.labels, measuring = "detector", []
    monkeypatch.setattr(labelled, "gate", lambda detector, pool, aside, *_: measuring.append(aside["place-any"]))
    labelled.fit_detector(pool, detector.tasks, 350, arguments, torch.Generator().manual_seed(0))
    assert len(measuring[0]) == 28 and not torch.isin(measuring[0], trained[-1][1]).any(), "nor do those train"
    monkeypatch.undo()
    arguments.labels, arguments.least_tested = "person", 5
    monkeypatch.setattr(labelled, "train_on", lambda *_: detector)
    with pytest.raises(UserError, match=r"no task has a reward.*4 random labels measure it, but at least 5 must"):
        labelled.fit_detector(pool, detector.tasks, 50, arguments, torch.Generator().manual_seed(0))


COVER = (
    "--tasks place-any --seeds 0 --size tiny --threads 1 --device cpu --new-episodes 8 --updates 4 --episodes 2 "
    "world.num_envs=4 world.image_size=16 world.outcome_size=16 learner.network.image_size=16 collector.episodes=8 "
    "collector.max_steps=2 labels.per_task=8 detector.updates=2 detector.batch=4 detector.least_precision=0 "
    "detector.least_tested=0 "
    "learner.bellman.cem.samples=8 learner.bellman.cem.elites=2 trainer.updates=4 trainer.batch=8 "
    "trainer.publish_every=2 trainer.buffer=64 updater.rows=16 replay.capacity=200"
)


@pytest.mark.slow
def test_a_new_task_is_learned_by_every_arm_beside_simple_policies_and_continues_after_a_stop(load, tmp_path):
    """A command without time does nothing more; the next one ends the study; a third has nothing to do."""
    pytest.importorskip("fastapi")  # the stand-in labels through the page
    main, out = load("cover_object").main, tmp_path / "result.json"

    def go(*flags):
        return main([*flags, "--out", str(out), "--work", str(tmp_path / "work"), *COVER.split()])

    assert not go("--seconds", "-1")["complete"]
    assert "rows" not in json.loads(out.read_text(encoding="utf-8"))
    found = go("--seconds", "600", "--arms", "scratch")
    rows = {row["arm"]: row for row in found["rows"]}
    assert (rows["before"]["updates"], rows["scratch"]["updates"]) == (0, 4)
    data = rows["before"]["data"]
    assert data["episodes"] == data["pictures_labelled"] == 8
    assert data["judged"] == data["taught"] == ["place-any", "cover-object"] and data["refused"] == {}
    found = go("--seconds", "600")
    assert found["complete"]
    assert [row["arm"] for row in found["rows"]] == ["before", "scratch", "continued", "joined"]
    assert found["rows"][1] == json.loads(json.dumps(load("experiment").clean(rows["scratch"]))), "not trained again"
    assert [row["updates"] for row in found["rows"]] == [0, 4, 4, 4], "the base's updates do not count"
    for row in found["rows"]:
        assert set(row["simple"]) == {"script", "close now", "open now", "end now", "random", "episodes"}
    assert found["rows"][1]["old"] == {} and set(found["rows"][3]["old"]) == {"place-any"}
    assert set(found["above_scratch"]) == {"continued", "joined"}
    before = out.read_text(encoding="utf-8")
    with pytest.raises(SystemExit):
        go("--seconds", "600", "--watched", "place-any")  # another study
    assert out.read_text(encoding="utf-8") == before, "the finished study is not lost"


def test_a_study_whose_detector_gives_no_reward_is_complete_and_asks_for_a_new_place(
    load, tmp_path, monkeypatch, capsys
):
    """Another call changes nothing, so "again until it is complete" must end."""
    module = load("cover_object")
    row = {"seed": 0, "arm": "before", "updates": 0, "data": {"is_rewarded": False}}
    monkeypatch.setattr(module.Study, "before", lambda self: row)
    monkeypatch.setattr(module.Study, "baselines", lambda self: {})
    monkeypatch.setattr(module, "summarize", lambda report: None)
    words = ["--out", str(tmp_path / "result.json"), "--work", str(tmp_path / "work"), *COVER.split()]
    for _ in range(2):
        found = module.main(words)
        assert found["without_reward"] == [0] and found["complete"]
        assert [row["arm"] for row in found["rows"]] == ["before"]
        assert "new --out and a new --work" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("arms", {"detectors": [{"seed": 0, "digest": "0123"}], "simple": [{"seed": 0}]}),
        ("cover_object", {"rows": [{"seed": 0, "arm": "before", "data": {"is_rewarded": True, "digest": "0123"}}]}),
    ],
)
def test_a_study_goes_on_only_where_the_run_is_that_its_rows_are_from(load, tmp_path, name, kept):
    """Runs on a GPU are too large to carry to the next machine, which would make other episodes from the same seed."""
    module, out = load(name), tmp_path / "result.json"
    words = ["--out", str(out), "--work", str(tmp_path / "work"), *(ARMS if name == "arms" else COVER).split()]
    module.main(["--seconds", "-1", *words])
    out.write_text(json.dumps(json.loads(out.read_text(encoding="utf-8")) | kept))
    with pytest.raises(SystemExit):
        module.main(words)
    found = json.loads(out.read_text(encoding="utf-8"))
    assert "seed 0 has finished rows from another run" in found["error"] and found["complete"] is False


def test_tiny_studies_have_settings_with_which_a_detector_can_pass_and_those_of_the_command_count(load, tmp_path):
    """The preset's 300 updates are shared by all tasks: with them, the gate refused cover-object."""
    least = {"cover_object": 1500, "arms": 3000}
    for name, updates in least.items():
        module = load(name)
        arguments = argparse.Namespace(words=[], updates=None, episodes=7, tasks=None, new_episodes=None)
        load("runs").fill_in(arguments, module.SIZES["tiny"])
        assert arguments.updates == module.SIZES["tiny"]["updates"] and arguments.episodes == 7
        config = load("runs").run_config(arguments, tmp_path, 0, "tiny", [])
        assert config.detector.updates == updates
        arguments.words = ["detector.updates=5"]
        load("runs").fill_in(arguments, module.SIZES["tiny"])
        assert load("runs").run_config(arguments, tmp_path, 0, "tiny", []).detector.updates == 5
    assert module.SIZES["gpu"]["words"] == ()


ARMS = (
    "--seeds 0 --size tiny --threads 1 --device cpu --tasks lift-any lift-sausage place-any --updates 4 --episodes 2 "
    "world.num_envs=4 world.image_size=16 world.outcome_size=16 learner.network.image_size=16 collector.episodes=16 "
    "collector.max_steps=2 labels.per_task=8 labels.passes=1 detector.updates=2 detector.batch=4 "
    "detector.least_precision=0 detector.least_tested=0 learner.bellman.cem.samples=8 learner.bellman.cem.elites=2 "
    "trainer.batch=8 trainer.publish_every=2 trainer.buffer=64 updater.rows=16 replay.capacity=200"
)


@pytest.mark.slow
def test_arms_learn_from_the_same_data_beside_simple_policies_and_continue_after_a_stop(load, tmp_path):
    pytest.importorskip("fastapi")  # the stand-in labels through the page
    module, out, work = load("arms"), tmp_path / "result.json", tmp_path / "work"

    def go(*flags):
        return module.main([*flags, "--out", str(out), "--work", str(work), *ARMS.split()])

    assert not go("--seconds", "-1")["complete"]
    found = go("--seconds", "600", "--arms", "twelve")
    base = work / "tiny-seed0" / "base"
    assert not (base / "learner.pt").exists() and (base / "index.sqlite").exists(), "the base learns nothing"
    assert [row["arm"] for row in found["rows"]] == ["twelve"]
    (simple,) = found["simple"]
    assert set(simple["tasks"]["place-any"]) == {"script", "close now", "open now", "end now", "random", "episodes"}
    found = go("--seconds", "600", "--arms", "twelve", "two", "sausage", "multi-head", "all-uniform")
    rows = {row["arm"]: row for row in found["rows"]}
    assert found["without_reward"] == [{"seed": 0, "arm": "sausage"}], "eight labels show no sausage in a hand"
    assert found["complete"], "there is nothing left that another call could do"
    (gate,) = found["detectors"]
    assert gate["judged"] == gate["taught"] and "lift-sausage" not in gate["taught"] and gate["refused"] == {}
    assert rows["twelve"]["judged"] == found["table"]["twelve"]["judged"] == gate["judged"]
    assert "lift-sausage" in rows["twelve"]["tasks"] and "lift-sausage" not in found["table"]["twelve"]
    assert {row["updates"] for row in found["rows"]} == {4} and len(found["simple"]) == 1
    assert list(rows["two"]["tasks"]) == ["lift-any", "place-any"]
    files = {name: work / "tiny-seed0" / name / "run.json" for name in rows}
    settings = {name: json.loads(file.read_text(encoding="utf-8"))["config"] for name, file in files.items()}
    assert settings["multi-head"]["learner"]["network"]["heads"] == "multi"
    assert settings["twelve"]["learner"]["network"]["heads"] == "single"
    shared = {name: (one["sharing"]["strategy"], one["replay"]["success_ratio"]) for name, one in settings.items()}
    assert (shared["all-uniform"], shared["twelve"]) == (("all", None), ("skill", 0.5))
    shards = [sorted((work / "tiny-seed0" / name / "shards").iterdir()) for name in ("base", "two")]
    assert [path.stat().st_ino for path in shards[0]] == [path.stat().st_ino for path in shards[1]], "links, not copies"
    assert set(found["twelve_above"]) == {"two", "multi-head", "all-uniform"}
    assert set(found["twelve_above"]["two"]["tasks"]) == {"place-any"}, "eight labels show no lift that trains"
    assert found["above_blind"]["two"]["place-any"]["policy"] != "script"


def test_arms_without_a_reward_stay_in_the_file_of_a_complete_study(load, tmp_path, monkeypatch, capsys):
    module = load("arms")
    gate = {"taught": ["lift-any", "place-any"], "refused": {"lift-any": "imprecise"}, "judged": ["place-any"]}
    simple = {task: {"end now": 0.0, "episodes": 2} for task in ("lift-any", "place-any", "lift-sausage")}
    monkeypatch.setattr(module.Study, "gate", lambda self: {"seed": self.seed, **gate})
    monkeypatch.setattr(module.Study, "simple", lambda self: {"seed": self.seed, "tasks": simple})
    trained = []
    row = {"tasks": {"lift-any": {"success": 0.0, "episodes": 2}, "place-any": {"success": 1.0, "episodes": 2}}}
    monkeypatch.setattr(
        module.Study,
        "arm",
        lambda self, name: (
            trained.append((self.seed, name)) or {"seed": self.seed, "arm": name, "judged": self.judged(name), **row}
        ),
    )

    def go(*seeds):
        words = ["--out", str(tmp_path / "result.json"), "--work", str(tmp_path / "work"), "--device", "cpu"]
        return module.main([*words, "--size", "tiny", "--arms", "two", "sausage", "--seeds", *seeds])

    assert go("0")["complete"] and "new --out and a new --work" in capsys.readouterr().err
    found = go("1")
    assert found["complete"] and found["without_reward"] == [{"seed": seed, "arm": "sausage"} for seed in (0, 1)]
    assert trained == [(0, "two"), (1, "two")]
    assert found["table"]["two"]["judged"] == ["place-any"] and found["table"]["two"]["mean"]["mean"] == 1.0
    assert [each["refused"] for each in found["detectors"]] == [{"lift-any": "imprecise"}] * 2
    assert go("0", "1")["without_reward"] == found["without_reward"], "nothing is named twice"


def arm_row(seed, judged="ab", **rates):
    """Return the row of an arm that learned the judged tasks and was evaluated on all."""
    tasks = {task: {"success": rate, "episodes": 100} for task, rate in rates.items()}
    return {"seed": seed, "judged": list(judged), "tasks": tasks}


def test_arms_are_compared_by_hand(load):
    module = load("arms")
    many, few = (
        [arm_row(0, a=0.8, b=0.6), arm_row(1, a=0.6, b=0.6)],
        [arm_row(0, a=0.3, b=0.6), arm_row(1, a=0.1, b=0.6)],
    )
    assert module.rates_of(many, ["a", "b"])[0] == {"mean": pytest.approx(0.7), "count": 200}
    found = module.compared(many, few)
    assert found["mean"]["difference"] == pytest.approx(0.25)
    assert found["tasks"]["a"]["low"] > 0 > found["tasks"]["b"]["low"]
    simple = [{"seed": 0, "tasks": {"a": {"script": 0.9, "end now": 0.1, "random": 0.2, "episodes": 100}}}]
    blind = module.above_blind([arm_row(0, a=0.5)], simple)
    assert blind["a"]["policy"] == "random" and blind["a"]["difference"] == pytest.approx(0.3)


def test_arms_are_compared_on_the_seeds_that_both_have(load):
    """Seeds differ: three seeds beside one showed a difference of 0.40 where the same seed shows none."""
    module = load("arms")
    first, other = [arm_row(seed, a=rate) for seed, rate in ((0, 0.2), (1, 0.8), (2, 0.8))], [arm_row(0, a=0.2)]
    found = module.compared(first, other)
    assert found["seeds"] == [0] and found["mean"]["difference"] == found["tasks"]["a"]["difference"] == 0.0
    simple = [{"seed": seed, "tasks": {"a": {"end now": 0.1 * seed, "episodes": 100}}} for seed in (0, 2)]
    above = module.above_blind(first, simple)["a"]["difference"]
    assert above == pytest.approx(0.5 - 0.1), "seed 1 has no simple policies yet"
    assert module.compared(first, [arm_row(7, a=0.2)]) is None
    assert module.above_blind([arm_row(7, a=0.2)], simple) == {}
    orders = load("runs").of_common_seeds(first, first[::-1])
    assert [[row["seed"] for row in rows] for rows in orders] == [[0, 1, 2]] * 2


def test_means_of_arms_leave_out_tasks_that_a_detector_did_not_judge(load):
    """Task c was refused in both seeds and b in one: nothing learned them there, so they are no result of an arm."""
    module = load("arms")
    rows = [arm_row(0, "ab", a=0.8, b=0.4, c=0.0), arm_row(1, "a", a=0.6, b=0.0, c=0.0)]
    found = module.table(rows)
    assert found["judged"] == ["a"] and found["mean"]["mean"] == pytest.approx(0.7) and "c" not in found
    assert (found["b"]["mean"], found["b"]["seeds"]) == (0.4, 1)
    other = [arm_row(0, "ab", a=0.5, b=0.4, c=0.9), arm_row(1, "a", a=0.5, b=0.9, c=0.9)]
    above = module.compared(rows, other)
    assert above["judged"] == ["a"] and above["mean"]["difference"] == pytest.approx(0.2)
    assert set(above["tasks"]) == {"a", "b"} and above["tasks"]["b"]["difference"] == 0.0
    simple = [{"seed": 0, "tasks": {task: {"end now": 0.0, "episodes": 100} for task in "abc"}}]
    assert set(module.above_blind(rows, simple)) == {"a", "b"}
    nothing = module.table([arm_row(0, "a", a=0.8, b=0.4), arm_row(1, "b", a=0.8, b=0.4)])
    assert nothing["mean"] is None and nothing["judged"] == []


def test_scripts_of_a_study_are_not_played_with_one_action_as_well(load, monkeypatch, tmp_path):
    """No study shows that."""
    runs, asked = load("runs"), []
    run_episodes = evaluator.run_episodes
    monkeypatch.setattr(evaluator, "run_episodes", lambda *given: asked.append(given[1:4:2]) or run_episodes(*given))
    arguments = argparse.Namespace(episodes=2, words=[*ARMS.split()[ARMS.split().index("world.num_envs=4") :]])
    config = runs.run_config(arguments, tmp_path, 0, "tiny", ["evaluator.simple=true"])
    found = runs.evaluation(config, ["place-any"], is_scripted=True)
    assert found["place-any"]["simple"] and asked and {steps for _, steps in asked} == {2}


def test_a_new_task_is_compared_with_scratch_on_the_seeds_that_both_have(load):
    module = load("cover_object")
    rows = [{"seed": seed, "arm": "scratch", "success": rate, "episodes": 100} for seed, rate in ((0, 0.2), (1, 0.8))]
    rows.append({"seed": 1, "arm": "joined", "success": 0.8, "episodes": 100})
    report = load("experiment").Report("test", argparse.Namespace(seconds=1, out=None, device="cpu"))
    report.results |= {"rows": rows, "baselines": {"end now": 0.1, "episodes": 100}}
    module.summarize(report)
    assert list(report.results["above_scratch"]) == ["joined"]
    assert report.results["above_scratch"]["joined"]["difference"] == 0.0


DRAWER = (
    "--device cpu --limits 1 10 --episodes 2 world.num_envs=4 world.image_size=16 world.outcome_size=16 "
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


def test_labels_are_half_successes_and_many_near_misses(load):
    labelled = load("labelled")
    truth = torch.zeros(400, len(labelled.ALL_TASKS), dtype=torch.bool)
    any_lift, banana = labelled.ALL_TASKS.index("lift-any"), labelled.ALL_TASKS.index("lift-banana")
    truth[:100, any_lift] = True
    truth[:30, banana] = True
    is_place = torch.arange(400) >= 300
    pool = labelled.Pool(torch.zeros(400, 1, 1, 1, 3, dtype=torch.uint8), truth, is_place)
    rows = labelled.choose(pool, "lift-banana", 40, torch.Generator().manual_seed(0))
    assert len(rows.unique()) == 40 and int((rows < 30).sum()) == 20
    assert int(((rows >= 30) & (rows < 100)).sum()) >= 10 and int((rows >= 300).sum()) == 4
    many = labelled.choose(pool, "lift-banana", 200, torch.Generator().manual_seed(0))
    assert int((many < 30).sum()) == 30 and len(many.unique()) == 200  # all there are, then more failures


class GuessingDetector:
    """Finds higher rows more likely to be lifts; does not know the place task."""

    taught = ("lift-any",)

    def predict_all(self, frames):
        return torch.linspace(0.0, 1.0, len(frames)).unsqueeze(-1)

    def index(self, task):
        return 0


def test_a_person_labels_what_the_page_shows_without_knowing_the_truth(load, monkeypatch):
    labelled = load("labelled")
    monkeypatch.setattr(labelled, "train_on", lambda *_: GuessingDetector())
    is_place = torch.arange(400) % 2 == 1
    choices = []
    for truth in (torch.zeros, torch.ones):
        pool = labelled.Pool(torch.zeros(400, 1, 1, 1, 3), truth(400, len(labelled.ALL_TASKS)).bool(), is_place)
        tasks = ("lift-any", "place-any")
        choices.append(labelled.view(pool, tasks, 50, None, torch.Generator().manual_seed(0)))
    lift, place = choices[0]
    assert all(torch.equal(first, second) for first, second in zip(*choices, strict=True)), "the truth does not matter"
    assert len(lift.unique()) == len(place.unique()) == 50 and (lift % 2 == 0).all() and (place % 2 == 1).all()
    random, likely, uncertain = lift.split([20, 15, 15])
    left = torch.tensor([row for row in range(0, 400, 2) if row not in random])
    assert_close(likely.sort().values, left[-15:])
    rest = left[:-15]
    assert_close(uncertain.sort().values, rest[(rest / 399 - 0.5).abs().argsort()[:15]].sort().values)
    assert len(place[20:].unique()) == 30 and place[20:].float().std() > 80, "more random ones, not the last rows"


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
