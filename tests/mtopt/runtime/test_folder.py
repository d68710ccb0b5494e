"""The state of a run in its folder."""

import json
from dataclasses import asdict
from importlib.util import find_spec

import pytest
from helpers.tiny_run import tiny

from polytask.cli.main import main
from polytask.config.compose import compose
from polytask.errors import UserError
from polytask.mtopt.config import LabelConfig, RunConfig
from polytask.mtopt.roles import Controller
from polytask.mtopt.runtime.folder import RunFolder, label_settings, saved_settings, with_present_names


def begin(root):
    folder = RunFolder(root)
    folder.begin(tiny(root))
    folder.close()
    return folder


def test_settings_survive_being_saved(tmp_path):
    begin(tmp_path)
    assert RunFolder(tmp_path).config() == tiny(tmp_path)
    assert saved_settings(RunConfig(run_dir=str(tmp_path)))["seed"] == 0
    assert saved_settings(RunConfig(run_dir=str(tmp_path / "nothing"))) is None


def test_the_labelling_page_takes_its_training_and_its_views_from_the_run(tmp_path):
    assert label_settings(LabelConfig(run_dir=str(tmp_path))) is None
    begin(tmp_path)
    words = [f"run_dir={tmp_path}", "detector.batch=9"]
    config = compose(LabelConfig, words, saved=label_settings(LabelConfig(run_dir=str(tmp_path))))
    assert (config.detector.updates, config.detector.batch) == (tiny(tmp_path).detector.updates, 9)
    assert (config.views, config.outcome_size) == (3, 16)


def test_a_lid_may_be_added_to_a_run(tmp_path):
    begin(tmp_path)
    config = tiny(tmp_path, tasks=["lift-any", "cover-object"])
    assert config.world.lid
    RunFolder(tmp_path).check(config)


def test_a_setting_that_must_not_change_is_named(tmp_path):
    begin(tmp_path)
    config = tiny(tmp_path)
    config.learner.network.camera.floor += 0.5
    with pytest.raises(UserError) as caught:
        RunFolder(tmp_path).check(config)
    old, new = (floor.learner.network.camera.floor for floor in (tiny(tmp_path), config))
    line = f"the run in '{tmp_path}' has learner.network.camera.floor={old}, not {new}; choose another run_dir"
    assert str(caught.value) == line
    RunFolder(tmp_path).check(tiny(tmp_path))


def test_settings_of_version_0_1_are_read(tmp_path):
    begin(tmp_path)
    path = tmp_path / "run.json"
    state = json.loads(path.read_text())
    state["config"]["store"] = state["config"].pop("run_dir")
    state["config"]["world"]["num_worlds"] = state["config"]["world"].pop("num_envs")
    path.write_text(json.dumps(state))
    assert RunFolder(tmp_path).config() == tiny(tmp_path)
    assert with_present_names({"store": "here", "seed": 3}) == {"run_dir": "here", "seed": 3}


def change(root, **settings):
    """Change saved settings."""
    path = root / "run.json"
    state = json.loads(path.read_text())
    state["config"] |= settings
    path.write_text(json.dumps(state))


def test_settings_of_another_version_are_ignored(tmp_path):
    begin(tmp_path)
    trainer = asdict(tiny(tmp_path).trainer)
    change(tmp_path, colour="red", trainer={**trainer, "spoons": 3})
    assert RunFolder(tmp_path).config() == tiny(tmp_path)


@pytest.mark.parametrize("setting", [{"seed": "many"}, {"world": 5}, {"trainer": {"batch": [1]}}])
def test_a_setting_of_the_wrong_type_is_one_line(tmp_path, setting):
    begin(tmp_path)
    change(tmp_path, **setting)
    with pytest.raises(UserError, match=r"run.json' holds settings that cannot be read: .+") as caught:
        RunFolder(tmp_path).config()
    assert "\n" not in str(caught.value)
    with pytest.raises(UserError, match=r"the saved setting .+ cannot be used; it must be a "):
        compose(RunConfig, [f"run_dir={tmp_path}"], saved_settings(RunConfig(run_dir=str(tmp_path))))


def test_a_run_that_moved_has_its_present_folder(tmp_path):
    begin(tmp_path / "old")
    (tmp_path / "old").rename(tmp_path / "new")
    assert RunFolder(tmp_path / "new").config().run_dir == str(tmp_path / "new")


def test_records_of_jobs_that_were_not_saved_are_dropped(tmp_path):
    folder = begin(tmp_path)
    folder.begin(tiny(tmp_path))
    state = Controller(tiny(tmp_path)).state_dict()
    folder.save({"kind": "collect", "episodes": 4.0}, controller=state)
    folder.close()
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"iteration": 2, "kind": "label"}\n{"iterat')
    again = RunFolder(tmp_path)
    assert again.begin(tiny(tmp_path))["controller"] == state
    again.close()
    assert again.records() == [{"iteration": 1, "kind": "collect", "episodes": 4.0}]


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("config.yaml", "a run of `polytask train`"),
        ("checkpoint.pt", "a run of `polytask train`"),
        ("index.json", "a sweep or a data set"),
        (None, "the log of a run without its run.json"),
    ],
)
def test_the_folder_of_something_else_is_refused_and_unchanged(tmp_path, capsys, name, what):
    root = tmp_path / "mine"
    root.mkdir()
    for file in ("metrics.jsonl", *([name] if name else [])):
        (root / file).write_text('{"iteration": 1}\n')
    before = {path.name: path.read_bytes() for path in root.iterdir()}
    task = ("task", "add", "name=lift-it", "skill=lift", "sentence=Lifted.")
    under_ray = [("run", "runtime=ray")] if find_spec("ray") else []
    for words in (("run",), *under_ray, ("collect",), ("train",), task, ("status",)):
        assert main(["mtopt", *words, f"run_dir={root}"]) == 2
        assert capsys.readouterr().err == f"polytask: '{root}' contains {what}; name another run_dir\n"
    with pytest.raises(UserError, match="contains"):
        RunFolder(root).begin(tiny(root))
    assert {path.name: path.read_bytes() for path in root.iterdir()} == before


def test_what_an_interrupted_start_leaves_is_no_reason_against_a_new_run(tmp_path):
    begin(tmp_path)
    (tmp_path / "run.json").unlink()
    (tmp_path / "notes.txt").write_text("mine")
    begin(tmp_path)
    assert RunFolder(tmp_path).config() == tiny(tmp_path)


def test_what_is_no_run_is_refused_in_one_line(tmp_path):
    folder = RunFolder(tmp_path)
    with pytest.raises(UserError, match=r"there is no run in .*; start one with `polytask mtopt run run_dir="):
        folder.require()
    for text, line in (
        ("{", "cannot be read"),
        ("[]", "is not a state of a run in JSON"),
        ('{"format": 9}', r"\(format 1\)"),
        ('{"format": 1}', "field 'config' is missing"),
        ('{"format": 1, "config": []}', "field 'config' must be a table, not a list"),
        ('{"format": 1, "config": {}}', "field 'jobs' is missing"),
        ('{"format": 1, "config": {}, "jobs": 1}', "field 'controller' is missing"),
        ('{"format": 1, "config": {}, "jobs": 0, "evaluation": {}}', "field 'evaluation.policy' is missing"),
    ):
        (tmp_path / "run.json").write_text(text)
        with pytest.raises(UserError, match=line):
            folder.read()
