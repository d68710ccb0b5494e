"""`polytask mtopt ...` and `polytask label`, from words to tables."""

import json
import os
import shutil
from contextlib import closing
from pathlib import Path

import pytest
from helpers.tiny_run import TASKS

from polytask.cli.commands import COMMANDS
from polytask.cli.main import main
from polytask.mtopt import commands
from polytask.mtopt.config.label import LabelConfig
from polytask.mtopt.detector import labelled
from polytask.mtopt.records import Label
from polytask.mtopt.runtime.folder import RunFolder
from polytask.mtopt.store import EpisodeStore

pytest.importorskip("fastapi")
TINY = [
    "preset=tiny",
    f"tasks=[{','.join(TASKS)}]",
    *("world.num_envs=2", "world.image_size=16", "world.outcome_size=16", "learner.network.image_size=16"),
    *("collector.episodes=8", "collector.round_episodes=4", "labels.per_task=4", "labels.round_per_task=1"),
    *("detector.updates=2", "detector.batch=4", "detector.least_tested=0", "updater.rows=16", "evaluator.episodes=2"),
    *("trainer.updates=2", "trainer.round_updates=2", "trainer.publish_every=2", "trainer.batch=8"),
    "learner.bellman.cem.samples=4",
]


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """Run once."""
    root = tmp_path_factory.mktemp("run") / "bins"
    assert main(["mtopt", "run", *TINY, f"run_dir={root}"]) == 0
    return root


def test_a_run_prints_the_table_and_a_second_one_goes_on(call, done):
    code, out, err = call("mtopt", "run", *TINY, f"run_dir={done}", "format=json")
    assert code == 0
    table = json.loads(out)
    assert [row["task"] for row in table["tasks"]] == TASKS
    assert set(table["tasks"][0]) >= {"success", "low", "high", "verdict", "wrong", "script"}
    assert table["detector"] == "run-2"
    assert err == "", "nothing was left to do"
    code, out, _ = call("mtopt", "run", f"run_dir={done}")
    assert code == 0, "the settings are those of the run"
    assert "detector says" in out
    assert "mean success" in out
    assert all(task in out for task in TASKS)


def test_status_counts_what_is_there(call, done):
    code, out, _ = call("mtopt", "status", f"run_dir={done}", "format=json")
    assert code == 0
    found = json.loads(out)
    assert found["episodes"] == 12
    assert sum(found["policies"].values()) == 12
    assert (found["updates"], found["weights"], found["detector"]) == (4, 3, "run-2")
    assert found["lag"] == 1, "the last episodes were collected by weights 2"
    assert found["last"]["loss"] > 0
    assert found["newest_detector"] == "run-2"
    judged = {row["task"]: row["is_taught"] for row in found["tasks"]}
    assert judged["place-any"] and not judged["lift-can"], "five labels hold no success of a rare task"
    for row in found["tasks"]:
        lifts = 6  # two worlds, three sequences
        assert row["success"] + row["failure"] == (lifts if row["is_taught"] and not row["refused"] else 0)
        assert (row["person"], row["stand_in"]) == (0, 5), "the stand-in is not a person"
    out = call("mtopt", "status", f"run_dir={done}")[1]
    assert "people's labels" in out and "stand-in's labels" in out
    assert "not judged" in out and "lift-can" in out.partition("not judged")[2]


def test_eval_measures_learned_and_scripted_policies(call, done):
    words = ("mtopt", "eval", f"run_dir={done}", "tasks=[place-any]", "episodes=3", "format=json")
    learned, again = (json.loads(call(*words)[1]) for _ in range(2))
    assert learned == again
    assert learned["policy"] == "q:3"
    assert learned["tasks"][0]["episodes"] == 3
    assert json.loads(call(*words, "weights=1")[1])["policy"] == "q:1"
    assert json.loads(call(*words, "scripted=true")[1])["policy"] == "scripted"


def test_the_policy_of_a_run_on_a_gpu_is_evaluated_on_a_cpu_without_the_episodes(call, done, tmp_path):
    for name in ("tasks.json", "detectors", "weights"):
        (shutil.copytree if (done / name).is_dir() else shutil.copy)(done / name, tmp_path / name)
    run = json.loads((done / "run.json").read_text())
    run["config"]["world"] |= {"sim": "warp", "device": "cuda", "num_envs": 4096}
    (tmp_path / "run.json").write_text(json.dumps(run | {"config": run["config"] | {"device": "cuda"}}))
    words = ("mtopt", "eval", "tasks=[place-any]", "episodes=3", "format=json")
    code, out, _ = call(*words, f"run_dir={tmp_path}", "device=cpu", "sim=cpu", "num_envs=2")
    assert code == 0 and json.loads(out)["tasks"] == json.loads(call(*words, f"run_dir={done}")[1])["tasks"]


def test_a_held_out_task_is_added_by_labels_and_learned_without_a_new_episode(call, done):
    store = EpisodeStore(done)
    lifts = [row.id for row in store.rows() if row.task.startswith("lift")]
    store.add_labels([Label(e, "lift-red-thing", float(i % 2), "person") for i, e in enumerate(lifts)])
    before = len(store)
    words = ("mtopt", "relabel", f"run_dir={done}", "add=[lift-red-thing]", "train=true", "format=json")
    code, out, _ = call(*words)
    found = json.loads(out)
    assert code == 0
    assert found["detector"] == "relabel-1"
    taught = [row["task"] for row in found["tasks"] if row["is_taught"]]
    assert found["labels"] == 12 * len(taught) and "lift-red-thing" in taught
    red = next(row for row in found["tasks"] if row["task"] == "lift-red-thing")
    assert (red["success"], red["failure"], red["person"]) == (3, 3, 6), "people's labels outrank the detector's"
    assert json.loads(call(*words[:3], "format=json")[1])["labels"] == 0, "all is labelled"
    code, out, _ = call("mtopt", "train", f"run_dir={done}", "trainer.updates=2", "format=json")
    assert code == 0
    assert json.loads(out)["updates"] == 6
    plan = json.loads((done / "run.json").read_text())["config"]
    assert (plan["trainer"]["round_updates"], plan["tasks"]) == (2, [*TASKS, "lift-red-thing"])
    call("mtopt", "train", f"run_dir={done}", "trainer.updates=1")
    assert json.loads((done / "run.json").read_text())["config"] == plan, "one command's numbers are not the run's"
    assert len(store) == before
    store.close()
    code, out, _ = call("mtopt", "eval", f"run_dir={done}", "tasks=[lift-red-thing]", "episodes=1", "format=json")
    assert [row["task"] for row in json.loads(out)["tasks"]] == ["lift-red-thing"]


@pytest.fixture
def copied(done, tmp_path):
    """Return a run that a test may change."""
    return Path(shutil.copytree(done, tmp_path / "copy"))


def test_relabel_trains_as_long_as_it_is_told_and_leaves_the_runs_own_setting(call, copied, monkeypatch):
    trained, train = [], labelled.train_detector
    monkeypatch.setattr(labelled, "train_detector", lambda *a, **k: trained.append(a[3].updates) or train(*a, **k))
    for words in (("updates=3",), ()):
        assert call("mtopt", "relabel", f"run_dir={copied}", "train=true", *words)[0] == 0
    assert trained == [3, 2]


def test_training_is_bound_to_the_detector_that_relabel_names(call, copied):
    def trained_by():
        assert call("mtopt", "train", f"run_dir={copied}", "trainer.updates=1")[0] == 0
        return json.loads((copied / "metrics.jsonl").read_text().splitlines()[-1])["detector"]

    newest = json.loads(call("mtopt", "status", f"run_dir={copied}", "format=json")[1])["newest_detector"]
    assert trained_by() == newest
    code, out, _ = call("mtopt", "relabel", f"run_dir={copied}", "detector=run-1", "format=json")
    assert (code, json.loads(out)["detector"]) == (0, "run-1")
    assert trained_by() == "run-1"
    assert f"detector run-1 in use, the newest is {newest}" in call("mtopt", "status", f"run_dir={copied}")[1]
    measured = call("mtopt", "eval", f"run_dir={copied}", "tasks=[place-any]", "episodes=1", "format=json")[1]
    assert json.loads(measured)["detector"] == "run-1"
    call("mtopt", "relabel", f"run_dir={copied}")
    assert trained_by() == newest, "relabel uses the newest by default"
    code, _, err = call("mtopt", "relabel", f"run_dir={copied}", "detector=run-7")
    assert code == 2 and "no success detector" in err
    code, _, err = call("mtopt", "relabel", f"run_dir={copied}", "detector=run-1", "train=true")
    assert code == 2 and "set only one of them" in err
    assert trained_by() == newest


@pytest.mark.parametrize("words", [(), ("train=true",)])
def test_a_task_that_no_detector_was_taught_is_not_relabelled(call, copied, words):
    files = {path: path.read_bytes() for path in (copied / "run.json", copied / "detectors" / "in_use")}
    detectors = sorted((copied / "detectors").iterdir())
    code, out, err = call("mtopt", "relabel", f"run_dir={copied}", "add=[lift-any-two]", *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "was taught no success and failure of 'lift-any-two'" in err
    assert f"polytask label run_dir={copied} tasks=[lift-any-two]" in err
    assert {path: path.read_bytes() for path in files} == files
    assert sorted((copied / "detectors").iterdir()) == detectors


def test_a_task_with_labels_that_came_after_the_detector_needs_a_new_one(call, copied):
    with closing(EpisodeStore(copied)) as store:
        lifts = [row.id for row in store.rows() if row.task.startswith("lift")]
        store.add_labels([Label(e, "lift-red-thing", float(i % 2), "person") for i, e in enumerate(lifts)])
    add = ("mtopt", "relabel", f"run_dir={copied}", "add=[lift-red-thing]")
    code, _, err = call(*add, "detector=run-1")
    advice = f"train a new one: polytask mtopt relabel run_dir={copied} train=true add=[lift-red-thing]"
    assert code == 2 and err.strip().endswith(advice) and "polytask label" not in err
    assert call(*advice.split()[5:])[0] == 0, "the command works"


def test_a_run_of_another_process_is_not_changed_but_for_episodes(call, copied):
    folder = RunFolder(copied)
    folder.lock()
    before = {name: (copied / name).read_bytes() for name in ("run.json", "metrics.jsonl", "learner.pt")}
    for command in ("run", "train", "relabel"):
        code, out, err = call("mtopt", command, f"run_dir={copied}")
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert f"in use by process {os.getpid()}" in err
    code, out, _ = call("mtopt", "collect", f"run_dir={copied}", "collector.episodes=3", "format=json")
    assert (code, json.loads(out)["added"]) == (0, 4)
    assert call("mtopt", "status", f"run_dir={copied}")[0] == 0
    assert {name: (copied / name).read_bytes() for name in before} == before
    folder.close()
    assert call("mtopt", "run", f"run_dir={copied}")[0] == 0


def test_collect_fills_a_store(call, tmp_path):
    code, out, _ = call("mtopt", "collect", *TINY, f"run_dir={tmp_path}", "collector.episodes=4", "format=json")
    assert code == 0
    assert json.loads(out)["added"] == 4
    assert json.loads(out)["policies"] == {"scripted-pick": 2, "scripted-place": 2}
    code, out, _ = call("mtopt", "collect", f"run_dir={tmp_path}", "collector.episodes=2", "format=json")
    found = json.loads(out)
    assert (code, found["added"], found["episodes"]) == (0, 4, 8), "at least so many more, as train makes more updates"


def test_without_a_folder_a_run_gets_a_new_one(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for count in (1, 2):
        code, out, _ = call("mtopt", "collect", *TINY, "seed=5", "collector.episodes=2")
        folders = sorted(Path("runs").iterdir())
        assert (code, len(folders)) == (0, count), "not the folder of another run"
        assert "-mtopt-seed5" in folders[-1].name and f"runs/{folders[-1].name}" in out.replace("\n", "")


def test_a_run_that_waits_for_a_person_says_so(call, tmp_path):
    words = ("mtopt", "run", *TINY, f"run_dir={tmp_path}", "labels.who=person", "collector.episodes=4")
    code, out, _ = call(*words)
    assert code == 0
    assert "waits for your labels" in out and f"polytask label run_dir={tmp_path}" in out


def test_label_serves_and_says_what_was_labelled(call, done, monkeypatch):
    served = []
    monkeypatch.setattr("polytask.mtopt.label.server.serve", served.append)
    code, out, _ = call("label", f"run_dir={done}", "port=0", "tasks=[lift-any]", "detector.updates=7", "format=json")
    assert code == 0
    assert isinstance(served[0], LabelConfig)
    assert (served[0].tasks, served[0].detector.updates, served[0].detector.batch) == (["lift-any"], 7, 4), (
        "the run's batch"
    )
    assert "labels" in json.loads(out)


MISTAKES = [
    (["mtopt", "rnu"], "unknown command 'mtopt rnu'; did you mean 'mtopt run'?"),
    (["mtopt", "run", "preset=huge"], "unknown preset 'huge'"),
    (["mtopt", "run", "tasks=[lift-moon]"], "unknown task 'lift-moon'"),
    (["mtopt", "run", "runtime=cloud"], "runtime=cloud is not valid; known: local, ray"),
    (["mtopt", "run", "labels.who=robot"], "labels.who=robot is not valid; known: stand-in, person"),
    (["mtopt", "run", "collectr.episodes=1"], "unknown key 'collectr.episodes'; did you mean 'collector'?"),
    (["mtopt", "run", "collector.episode=1"], "unknown key 'collector.episode'; did you mean 'collector.episodes'?"),
    (["mtopt", "run", "trainer.batch=0"], "trainer.batch=0"),
    (["mtopt", "run", "trainer.keep=1"], "trainer.keep=1 is not valid; 0 keeps all versions"),
    (["mtopt", "run", "preset=gpu", "device=cuda:99"], "device 'cuda:99' does not exist: this machine has "),
    (["mtopt", "collect", "preset=gpu", "world.device=cuda:99", "device=cpu"], "; use world.device=cpu"),
    (["mtopt", "train", "device=gpu"], "unknown device 'gpu'; valid: cpu, cuda, cuda:N"),
    (["mtopt", "eval", "run_dir=nowhere"], "there is no run in 'nowhere'"),
    (["mtopt", "relabel", "run_dir=a", "updates=3"], "updates=3 is the length of a training: give train=true, too"),
    (["mtopt", "relabel", "run_dir=nowhere"], "there is no run in 'nowhere'"),
    (["mtopt", "status", "run_dir=nowhere"], "there is no run in 'nowhere'"),
    (
        ["mtopt", "run", "detector.network.size=abc"],
        "detector.network.size=abc is not valid; known: paper, medium, small",
    ),
    (
        ["mtopt", "run", "learner.bellman.cem.elites=0"],
        "learner.bellman.cem.elites=0 is not valid; it must be at least 2",
    ),
    (
        ["mtopt", "run", "learner.bellman.cem.elites=65"],
        "elites=65 is not valid; it must be at most learner.bellman.cem.samples=64",
    ),
    (["mtopt", "run", "detector.lr=nan"], "detector.lr=nan is not valid; it must be more than 0"),
    (["mtopt", "run", "detector.weight_decay=-1"], "detector.weight_decay=-1.0 is not valid"),
    (["mtopt", "run", "sharing.strategy=some"], "sharing.strategy=some is not valid; known: orig, all, skill"),
    (["mtopt", "run", "learner.network.heads=two"], "learner.network.heads=two is not valid; known: single, multi"),
    (["mtopt", "run", "detector.network.merge=glue"], "merge=glue is not valid; known: added, located"),
    (["label", "source=robot"], "source=robot is not valid; known: person, oracle"),
    (["label", "share=some"], "share=some is not valid; known: orig, all, skill"),
    (["label"], "name the folder of a run: run_dir=DIR"),
    (["mtopt", "status"], "name the folder of a run: run_dir=DIR"),
    (["mtopt", "train"], "name the folder of a run: run_dir=DIR"),
    (["label", "port=99999"], "port=99999 is not valid; it must be at least 0 and at most 65535"),
    (["label", "port=-1"], "port=-1 is not valid"),
    (["label", "run_dir=nowhere"], "there is no folder 'nowhere'"),
]


@pytest.mark.parametrize(("words", "line"), MISTAKES, ids=[" ".join(words) for words, _ in MISTAKES])
def test_a_mistake_is_one_line_and_writes_nothing(call, tmp_path, monkeypatch, words, line):
    monkeypatch.chdir(tmp_path)
    code, out, err = call(*words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert line in err
    assert not list(tmp_path.iterdir())


def test_eval_of_unknown_weights_names_those_that_are_there(call, done):
    code, _, err = call("mtopt", "eval", f"run_dir={done}", "weights=77")
    assert code == 2
    assert "no weights 77" in err


def test_the_words_of_version_0_1_still_work(call, tmp_path):
    code, out, err = call("mtopt", "collect", *TINY, f"store={tmp_path}", "collector.episodes=4", "format=json")
    assert (code, json.loads(out)["added"]) == (0, 4)
    assert "store= is now called run_dir=" in err


def test_the_help_lists_all_commands_and_their_functions_exist(call):
    known = {name: command for name, command in COMMANDS.items() if name.startswith("mtopt ")}
    code, out, _ = call("mtopt", "--help")
    assert code == 0
    assert all(name in out for name in known)
    ours = [command.run for command in COMMANDS.values() if command.run.startswith("polytask.mtopt.commands:")]
    assert {f"polytask.mtopt.commands:{name}" for name in ("run", "status", "label", "act")} <= set(ours)
    assert all(callable(getattr(commands, run.partition(":")[2])) for run in ours)
