"""Policies that come with the package: found by suite, played as trained, and as good as their cards say."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

import polytask
from polytask.cli.main import main
from polytask.config.compose import compose
from polytask.config.schema import EvalConfig, TrainConfig
from polytask.errors import UserError
from polytask.policies.files import open_info
from polytask.policies.pretrained import pretrained, read_card
from polytask.runs.evaluate import Evaluator
from polytask.runs.setup import build_policy

MOST_BYTES = 6_000_000
SHIPPED = sorted((Path(polytask.__file__).parent / "pretrained").glob("*.safetensors"))
TINY = ["suite=ml10-test", "num_envs=5", "episode_length=12", "algo.horizon=8", "algo.minibatch=20", "threads=1"]


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    """Train a tiny policy, export it with a card into a folder of its own, and return the folder."""
    folder = tmp_path_factory.mktemp("registry")
    run = tmp_path_factory.mktemp("runs") / "run"
    words = ["max_iterations=2", "eval_episodes=0", "video=false", f"run_dir={run}"]
    assert main(["train", *TINY, *words]) == 0
    output = f"output={folder / 'ml10_test.safetensors'}"
    assert main(["export", f"checkpoint={run}", "half=true", "card=true", "episodes=2", output]) == 0
    return folder


@pytest.fixture
def here(registry, monkeypatch):
    """Let the package find the tiny policy."""
    monkeypatch.setenv("POLYTASK_PRETRAINED", str(registry))
    return registry


def played(capsys, *words):
    capsys.readouterr()
    code = main([*words, "format=json"])
    out, err = capsys.readouterr()
    assert code == 0, err
    return json.loads(out)


@pytest.mark.parametrize("suite", ["mt10", "mt50"])
def test_a_policy_comes_from_the_preset_of_its_suite(suite):
    command = read_card(pretrained()[suite])["command"].split()
    assert command[:2] == ["polytask", "train"]
    run, preset = compose(TrainConfig, command[2:]), compose(TrainConfig, [f"preset={suite}_gpu"])
    assert (run.algo, run.net, run.num_envs) == (preset.algo, preset.net, preset.num_envs)


def test_an_exported_policy_plays_as_its_card_says(here, capsys):
    card = read_card(here / "ml10_test.safetensors")
    found = played(capsys, "eval", "policy=pretrained", "suite=ml10-test", "episodes=2", "threads=1")
    assert found["episode_length"] == card["episode_length"] == 12  # of training, not the default
    assert found["tasks"].keys() == card["tasks"].keys()
    for task, one in card["tasks"].items():
        assert found["tasks"][task]["return"] == pytest.approx(one["return"], rel=1e-4)
    assert "polytask train suite=ml10-test" in card["command"]
    assert (card["licence"], card["run"]["name"], card["run"]["frames"]) == ("MIT", "run", 80)


def test_tasks_are_found_in_any_policy_and_settings_of_the_user_win(here, capsys):
    words = [
        "eval",
        "policy=pretrained",
        "tasks=[sweep-into,drawer-open]",
        "episodes=1",
        "episode_length=3",
        "threads=1",
    ]
    found = played(capsys, *words)
    assert (list(found["tasks"]), found["episode_length"]) == (["sweep-into", "drawer-open"], 3)


def test_a_policy_file_plays_as_the_checkpoint_of_its_run(here, capsys):
    file = f"checkpoint={here / 'ml10_test.safetensors'}"
    named = played(capsys, "eval", "policy=pretrained", "suite=ml10-test", "episodes=2", "threads=1")
    found = played(capsys, "eval", file, "episodes=2", "threads=1")  # its suite and its episodes of 12 steps
    assert found.pop("policy") == str(here / "ml10_test.safetensors")
    assert named.pop("policy") == "pretrained"
    assert found == named
    some = played(capsys, "eval", file, "tasks=[lever-pull]", "episode_length=3", "episodes=1", "threads=1")
    assert (list(some["tasks"]), some["episode_length"]) == (["lever-pull"], 3)


def test_a_policy_file_of_some_tasks_plays_these(tmp_path, capsys):
    tiny = [word for word in TINY if not word.startswith("suite")]
    words = ["tasks=[reach,push]", "max_iterations=1", "eval_episodes=0", "video=false", f"run_dir={tmp_path / 'run'}"]
    assert main(["train", *tiny, *words]) == 0
    file = tmp_path / "policy.safetensors"
    assert main(["export", f"checkpoint={tmp_path / 'run'}", "to=safetensors", f"output={file}"]) == 0
    assert list(played(capsys, "eval", f"checkpoint={file}", "episodes=1", "threads=1")["tasks"]) == ["reach", "push"]
    assert main(["eval", f"checkpoint={file}", "tasks=[hammer]", "episodes=1"]) == 2
    assert "it was not trained on 'hammer', only on reach, push" in capsys.readouterr().err
    file.write_bytes(file.read_bytes()[:100])
    assert main(["eval", f"checkpoint={file}", "episodes=1"]) == 2
    err = capsys.readouterr().err
    assert str(file) in err
    assert err.count("\n") == 1


def test_a_pretrained_policy_is_listed_and_loaded_by_name(here, capsys):
    (row,) = played(capsys, "list", "policies")["policies"]
    assert (row["name"], row["tasks"], row["algo"], row["net"]) == ("ml10-test", 5, "ppo", "mlp")
    policy = polytask.load_policy("ml10-test")
    assert policy.tasks == ("drawer-open", "door-close", "shelf-place", "sweep-into", "lever-pull")
    assert policy([0.0] * 39, "sweep-into").shape == (4,)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            ["eval", "policy=pretrained", "suite=mt50"],
            "there is no pretrained policy of mt50; there are policies of ml10",
        ),
        (["record", "policy=pretrained", "task=hammer"], "no pretrained policy was trained on hammer"),
        (["eval", "policy=pretrained", "checkpoint=x"], "no checkpoint at 'x'"),
        (["eval", "checkpoint=x.safetensors"], "'x.safetensors'"),
        (["eval", "checkpoint=ml10-test"], "which is a pretrained policy: use policy=pretrained suite=ml10-test"),
        (["record", "checkpoint=ml10-test"], "use policy=pretrained suite=ml10-test"),
        (["train", "checkpoint=ml10-test"], "which is a pretrained policy: use init_from=ml10-test"),
        (["train", "checkpoint=mt3"], "no checkpoint at 'mt3'"),
    ],
)
def test_a_missing_policy_is_one_line(here, tmp_path, monkeypatch, capsys, words, line):
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    err = capsys.readouterr().err
    assert line in err
    assert err.count("\n") == 1


def test_an_empty_folder_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("POLYTASK_PRETRAINED", str(tmp_path))
    with pytest.raises(UserError, match="there is no pretrained policy of mt10; there are none in"):
        polytask.load_policy("mt10")


def test_a_policy_without_a_card_is_one_line(here, tmp_path, monkeypatch, capsys):
    shutil.copy(here / "ml10_test.safetensors", tmp_path)
    monkeypatch.setenv("POLYTASK_PRETRAINED", str(tmp_path))
    assert main(["list", "policies"]) == 2
    assert "no card at" in capsys.readouterr().err


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_shipped_policy_has_a_card_and_is_small(path):
    card, info = read_card(path), open_info(path)
    assert path.stat().st_size <= MOST_BYTES
    assert card["tasks"].keys() == set(info.tasks)
    assert card["run"]["commit"]
    assert not card["run"]["commit"].endswith("-dirty")
    assert pretrained()[path.stem.replace("_", "-")] == path


@pytest.mark.parametrize("suite", ["mt10", "mt50"])
def test_a_shipped_policy_does_not_act_on_numerical_dust(suite):
    policy, env = polytask.load_policy(suite), polytask.make(suite, num_envs={"mt10": 10, "mt50": 50}[suite], threads=1)
    for _ in range(20):
        env.step(policy(env.obs, env.task))
    hardly_varies = policy.actor.scale[env.task] > 99.0  # divided by the floor of 1 cm
    assert hardly_varies.float().mean() > 0.4
    moved = torch.where(hardly_varies, env.obs + 2e-4, env.obs)  # 0.2 mm
    change = (policy(moved, env.task) - policy(env.obs, env.task)).abs()
    assert change.max() < 0.15  # with a floor of 1 mm more than 0.5
    env.close()


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=pytest.mark.slow if "parkour" in path.stem else ()) for path in SHIPPED],
    ids=lambda path: path.stem,
)
def test_a_shipped_policy_is_as_good_as_its_card_says(path):
    card, suite = read_card(path), path.stem.replace("_", "-")
    names = sorted(card["tasks"])
    tasks = [names[0], names[len(names) // 2], names[-1]]
    words = ["policy=pretrained", f"tasks=[{','.join(tasks)}]", "episodes=8"]
    config = compose(EvalConfig, [f"suite={suite}", *words], saved=open_info(path).worlds)
    evaluator = Evaluator(config, config.episodes)
    found = evaluator.run(build_policy(config, evaluator.env))
    evaluator.close()
    expected = sum(card["tasks"][task]["success"] for task in tasks) / len(tasks)
    assert found["mean_success"] == pytest.approx(expected, abs=0.25)  # 24 episodes
