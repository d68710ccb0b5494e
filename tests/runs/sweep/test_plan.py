"""The folders of a sweep's runs, the index, and what each run still needs."""

import json
import shlex

import pytest

from polytask.errors import UserError
from polytask.runs.file_names import CHECKPOINT_FILE, INDEX_FILE
from polytask.runs.sweep.grid import identity, settings_of
from polytask.runs.sweep.index import Index
from polytask.runs.sweep.plan import plan, success_of

TASKS = "tasks=[reach]"


def complete(folder, success=0.5, is_complete=True):
    folder.mkdir(parents=True, exist_ok=True)
    summary = {"complete": is_complete, "success": 0.25, "evaluation": {"mean_success": success}}
    (folder / "summary.json").write_text(json.dumps(summary))


@pytest.mark.parametrize(
    ("summary", "found"),
    [
        ({"success": 0.25, "evaluation": {"mean_success": 0.5}}, (0.5, "noiseless")),
        ({"success": 0.25, "evaluation": None}, (0.25, "training")),
        ({"success": None}, (None, None)),
    ],
)
def test_success_is_that_of_the_evaluation_or_else_of_training_and_says_which(summary, found):
    assert success_of(summary) == found


def names(items):
    return [item.name for item in items]


def test_folders_are_short_and_seeds_come_first(tmp_path):
    items = plan(settings_of([TASKS, "net=mlp,moore"]), range(2), tmp_path, Index(tmp_path))
    assert names(items) == ["00-mlp/seed-0", "01-moore/seed-0", "00-mlp/seed-1", "01-moore/seed-1"]
    assert [item.state for item in items] == ["new"] * 4


def test_a_setting_keeps_its_folder_and_new_ones_get_new_numbers(tmp_path):
    index = Index(tmp_path)
    plan(settings_of([TASKS, "net=mlp,moore"]), [0], tmp_path, index)
    index.write()
    later = plan(settings_of([TASKS, "grads=pcgrad,mean", "net=moore,mlp"]), [0], tmp_path, Index(tmp_path))
    assert names(later) == [f"{each}/seed-0" for each in ("02-pcgrad-moore", "03-pcgrad-mlp", "01-moore", "00-mlp")]


def test_an_index_of_an_earlier_version_gets_the_defaults_of_new_keys(tmp_path):
    index = Index(tmp_path)
    settings = settings_of([TASKS])
    plan(settings, [0], tmp_path, index)
    del index.settings["00-ppo-mlp"]["config"]["success_window"]
    del index.settings["00-ppo-mlp"]["config"]["algo"]["lr"]
    index.write()
    assert names(plan(settings, [0], tmp_path, Index(tmp_path))) == ["00-ppo-mlp/seed-0"]
    other = settings_of([TASKS, "algo.lr=0.125"])  # a value that the old version would have saved
    assert names(plan(other, [0], tmp_path, Index(tmp_path))) == ["01-ppo-mlp/seed-0"]


def test_a_start_from_another_run_is_another_setting(tmp_path):
    index = Index(tmp_path)
    one, other = settings_of([TASKS, "init_from=runs/a,runs/b"])
    assert index.folder_of(one) != index.folder_of(other)
    index.write()
    assert Index(tmp_path).folder_of(other) == "01-runs-b"


def test_a_lost_index_takes_no_folder_of_another_run(tmp_path):
    (tmp_path / "04-moore").mkdir()
    assert names(plan(settings_of([TASKS]), [0], tmp_path, Index(tmp_path))) == ["05-ppo-mlp/seed-0"]


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("{", "it is not a record of a sweep in JSON"),
        ('{"version": 9, "settings": {}, "runs": {}}', "has version 9"),
        ('{"version": 1, "settings": {"00-a": {"label": "a"}}, "runs": {}}', "field 'settings.00-a.words' is missing"),
    ],
)
def test_a_damaged_index_is_one_line(tmp_path, content, line):
    (tmp_path / INDEX_FILE).write_text(content)
    with pytest.raises(UserError, match=line):
        Index(tmp_path)


def test_complete_runs_are_done_and_others_new_or_interrupted(tmp_path):
    settings = settings_of([TASKS, "init_from=runs/flat", "demos=expert"])
    complete(tmp_path / "00-ppo-mlp/seed-0")
    complete(tmp_path / "00-ppo-mlp/seed-1", is_complete=False)
    (tmp_path / "00-ppo-mlp/seed-1" / CHECKPOINT_FILE).touch()
    index = Index(tmp_path)
    index.settings["00-ppo-mlp"] = {"label": "", "words": [], "config": identity(settings[0].config)}
    items = plan(settings, range(3), tmp_path, index)
    assert [(item.state, item.success, item.measure) for item in items] == [
        ("done", 0.5, "noiseless"), ("interrupted", None, None), ("new", None, None),
    ]  # fmt: skip
    assert (items[0].facts()["success"], items[0].facts()["measure"]) == (0.5, "noiseless")
    assert {"init_from=runs/flat", "demos=expert"} <= set(items[2].words)
    assert f"checkpoint={tmp_path}/00-ppo-mlp/seed-1" in items[1].words
    assert not {"init_from=runs/flat", "demos=expert"} & set(items[1].words), "the checkpoint has what they brought"
    assert shlex.split(items[2].command) == ["polytask", "train", *items[2].words]
