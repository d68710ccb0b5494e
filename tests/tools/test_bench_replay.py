"""Benchmarks with a policy: what is timed are its actions, in the states in which it took them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import polytask
from polytask.cli.main import main
from polytask.config.compose import compose
from polytask.config.schema import BenchConfig
from polytask.envs.multi_task import MultiTaskEnv
from polytask.errors import UserError
from polytask.policies.files import open_info
from polytask.policies.info import PolicyInfo
from polytask.runs.setup import Policy
from polytask.tools.bench import bench
from polytask.tools.bench_replay import Replay

TINY = ["tasks=[reach,push]", "num_envs=4", "sim=cpu", "episode_length=6", "iterations=2", "warmup=1", "steps=3"]


def test_a_replay_repeats_the_recorded_steps_exactly() -> None:
    env = polytask.make(tasks=["reach", "push"], num_envs=4, episode_length=5, seed=3)
    seen = []

    def policy(obs: torch.Tensor, task: torch.Tensor) -> torch.Tensor:
        seen.append(obs.clone())
        return (obs[:, :4] * 40.0).sin()  # depends on what it sees

    replay = Replay(env, policy, 7)
    recorded = seen[5:]  # the first episode is not recorded
    assert len(recorded) == 7
    for _ in range(2):  # a warm-up and the timed run; episodes end within both
        for obs in recorded:
            assert torch.equal(env.obs, obs)
            replay.run(1)
        replay.restart()
    assert len(seen) == 12  # the policy does not run again
    env.close()


def test_the_result_names_the_policy() -> None:
    payload = bench(compose(BenchConfig, ["what=env", "policy=scripted", *TINY])).payload
    assert (payload["policy"], payload["frames"]) == ("scripted", 2 * 3 * 4)
    assert bench(compose(BenchConfig, ["what=sim", *TINY])).payload["policy"] == "random"


def test_the_pretrained_policy_acts_in_worlds_like_its_own(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    acts = []

    class Seen(Replay):
        def __init__(self, env: MultiTaskEnv, policy: Policy, steps: int) -> None:
            expected = polytask.load_policy("mt10").for_tasks(env.spec.tasks)
            acts.append((policy(env.obs, env.task), expected(env.obs, env.task), env.config.episode_length))
            super().__init__(env, policy, steps)

    def info(path: Path) -> PolicyInfo:
        return replace(open_info(path), worlds={"episode_length": 5})

    monkeypatch.setattr("polytask.tools.bench.Replay", Seen)
    monkeypatch.setattr("polytask.runs.policy.open_info", info)
    words = [word for word in TINY if not word.startswith("episode_length")]
    assert main(["bench", "what=env", "policy=pretrained", *words, "format=json"]) == 0
    assert json.loads(capsys.readouterr().out)["policy"] == "pretrained"
    ((action, expected, episode_length),) = acts
    assert torch.equal(action, expected)
    assert episode_length == 5


def test_a_suite_without_pretrained_policy_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "what=env", "policy=pretrained", "suite=mt25"]) == 2
    assert "there is no pretrained policy of mt25; there are policies of mt10, mt50" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["what=sim", "policy=pretrained"], "a policy acts only with what=env"),
        (["what=train", "policy=pretrained"], "a policy acts only with what=env"),
        (["policy=pretrained", "checkpoint=runs/one"], "name one policy"),
        (["what=sim", "policy=scripted"], "a policy acts only with what=env"),
        (["what=train", "checkpoint=runs/one"], "a policy acts only with what=env"),
        (["policy=scripted", "checkpoint=runs/one"], "name one policy"),
        (["policy=expert"], "policy"),
    ],
)
def test_a_policy_without_use_is_refused(words: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        compose(BenchConfig, words)
