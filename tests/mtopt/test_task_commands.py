"""`polytask mtopt task`: a task is added as data, labelled, learned and evaluated without a line of code."""

import json

import numpy as np
import pytest
from helpers.tiny_run import tiny
from PIL import Image

from polytask.mtopt.config.run import RunConfig
from polytask.mtopt.records import Label, TaskInfo
from polytask.mtopt.run_tasks import FILE, add, read, tasks_of
from polytask.mtopt.runtime.folder import RunFolder
from polytask.mtopt.runtime.local import LocalRuntime
from polytask.mtopt.store import EpisodeStore
from polytask.mtopt.task_table import SPARE
from polytask.mtopt.tasks import ALL_TASKS, TASKS

pytest.importorskip("fastapi")
NEW = ("name=lift-yellow", "skill=lift", "sentence=The hand holds something yellow up.")


def pictures(folder, count):
    rng = np.random.default_rng(count)
    paths = [folder / f"{count}-{number}.png" for number in range(count)]
    for path in paths:
        Image.fromarray(rng.integers(0, 255, (20, 20, 3), dtype=np.uint8)).save(path)
    return f"[{','.join(map(str, paths))}]"


def test_a_task_is_added_with_its_examples(call, run_copy, tmp_path):
    words = (f"success={pictures(tmp_path, 2)}", f"failure={pictures(tmp_path, 1)}")
    code, out, _ = call("mtopt", "task", "add", f"run_dir={run_copy}", *NEW, *words, "format=json")
    assert code == 0
    assert json.loads(out)["place"] == len(ALL_TASKS)
    tasks = tasks_of(RunFolder(run_copy).config())
    assert tasks.names == (*ALL_TASKS, "lift-yellow")
    assert tasks.slots == len(ALL_TASKS) + SPARE
    store = EpisodeStore(run_copy)
    labels = store.labels("lift-yellow", "person")
    assert [label.value for label in labels] == [1.0, 1.0, 0.0]
    assert store.outcome(labels[0].episode).shape == (3, 16, 16, 3), "they have the views of the run"
    code, out, _ = call("mtopt", "task", "list", f"run_dir={run_copy}", "format=json")
    row = json.loads(out)["tasks"][-1]
    assert (row["name"], row["learned"], row["has_truth"]) == ("lift-yellow", False, False)


def test_a_run_learns_an_added_task_from_people_and_evaluates_it_by_verdicts(call, run_copy):
    """Its truth is unknown, so the stand-in says nothing about it, and success is what the detector says."""
    assert call("mtopt", "task", "add", f"run_dir={run_copy}", *NEW)[0] == 0
    store = EpisodeStore(run_copy)
    lifts = [row.id for row in store.rows() if TASKS[row.task].skill == "lift"]
    store.add_labels([Label(one, "lift-yellow", float(one % 2), "person") for one in lifts])
    assert call("mtopt", "task", "learn", f"run_dir={run_copy}", "name=lift-yellow")[0] == 0
    config = RunFolder(run_copy).config()
    assert config.learned[-1] == "lift-yellow"
    config.controller.rounds, config.detector.least_precision = 2, 0.0
    runtime = LocalRuntime(config, lambda line: None)
    evaluation = runtime.run()
    runtime.close()
    rows = {row.task: row for row in evaluation.tasks}
    row = rows.pop("lift-yellow")
    assert (row.success, row.low, row.simple) == (None, None, None)
    assert row.verdict is not None
    assert evaluation.mean == pytest.approx(sum(one.success for one in rows.values()) / 3)
    assert {row.task for row in store.rows()} >= {"lift-yellow"}, "the later round attempts it"
    assert "lift-yellow" not in store.label_counts("oracle")
    code, out, _ = call("mtopt", "eval", f"run_dir={run_copy}", "tasks=[lift-yellow]", "episodes=1")
    assert code == 0
    assert "the detector's verdict; these tasks have no truth" in out
    assert "lift-yellow" in call("mtopt", "status", f"run_dir={run_copy}")[1]


def test_cover_object_joins_a_finished_run_by_two_commands(call, run_copy):
    """Fine-tuning: the network has a place for the task, the scene gets a lid, the next round collects and labels."""
    before = EpisodeStore(run_copy).last()
    code, out, _ = call("mtopt", "task", "learn", f"run_dir={run_copy}", "name=cover-object")
    assert code == 0
    assert f"next: polytask mtopt run run_dir={run_copy} controller.rounds=2" in out
    code, out, err = call("mtopt", "run", f"run_dir={run_copy}", "controller.rounds=2", "format=json")
    assert code == 0, err
    store, found = EpisodeStore(run_copy), json.loads(out)
    assert [row["task"] for row in found["tasks"]][-1] == "cover-object"
    assert "cover-object" in {row.task for row in store.rows(after=before)}
    assert store.label_counts("oracle")["cover-object"] > 0
    assert RunFolder(run_copy).config().world.lid


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("add",), "name the task: polytask mtopt task add"),
        (("add", "name=lift-yellow"), "a new task needs a skill and a sentence"),
        (("add", *NEW[1:], "name=Lift_Yellow"), "name='Lift_Yellow' is not valid; use small letters and digits"),
        (("add", *NEW[1:], "name=lift-any"), "there is already a task 'lift-any'"),
        (("add", *NEW, "success=[nothing.png]"), "nothing.png"),
        (("add", NEW[0], "skill=fly", NEW[2]), "skill=fly is not valid; world 'bins' has lift, place, cover"),
        (("learn", "name=lift-yelow"), "unknown task 'lift-yelow'"),
        (("forget", "name=lift-any"), "action=forget is not valid"),
    ],
)
def test_bad_words_are_refused_in_one_line_and_change_nothing(call, run_copy, words, line):
    before = (run_copy / FILE).read_text()
    code, _, err = call("mtopt", "task", *words, f"run_dir={run_copy}")
    assert (code, err.count("\n")) == (2, 1)
    assert line in err
    assert (run_copy / FILE).read_text() == before


def test_a_task_whose_skill_the_world_lacks_cannot_be_learned_by_collecting(call, run_copy):
    """The command refuses to add it, but the labelling page and earlier versions do not."""
    add(run_copy, TaskInfo("wipe", "wipe", "Clean."), tasks_of(RunFolder(run_copy).config()))
    code, _, err = call("mtopt", "task", "learn", f"run_dir={run_copy}", "name=wipe")
    assert (code, "cannot start task 'wipe'" in err) == (2, True)
    assert "wipe" not in RunFolder(run_copy).config().learned


def test_any_skill_goes_where_episodes_are_imported(call, tmp_path):
    words = ("mtopt", "task", "add", f"run_dir={tmp_path / 'mine'}", "name=wipe", "skill=wipe", "sentence=Clean.")
    code, _, err = call(*words, "world=drawer")
    assert code == 2
    assert "skill=wipe is not valid; world 'drawer' has open, close; in a run of world=robot" in err
    assert not (tmp_path / "mine").exists()
    assert call(*words, "world=robot")[0] == 0


def test_a_run_that_began_before_runs_had_tasks_keeps_its_networks(run_copy):
    (run_copy / FILE).unlink()
    config = RunFolder(run_copy).config()
    assert tasks_of(config).slots == len(ALL_TASKS)


def test_the_places_of_a_new_run_can_be_chosen_and_never_change(tmp_path):
    config = tiny(tmp_path, task_slots=20)
    folder = RunFolder(tmp_path)
    folder.begin(config)
    folder.close()
    assert read(tmp_path / FILE).slots == 20
    add(tmp_path, TaskInfo("lift-x", "lift", "It is up."), tasks_of(config))
    assert tasks_of(RunConfig(run_dir=str(tmp_path))).index("lift-x") == len(ALL_TASKS)
    config.task_slots = 30
    with pytest.raises(Exception, match="has task_slots=20, not 30"):
        RunFolder(tmp_path).check(config)


def test_a_damaged_list_of_tasks_is_found(call, run_copy):
    path = run_copy / FILE
    state = json.loads(path.read_text())
    state["tasks"].append(dict(state["tasks"][0]))
    path.write_text(json.dumps(state))
    code, out, _ = call("mtopt", "check", f"run_dir={run_copy}", "format=json")
    found = {one["file"]: one["problem"] for one in json.loads(out)["findings"]}
    assert (code, "there are two tasks 'lift-any'" in found[FILE]) == (1, True)
