"""Damaged files of a run: every field that is missing or of another type is one line, and never a traceback."""

import copy
import json
import shutil

import pytest
import torch
import yaml

from polytask.cli.main import main
from polytask.config.compose import compose
from polytask.config.launching import SweepConfig
from polytask.config.schema import EvalConfig, ReportConfig, TrainConfig
from polytask.errors import UserError
from polytask.runs.checkpoint import FIELDS, load, save, saved_settings
from polytask.runs.policy import policy_of
from polytask.runs.report import report
from polytask.runs.run import open_run
from polytask.runs.setup import build_env, load_policy
from polytask.runs.sweep.plan import state_of
from polytask.runs.transfer import initialize

WORDS = ["tasks=[reach,push]", "num_envs=2", "episode_length=4", "algo.horizon=8", "net.hidden=[8]", "threads=1"]
WORDS += ["max_iterations=1", "eval_episodes=1", "video=false"]
WRONG = [None, 5, "text", [], {}, [{}], torch.zeros(2, 3)]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    directory = tmp_path_factory.mktemp("finished") / "run"
    assert main(["train", *WORDS, f"run_dir={directory}"]) == 0
    return directory


OPTIONAL = (
    "frames",
    "initialization",
    "plugins",
    "changes",
    "demonstrations",
    "runs_on_device",
)  # may be missing in a checkpoint


def places(value, prefix=()):
    """Return the path to every field of nested dictionaries; only the first of several tensors."""
    if not isinstance(value, dict):
        return []
    has_tensors = value and all(isinstance(each, torch.Tensor) for each in value.values())
    found = []
    for name in list(value)[: 1 if has_tensors else None]:
        found += [(*prefix, name), *places(value[name], (*prefix, name))]
    return found


def changed(state, place, *value):
    """Return a copy of nested dictionaries in which a field is removed or has another value."""
    state = copy.deepcopy(state)
    inner = state
    for name in place[:-1]:
        inner = inner[name]
    inner.pop(place[-1])
    if value:
        inner[place[-1]] = value[0]
    return state


def line_of(work):
    """Return the error line of a piece of work, or an empty text if it succeeds. Other errors are not caught."""
    try:
        work()
    except UserError as error:
        assert "\n" not in str(error)
        return str(error)
    return ""


# Checkpoint


def test_every_field_of_a_checkpoint_may_be_missing_or_wrong(finished, tmp_path, monkeypatch):
    original = load(finished)
    run, _ = open_run(compose(TrainConfig, [*WORDS, f"run_dir={tmp_path / 'run'}"]))
    env, path = build_env(run.config, num_envs=2), tmp_path / "a.pt"
    for module in ("setup", "policy", "run"):  # composing is slow, and always the same
        monkeypatch.setattr(f"polytask.runs.{module}.compose", lambda *words, saved: run.config)

    def read(place):
        state = load(path)
        if place[0] == "config":
            compose(TrainConfig, [], saved=saved_settings(EvalConfig(checkpoint=str(path))))
            return
        lines.append(line_of(lambda: run.restore(state)))
        lines.append(line_of(lambda: load_policy(state, env)(env.obs, env.task)))
        lines.append(line_of(lambda: policy_of(state, path)(env.obs, env.task)))
        lines.append(line_of(lambda: initialize(run.algo, env.spec.tasks, state, str(path))))

    # The settings inside a group are read as those of a command line.
    cases = [place for place in places(original) if place[0] != "config" or len(place) == 2 or place[-1] == "name"]
    assert len(cases) > 50
    for number, place in enumerate(cases):
        for value in ((), (WRONG[number % len(WRONG)],)):
            save(path, {name: each for name, each in changed(original, place, *value).items() if name != "format"})
            lines = []
            line = line_of(lambda place=place: read(place))
            is_required = len(place) == 1 and place[0] in FIELDS and place[0] not in OPTIONAL
            if is_required and not value:
                assert line == f"'{path}' is damaged: field '{place[0]}' is missing"
            if place[0] in ("env", "window") and len(place) == 2 and not value and place[1] != "tasks":
                assert f"field '{place[1]}' is missing" in lines[0], place
    run.close()


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_refused_by_every_command(finished, tmp_path, capsys, bad):
    state = load(finished)
    del state["format"]
    directory = tmp_path / "run"
    for place, name in (
        (state["algo"]["learners"]["actor"]["net"], "actor"),
        (state["algo"]["obs_norm"], "obs_norm"),
        (state["algo"]["learners"]["critic"]["optimizer"][0], "critic.optimizer.0"),
    ):
        shutil.copytree(finished, directory)
        key, before = next((key, value) for key, value in place.items() if value.is_floating_point() and value.dim())
        place[key] = before.clone()
        place[key].view(-1)[-1] = bad
        save(directory / "checkpoint.pt", state)
        place[key] = before
        content = (directory / "checkpoint.pt").read_bytes()
        for words in (
            ["train", f"checkpoint={directory}", "max_iterations=2"],
            ["train", *WORDS, f"init_from={directory}", f"run_dir={tmp_path / 'new'}"],
            ["eval", f"checkpoint={directory}", "episodes=1"],
            ["record", f"checkpoint={directory}", f"output={tmp_path / 'a.mp4'}"],
            ["collect", f"checkpoint={directory}", "episodes=1", f"output={tmp_path / 'data'}"],
        ):
            assert main(words) == 2
            line = f"'{directory / 'checkpoint.pt'}' holds non-finite weights ({name}.{key})"
            assert capsys.readouterr().err == f"polytask: {line}; use an older checkpoint\n"
        assert (directory / "checkpoint.pt").read_bytes() == content
        assert not any((tmp_path / name).exists() for name in ("new", "a.mp4", "data"))
        shutil.rmtree(directory)


@pytest.mark.parametrize("content", [b"hello", b"", None])
@pytest.mark.parametrize("key", ["checkpoint", "init_from"])
def test_a_file_of_another_kind_is_one_line(tmp_path, capsys, content, key):
    path = tmp_path / "a.pt"
    path.mkdir() if content is None else path.write_bytes(content)
    assert main(["train", *WORDS, f"{key}={path}", f"run_dir={tmp_path / 'run'}"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert str(path) in error
    assert not (tmp_path / "run").exists()


# Reports and sweeps

READERS = {"json": (json.loads, json.dumps), "yaml": (yaml.safe_load, yaml.safe_dump)}
GARBAGE = [b"", b"hello", b"[1]", b"{", b"\xff\xfe\x00", b"5", b"null", None]


@pytest.fixture
def directory(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / "run")


def test_an_undamaged_run_is_reported(directory):
    assert report(ReportConfig(runs=[str(directory)])).payload["settings"].keys() == {"reach+push ppo mlp"}
    assert state_of(directory)[0] == "done"


@pytest.mark.parametrize("name", ["summary.json", "config.yaml"])
def test_every_field_that_a_report_reads_may_be_missing_or_wrong(directory, name):
    path = directory / name
    parse, write = READERS[path.suffix[1:]]
    original = parse(path.read_text())
    refused = set()
    for number, place in enumerate(places(original)):
        for value in ((), *((WRONG[:-1][(number + each) % 6],) for each in range(2))):
            path.write_text(write(changed(original, place, *value)))
            line = line_of(lambda: report(ReportConfig(runs=[str(directory)])))
            assert not line or line.startswith(f"'{path}' is damaged: field '{place[0]}"), (place, value)
            refused |= {place} if line else set()
            status = line_of(lambda: state_of(directory))
            assert not status, "a sweep counts a damaged summary as not done"
    used = {"summary.json": ("evaluation", "tasks", "reach", "success"), "config.yaml": ("algo", "name")}
    assert used[name] in refused


@pytest.mark.parametrize("name", ["summary.json", "config.yaml", "metrics.jsonl"])
@pytest.mark.parametrize("content", GARBAGE)
def test_a_report_of_damaged_files_is_one_line(directory, name, content):
    path = directory / name
    path.unlink()
    path.mkdir() if content is None else path.write_bytes(content)
    line = line_of(lambda: report(ReportConfig(runs=[str(directory)])))
    assert str(path) in line or (name == "metrics.jsonl" and f"'{directory}' is not a run directory" in line)


@pytest.mark.parametrize("content", GARBAGE)
def test_a_damaged_summary_counts_as_not_done_with_a_note(directory, capsys, content):
    path = directory / "summary.json"
    path.unlink()
    path.mkdir() if content is None else path.write_bytes(content)
    assert state_of(directory) == ("interrupted", None, None)
    note = capsys.readouterr().err
    assert note.count("\n") == 1
    assert str(path) in note
    assert note.endswith("; the run counts as not done\n")


def test_rows_without_frames_or_tasks_are_one_line(directory):
    path = directory / "metrics.jsonl"
    for row, line in (
        ({"iteration": 1}, "field 'frames' is missing"),
        ({"iteration": 1, "frames": 2}, "'success/TASK'"),
        ({"iteration": 1, "frames": 2, "success/a": 1.5}, "field 'success/a' must be between 0 and 1"),
    ):
        path.write_text(json.dumps(row) + "\n")
        with pytest.raises(UserError, match=line):
            report(ReportConfig(runs=[str(directory)]))


def test_one_run_named_twice_is_refused(directory, monkeypatch):
    monkeypatch.chdir(directory.parent)
    (directory.parent / "link").symlink_to(directory)
    for other in ("run", "./run/", str(directory), "run/../run", "link"):
        with pytest.raises(UserError, match="runs names one run twice"):
            report(ReportConfig(runs=["run", other]))


@pytest.mark.parametrize("output", ["/dev/null", "/dev/null/x", "{run}/metrics.jsonl"])
def test_a_report_that_cannot_be_written_is_one_line(directory, output):
    output = output.format(run=directory)
    with pytest.raises(UserError, match=f"cannot make the folder '{output}'"):
        report(ReportConfig(runs=[str(directory)], output=output))


def test_a_sweep_that_cannot_be_written_is_one_line():
    from polytask.runs.sweep.command import sweep

    with pytest.raises(UserError, match="cannot make the folder '/dev/null/x'"):
        sweep(SweepConfig(grid=["preset=cpu_demo"], output="/dev/null/x"))
