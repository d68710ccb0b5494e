"""Exported files act as the original; a file that does not is not written."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from helpers.checkpoints import TASKS, rows, write_checkpoint

import polytask
from polytask.algos import ALGOS
from polytask.cli.main import main
from polytask.config.compose import compose, to_plain
from polytask.config.schema import TrainConfig
from polytask.errors import UserError
from polytask.nets import NETS
from polytask.policies.formats import FORMATS
from polytask.runs.checkpoint import load, save
from polytask.tools.export import ROWS
from polytask.tools.model_card import training_command

SUFFIX = {name: kind.suffix for name, kind in FORMATS.items()}
EXAMPLE = Path(__file__).parents[2] / "examples" / "run_onnx.py"


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Return the folder of a run and its algorithm."""
    folder = tmp_path_factory.mktemp("export") / "run"
    return folder, write_checkpoint(folder / "checkpoint.pt", "net.hidden=[16]")


def export(capsys, *words):
    capsys.readouterr()
    assert main(["export", *map(str, words), "format=json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("to", FORMATS)
def test_every_format_acts_as_the_original(saved, tmp_path, capsys, to):
    folder, algo = saved
    path = tmp_path / f"p{SUFFIX[to]}"
    found = export(capsys, f"checkpoint={folder}", f"to={to}", f"output={path}")
    assert found["largest_difference"] < 1e-5
    assert (found["observations"], found["tasks"]) == (ROWS * 3, list(TASKS))
    run = FORMATS[to].run(path)
    obs, task = rows(algo)
    expected = algo.act(obs, task, explore=False)
    for count in (len(obs), 1):
        torch.testing.assert_close(run(obs[:count], task[:count]), expected[:count], rtol=0, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("to", ["onnx", "torch"])
@pytest.mark.parametrize("word", [*(f"net={name}" for name in NETS), *(f"algo={name}" for name in ALGOS)])
def test_every_network_and_algorithm_can_be_exported(tmp_path, capsys, to, word):
    write_checkpoint(tmp_path / "run" / "checkpoint.pt", word)
    found = export(capsys, f"checkpoint={tmp_path / 'run'}", f"to={to}", f"output={tmp_path / 'p'}{SUFFIX[to]}")
    assert found["differing_share"] <= (0.005 if word == "algo=pqn" else 0.0)


def test_a_policy_of_levels_and_one_of_parkour_run_in_onnx(tmp_path, capsys):
    write_checkpoint(tmp_path / "checkpoint.pt", "algo=pqn", tasks=("flat", "beam"), sizes=(212, 12))
    found = export(capsys, f"checkpoint={tmp_path}", "to=onnx", f"output={tmp_path / 'p.onnx'}")
    assert found["differing_share"] <= 0.005


def test_a_walking_policy_also_gives_joint_targets_without_polytask(tmp_path, capsys):
    policy = polytask.load_policy("parkour-hard")
    obs, task = torch.randn(5, policy.info.obs_dim), torch.tensor([0, 1, 2, 3, 20])
    expected = policy(obs, task), policy.joint_targets(obs, task)
    for to in ("onnx", "torch"):
        path = tmp_path / f"p{SUFFIX[to]}"
        export(capsys, "checkpoint=parkour-hard", f"to={to}", f"output={path}")
        if to == "torch":
            found = torch.export.load(path).module()(obs, task)
        else:
            session = pytest.importorskip("onnxruntime").InferenceSession(path, providers=["CPUExecutionProvider"])
            given = {"obs": obs.numpy(), "task": task.numpy()}
            found = [torch.from_numpy(each) for each in session.run(["action", "joint_targets"], given)]
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=1e-4)
    assert (expected[1] - expected[0]).abs().min() > 0.05  # the standing pose is added to every joint


def test_an_off_policy_run_is_checked_without_its_replay_buffer(tmp_path, capsys):
    write_checkpoint(tmp_path / "checkpoint.pt", "algo=sac", "net.hidden=[16]")
    found = export(capsys, f"checkpoint={tmp_path}", f"output={tmp_path / 'p.safetensors'}")
    assert found["largest_difference"] == 0


def test_a_run_of_a_version_without_scales_of_observations_is_exported(saved, tmp_path, capsys):
    state = load(saved[0])
    del state["spec"]["obs_scale"]
    save(tmp_path / "checkpoint.pt", state)
    export(capsys, f"checkpoint={tmp_path}", "to=safetensors", f"output={tmp_path / 'x.safetensors'}")


def test_a_run_in_bfloat16_is_exported_in_float32(tmp_path, capsys):
    algo = write_checkpoint(tmp_path / "checkpoint.pt", "algo.bf16=true", "net.hidden=[16]")
    found = export(capsys, f"checkpoint={tmp_path}", f"output={tmp_path / 'p.safetensors'}")
    assert found["largest_difference"] == 0
    obs, task = rows(algo)
    gap = (polytask.load_policy(tmp_path)(obs, task) - algo.act(obs, task, explore=False)).abs().max()
    assert 0 < gap < 0.05


def test_a_file_that_differs_is_refused_and_leaves_nothing(saved, tmp_path, capsys):
    folder, _ = saved
    words = [f"checkpoint={folder}", "half=true", f"output={tmp_path / 'p.safetensors'}"]
    assert main(["export", *words, "tolerance=1e-6"]) == 2
    err = capsys.readouterr().err
    assert "the exported policy differs from the original by up to" in err
    assert "more than tolerance=1e-06; nothing was written" in err
    assert not list(tmp_path.iterdir())
    assert 0 < export(capsys, *words)["largest_difference"] < 0.01


def test_the_onnx_example_needs_only_onnxruntime(saved, tmp_path, capsys):
    folder, algo = saved
    path = tmp_path / "policy.onnx"
    export(capsys, f"checkpoint={folder}", "to=onnx", f"output={path}")
    block = "import sys; sys.modules['torch'] = sys.modules['polytask'] = None; import runpy; sys.argv = sys.argv[1:]; "
    command = [sys.executable, "-c", f"{block}runpy.run_path(sys.argv[0])", str(EXAMPLE), str(path), "push"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    head, *lines = done.stdout.splitlines()
    assert head == "push, 80 actions a second, from 13 parts of an observation"
    expected = algo.act(torch.zeros(1, 39), torch.tensor([1]), explore=False)[0]
    values = [float(line[16:24]) for line in lines]
    assert values == pytest.approx(expected.tolist(), abs=1e-4)
    assert len(EXAMPLE.read_text().splitlines()) <= 20


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], "name the run to export: checkpoint=RUN"),
        (["checkpoint=nowhere"], "no checkpoint at 'nowhere'"),
        (["to=onnx", "half=true"], "half=true applies only to to=safetensors"),
        (["to=torch", "card=true"], "card=true applies only to to=safetensors"),
        (["checkpoint=x", "to=onnx", "output=policy.pt"], "output=policy.pt must end in .onnx"),
        (["checkpoint=x", "output=no/policy.safetensors"], "there is no folder 'no' to write the policy to"),
        (["checkpoint=x", "to=onnyx"], "did you mean 'onnx'?"),
    ],
)
def test_mistakes_are_one_line(tmp_path, monkeypatch, capsys, words, line):
    monkeypatch.chdir(tmp_path)
    assert main(["export", *words]) == 2
    err = capsys.readouterr().err
    assert line in err
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_missing_package_names_the_extra(saved, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    assert main(["export", f"checkpoint={saved[0]}", "to=onnx", f"output={tmp_path / 'p.onnx'}"]) == 2
    assert "pip install 'polytask[export]' (onnxscript is missing)" in capsys.readouterr().err


def test_an_algorithm_without_a_layout_is_one_line(saved, monkeypatch):
    monkeypatch.delattr("polytask.algos.shared.surrogate.SurrogateConfig.actor_layout")
    with pytest.raises(UserError, match="algo=ppo does not say where its policy is"):
        polytask.load_policy(saved[0])


def test_the_command_of_a_card_has_what_matters_to_a_reader():
    words = ["seed=3", "video=false", "threads=1", "run_dir=runs/second", "init_from=/home/me/runs/first"]
    saved = to_plain(compose(TrainConfig, ["preset=cpu_demo", *words]))
    found = shlex.split(training_command(saved))
    assert {"seed=3", "init_from=first"} <= set(found)
    assert not any(word.startswith(("video=", "threads=", "run_dir=")) for word in found)


def test_a_policy_that_comes_with_the_package_is_exported(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    found = export(capsys, "checkpoint=mt10", "to=onnx", "output=mt10.onnx")
    assert found["largest_difference"] < 1e-4
    again = export(capsys, "checkpoint=mt10", "output=mt10.safetensors")
    assert again["tasks"] == found["tasks"] == list(polytask.load_policy("mt10").tasks)
    assert export(capsys, "checkpoint=mt10.safetensors", "output=copy.safetensors")["largest_difference"] == 0
    assert main(["export", "checkpoint=mt10", "card=true"]) == 2
    assert capsys.readouterr().err == "polytask: card=true describes a run; this policy is a file already\n"
