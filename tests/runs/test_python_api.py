"""Training from Python: the settings and checks of the command line, and a run to look at."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from dataclasses import fields
from pathlib import Path

import pytest

import polytask
from polytask.algos.ppo import PPOConfig
from polytask.algos.sac import SACConfig
from polytask.config.compose import compose, to_plain
from polytask.config.history import HistoryOptions
from polytask.config.keywords import configure
from polytask.config.schema import EvalConfig, TrainConfig
from polytask.errors import UserError
from polytask.runs.checkpoint import load
from polytask.runs.evaluate import evaluate
from polytask.runs.python_api import TrainSettings
from polytask.runs.train import train as run_training

ROOT = Path(__file__).parents[2]
TINY = {
    "tasks": ["reach", "drawer-close"],
    "num_envs": 4,
    "episode_length": 12,
    "algo": {"horizon": 8, "minibatch": 16},
    "threads": 1,
    "max_iterations": 2,
    "eval_episodes": 0,
    "video": False,
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return polytask.train(**TINY, run_dir=tmp_path_factory.mktemp("runs") / "here")


def test_a_run_has_metrics_a_policy_and_an_evaluation(run):
    assert [row["frames"] for row in run.metrics()] == [32, 64]
    assert run.summary["complete"]
    policy = run.policy()
    assert policy([0.0] * 39, "reach").shape == (4,)
    found = run.evaluate(episodes=2, seed=3)
    assert (found["episodes"], found["seed"], found["episode_length"]) == (2, 3, 12)
    assert found["tasks"].keys() == {"reach", "drawer-close"}


def test_a_run_is_opened_again_and_continued(run):
    again = polytask.TrainedRun(str(run.directory))
    assert again.metrics() == run.metrics()
    more = polytask.train(checkpoint=run.directory, max_iterations=3)
    assert more.directory == run.directory
    assert [row["iteration"] for row in more.metrics()] == [1, 2, 3]
    assert load(run.directory)["config"]["algo"]["horizon"] == 8  # that of the run, not the default


def test_a_folder_without_a_run_is_one_line(tmp_path):
    with pytest.raises(UserError, match="is not a run directory"):
        polytask.TrainedRun(tmp_path)


def test_a_thread_can_train(tmp_path):
    runs = []
    settings = {**TINY, "max_iterations": 1, "run_dir": tmp_path / "run"}
    thread = threading.Thread(target=lambda: runs.append(polytask.train(**settings)))
    thread.start()
    thread.join()
    assert len(runs[0].metrics()) == 1


def test_the_typed_settings_are_those_of_the_command():
    assert set(TrainSettings.__annotations__) == {each.name for each in fields(TrainConfig)} - {"suite", "format"} | {
        "preset"
    }


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"suite": "mt50", "seed": 3}, ["suite=mt50", "seed=3"]),
        ({"preset": "cpu_demo", "max_frames": 5}, ["preset=cpu_demo", "max_frames=5"]),
        ({"preset": "cpu_demo", "suite": "mt10"}, ["preset=cpu_demo", "suite=mt10"]),
        ({"preset": "cpu_demo", "envs_per_task": [1, 2, 3, 4]}, ["preset=cpu_demo", "envs_per_task=[1,2,3,4]"]),
        ({"algo": "sac", "net": {"name": "moore", "experts": 3}}, ["algo=sac", "net=moore", "net.experts=3"]),
        ({"algo": SACConfig(lr=1e-3)}, ["algo=sac", "algo.lr=1e-3"]),
        ({"algo": {"lr": 1}}, ["algo.lr=1"]),
        ({"critic_net": "mlp", "run_dir": Path("x")}, ["critic_net=mlp", "run_dir=x"]),
        ({"critic_net": None, "sim": "cpu"}, ["critic_net=null", "sim=cpu"]),
        ({"tasks": ("reach",), "max_frames": None}, ["tasks=[reach]", "max_frames=null"]),
        ({"history": {"worlds": 8}}, ["history.worlds=8"]),
        ({"history": HistoryOptions(worlds=8, every=2)}, ["history.worlds=8", "history.every=2"]),
    ],
)
def test_keywords_mean_what_words_mean(settings, words):
    assert to_plain(configure(TrainConfig, settings)) == to_plain(compose(TrainConfig, words))


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"sed": 1}, "unknown setting 'sed'; did you mean 'seed'?"),
        ({"algo": "sak"}, "unknown algo 'sak'; did you mean 'sac'?"),
        ({"algo": {"lrr": 1}}, "unknown setting of algo=ppo 'lrr'; did you mean 'lr'?"),
        ({"algo": {"lr": -1}}, "algo.lr=-1.0 is not valid; it must be at least 0.0"),
        ({"algo": {"lr": "fast"}}, "algo.lr=fast cannot be used; it must be a number"),
        ({"algo": PPOConfig(lr=-1)}, "algo.lr=-1 is not valid"),
        ({"critic_net": {"hidden": [8]}}, "critic_net is empty; choose an option"),
        ({"plugins": ["my_nothing"]}, "there is no module 'my_nothing'"),
        ({"net": PPOConfig()}, "net must be a name, a config object or a mapping of settings"),
        ({"history": {"world": 8}}, "unknown setting of history 'world'; did you mean 'worlds'?"),
        ({"history": {"worlds": 1.5}}, "history.worlds=1.5 cannot be used; it must be a whole number"),
        ({"history": 8}, "history=8 cannot be used; it must be a table of settings"),
        ({"seed": 1.5}, "seed=1.5 cannot be used; it must be a whole number"),
        ({"save_every": -1}, "save_every=-1 is not valid; it must be at least 0"),
        ({"suite": "mt11"}, "suite=mt11 is not valid"),
        ({"preset": "cpu_demi"}, "unknown preset 'cpu_demi'"),
        ({"num_envs": 4, "envs_per_task": [2]}, "give only one of them"),
    ],
)
def test_mistakes_are_one_line(tmp_path, monkeypatch, settings, line):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as error:
        polytask.train(**settings)
    assert line in str(error.value)
    assert not list(tmp_path.iterdir())


def test_a_config_that_was_changed_by_hand_is_checked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = compose(TrainConfig, ["tasks=[reach]"])
    config.save_every = -5
    with pytest.raises(UserError, match="save_every=-5 is not valid"):
        run_training(config)
    with pytest.raises(UserError, match="episodes=0 is not valid"):
        evaluate(EvalConfig(policy="random", episodes=0))


def test_the_examples_of_the_docs_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    tiny = "max_iterations=1, episode_length=12, threads=1, eval_episodes=0, video=False"
    (code,) = blocks("python_api")
    code = code.replace("max_frames=2_000_000", tiny).replace("num_envs=64", "num_envs=4").replace("20)", "1)")
    code = code.replace('"lr": 1e-3', '"lr": 1e-3, "horizon": 8')
    exec(compile(code, "snippet", "exec"), {})
    assert capsys.readouterr().out.startswith("32 ")
    first, second = blocks("policies")
    exec(compile(first, "snippet", "exec"), {})
    assert "('reach', 'drawer-close') 80.0 {'name': 'hand position'" in capsys.readouterr().out
    assert second == 'policy = polytask.load_policy("mt10")\n'


def blocks(page):
    return re.findall(r"```python\n(.*?)```", (ROOT / "docs" / f"{page}.md").read_text(), re.DOTALL)


def test_importing_the_package_loads_nothing_heavy():
    heavy = ("torch", "mujoco", "hydra", "numpy")
    code = f"import sys, polytask; print([name for name in {heavy} if name in sys.modules], dir(polytask))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.startswith("[] ")
    assert all(name in out for name in ("'make'", "'train'", "'load_policy'", "'TrainedRun'"))
