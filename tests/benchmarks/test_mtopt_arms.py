"""Studies of MT-Opt whose arms learn from the same data: they run through at toy sizes, and compare by hand."""

import argparse
import json

import pytest

from polytask.mtopt.roles import evaluator

COVER = (
    "--tasks place-any --seeds 0 --size tiny --threads 1 --new-episodes 8 --updates 4 --episodes 2 "
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
    "--seeds 0 --size tiny --threads 1 --tasks lift-any lift-sausage place-any --updates 4 --episodes 2 "
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
        words = ["--out", str(tmp_path / "result.json"), "--work", str(tmp_path / "work")]
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
    blind = module.above_simple([arm_row(0, a=0.5)], simple)
    assert blind["a"]["policy"] == "random" and blind["a"]["difference"] == pytest.approx(0.3)


def test_arms_are_compared_on_the_seeds_that_both_have(load):
    """Seeds differ: three seeds beside one showed a difference of 0.40 where the same seed shows none."""
    module = load("arms")
    first, other = [arm_row(seed, a=rate) for seed, rate in ((0, 0.2), (1, 0.8), (2, 0.8))], [arm_row(0, a=0.2)]
    found = module.compared(first, other)
    assert found["seeds"] == [0] and found["mean"]["difference"] == found["tasks"]["a"]["difference"] == 0.0
    simple = [{"seed": seed, "tasks": {"a": {"end now": 0.1 * seed, "episodes": 100}}} for seed in (0, 2)]
    above = module.above_simple(first, simple)["a"]["difference"]
    assert above == pytest.approx(0.5 - 0.1), "seed 1 has no simple policies yet"
    assert module.compared(first, [arm_row(7, a=0.2)]) is None
    assert module.above_simple([arm_row(7, a=0.2)], simple) == {}
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
    assert set(module.above_simple(rows, simple)) == {"a", "b"}
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


@pytest.mark.parametrize("name", ["arms", "cover_object", "drawer"])
def test_a_study_is_of_the_device_that_its_runs_have(load, monkeypatch, tmp_path, capsys, name):
    module = load(name)
    words = ["--work", str(tmp_path / "work"), *(["--size", "tiny"] if name != "drawer" else [])]
    asked, wanted = [], "cuda:3"
    monkeypatch.setattr(load("runs"), "check_devices", asked.append)
    monkeypatch.setattr(module, "run", lambda name, arguments, body: arguments.device)
    assert module.main([*words, f"device={wanted}"]) == wanted and asked == [{"device": wanted}]
    assert module.main(words) == "cpu"
    with pytest.raises(SystemExit):
        module.main([*words, "device=gpu-0", "trainer.batch=1"])
    assert capsys.readouterr().err.count("\n") == 1


def test_a_new_task_is_compared_with_scratch_on_the_seeds_that_both_have(load):
    module = load("cover_object")
    rows = [{"seed": seed, "arm": "scratch", "success": rate, "episodes": 100} for seed, rate in ((0, 0.2), (1, 0.8))]
    rows.append({"seed": 1, "arm": "joined", "success": 0.8, "episodes": 100})
    report = load("experiment").Report("test", argparse.Namespace(seconds=1, out=None, device="cpu"))
    report.results |= {"rows": rows, "baselines": {"end now": 0.1, "script": 0.7, "episodes": 100}}
    module.summarize(report)
    above = report.results["above_blind"]
    assert above["joined"]["policy"] == "end now" and above["joined"]["difference"] == pytest.approx(0.7)
    assert list(report.results["above_scratch"]) == ["joined"]
    assert report.results["above_scratch"]["joined"]["difference"] == 0.0
