"""Runs that start from a policy: they act as it does, without its noise, and learn from there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from torch.testing import assert_close

import polytask
from polytask.cli.main import main
from polytask.config.compose import compose
from polytask.config.schema import TrainConfig
from polytask.policies.pretrained import find_pretrained
from polytask.runs.setup import build_algo, build_train_env
from polytask.runs.starts import load_start, state_of
from polytask.runs.transfer import initialize

PRESETS = {"mt10": "mt10_gpu", "parkour-hard": "parkour/vanilla_hard_tuned"}


@pytest.mark.parametrize("suite", PRESETS)
def test_a_run_starts_with_the_actions_of_the_policy(suite: str) -> None:
    words = [f"preset={PRESETS[suite]}", f"suite={suite}", "device=cpu", "sim=cpu", "algo.bf16=false"]
    config = compose(TrainConfig, [*words, "num_envs=42", f"init_from={suite}"])
    env = build_train_env(config)
    algo = build_algo(config, env.spec, env.device)
    found = initialize(algo, env.spec.tasks, load_start(config), suite)
    policy = polytask.load_policy(suite)
    assert_close(algo.act(env.obs, env.task, explore=False), policy(env.obs, env.task), rtol=1e-4, atol=1e-4)
    # Parkour's preset scales observations by constants, so it has no use for statistics.
    statistics = {"mt10": [], "parkour-hard": ["obs_norm.count", "obs_norm.mean", "obs_norm.variance"]}
    assert found.unused == statistics[suite] and not found.partly
    assert {name.partition(".")[0] for name in found.fresh} == {"actor", "critic", "value_norm"}
    assert [name for name in found.fresh if name.startswith("actor")] == ["actor.log_std"]  # files hold no noise
    env.close()


def test_statistics_fit_the_normalizer_of_the_run() -> None:
    policy = polytask.load_policy("mt10")
    with_own = compose(TrainConfig, ["suite=mt10", "algo.normalize=shared"])
    assert len(state_of(policy, with_own)["algo"]["obs_norm"]["mean"]) == 10  # each task's own: they do not fit
    policy.actor.mean[:], policy.actor.scale[:] = policy.actor.mean[3].clone(), policy.actor.scale[3].clone()
    for normalize, rows in (("per_task", 10), ("shared", 1)):
        state = state_of(policy, compose(TrainConfig, ["suite=mt10", f"algo.normalize={normalize}"]))["algo"][
            "obs_norm"
        ]
        assert state["count"].shape == (rows,)
        assert_close(state["mean"].float(), policy.actor.mean[:rows])
        assert_close(state["variance"].float().rsqrt(), policy.actor.scale[:rows])


def test_statistics_of_a_file_count_for_as_many_rows_as_the_run_says() -> None:
    policy = polytask.load_policy("mt10")
    for words, rows in (([], 10_000), (["init_rows=77"], 77)):
        state = state_of(policy, compose(TrainConfig, ["suite=mt10", *words]))
        assert state["algo"]["obs_norm"]["count"].tolist() == [rows] * 10


def test_a_policy_of_more_tasks_gives_those_of_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = find_pretrained("mt10")
    words = ["tasks=[door-open,reach]", "num_envs=4", "net=simba_v2", "algo.horizon=4", "max_iterations=1"]
    assert main(["train", *words, f"init_from={file}", f"run_dir={tmp_path / 'run'}", "eval_episodes=0"]) == 0
    assert "tasks of both runs: door-open, reach" in capsys.readouterr().err
    start = json.loads((tmp_path / "run" / "summary.json").read_text())["initialization"]
    assert "obs_norm.mean" in start["partly"] and "actor.net.embed.weight" in start["partly"]


def test_a_file_that_is_no_policy_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.safetensors").write_text("hello")
    for name, line in (
        (tmp_path / "bad.safetensors", "damaged or not a safetensors file"),
        ("mt3", "no checkpoint at"),
    ):
        assert main(["train", "tasks=[reach]", f"init_from={name}", f"run_dir={tmp_path / 'new'}"]) == 2
        error = capsys.readouterr().err
        assert line in error and error.count("\n") == 1 and not (tmp_path / "new").exists()


def test_rows_of_statistics_without_a_start_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "tasks=[reach]", "init_rows=5", f"run_dir={tmp_path / 'new'}"]) == 2
    assert "init_rows belongs to init_from" in capsys.readouterr().err and not (tmp_path / "new").exists()


def test_a_benchmark_of_training_starts_from_a_policy(capsys: pytest.CaptureFixture[str]) -> None:
    small = ["tasks=[reach]", "num_envs=2", "net=simba_v2", "algo.horizon=4", "warmup=0", "iterations=1", "format=json"]
    assert main(["bench", "what=train", *small, "init_from=mt10"]) == 0
    assert json.loads(capsys.readouterr().out)["init_from"] == "mt10"
    assert main(["bench", "what=train", *small, "init_from=mt10", "net=mlp"]) == 2  # so it was really loaded
    assert "mt10 has net=simba_v2, this run net=mlp" in capsys.readouterr().err
    assert main(["bench", "what=env", *small, "init_from=mt10"]) == 2
    assert "init_from needs what=train" in capsys.readouterr().err
