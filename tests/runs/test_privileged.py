"""`privileged=critic`: the policy learns from what a robot measures, its critic from everything, from run to export."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.checkpoints import rows
from helpers.learning import assert_resumes, context_of
from helpers.toy import PointMass
from torch.testing import assert_close

import polytask
from polytask import algos
from polytask.algos import ALGOS
from polytask.cli.main import main
from polytask.config.compose import compose
from polytask.config.schema import TrainConfig
from polytask.errors import UserError
from polytask.nets.mlp import MlpConfig
from polytask.robots.go1 import DEFAULT
from polytask.runs.checkpoint import load
from polytask.runs.setup import build_algo, spec_of

REAL = ["robot=go1_real", "tasks=[flat,dome]", "reality.history=2", "privileged=critic"]
SMALL = ["num_envs=4", "algo.horizon=4", "net.hidden=[16]", "max_iterations=2", "episode_length=6", "eval_episodes=1"]
MEASURED = 180 + 2 * 41


def toy(way: str = "per_task") -> Any:
    """Build PPO on the toy, whose policy does not see the last entry."""

    def build(env: PointMass) -> Any:
        env.spec = replace(env.spec, actor_dim=2, obs_scale=(2.0, 0.5, 1.0))
        config = algos.ALGOS["ppo"][0](horizon=8, minibatch=32, epochs=1, normalize=way)
        return algos.build(config, context_of(env, MlpConfig(hidden=[16])))

    return build


@pytest.mark.parametrize("way", ["per_task", "shared", "fixed"])
def test_learner_resumes_bit_for_bit(way: str) -> None:
    assert_resumes(toy(way), after=1)


def test_policy_ignores_what_only_the_critic_sees() -> None:
    env = PointMass((4, 4, 4))
    algo = toy()(env)
    algo.iterate(env)
    obs, task = rows(algo, 3)
    other = obs.clone()
    other[:, 2] += 1.0
    assert torch.equal(algo.act(obs, task, explore=False), algo.act(other, task, explore=False))
    assert not torch.equal(algo._value_at(obs, task), algo._value_at(other, task))
    changed = obs.clone()
    changed[:, 1] += 1.0
    assert not torch.equal(algo.act(obs, task, explore=False), algo.act(changed, task, explore=False))


def test_other_algorithms_refuse_it_in_one_line() -> None:
    env = PointMass((4, 4, 4))
    env.spec = replace(env.spec, actor_dim=2)
    for name in set(ALGOS) - {"ppo"}:
        line = (
            f"privileged=critic needs a critic that sees more than the policy, which algo={name} has not; use algo=ppo"
        )
        with pytest.raises(UserError, match=line):
            algos.build(ALGOS[name][0](), context_of(env, MlpConfig(hidden=[16])))


def test_command_refuses_it_before_it_builds_worlds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", *REAL, "algo=sac", "num_envs=100000"]) == 2
    assert "which algo=sac has not; use algo=ppo, or privileged=none" in capsys.readouterr().err
    assert main(["train", "tasks=[reach]", "privileged=critic"]) == 2
    assert "privileged=critic does not apply to tasks of manipulation" in capsys.readouterr().err


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("real") / "run"
    assert main(["train", *REAL, *SMALL, f"run_dir={folder}", "video=false", "threads=1"]) == 0
    return folder


@pytest.fixture
def made() -> Any:
    """The worlds of the run that show only what a robot measures."""
    reality = polytask.envs.options.RealityOptions(history=2)
    return polytask.make(tasks=["flat", "dome"], robot="go1_real", privileged="none", num_envs=4, reality=reality)


def test_network_sizes(run: Path) -> None:
    learners = load(run)["algo"]["learners"]
    widths = {name: max(t.shape[1] for t in one["net"].values() if t.dim() == 2) for name, one in learners.items()}
    full = load(run)["spec"]["obs_dim"]
    assert widths == {"actor": MEASURED + 2, "critic": full + 2}  # and the task's one-hot
    assert full == MEASURED + 163 + 32 + 28


def test_loaded_policy_acts_on_what_a_robot_measures(run: Path, made: Any) -> None:
    state = load(run)
    algo = build_algo(compose(TrainConfig, [], saved=state["config"]), spec_of(state), torch.device("cpu"))
    algo.load_state_dict(state["algo"])
    policy = polytask.load_policy(run)
    obs, task = rows(algo, 2)
    assert_close(policy(obs[:, :MEASURED], task), algo.act(obs, task, explore=False), atol=1e-6, rtol=0.0)
    assert policy(made.obs, made.task).shape == (4, 12)
    with pytest.raises(UserError, match=r"an observation has 262 numbers, .*; worlds with privileged=none show these"):
        policy(obs, task)


def test_export_names_its_observations_and_gives_joint_targets(run: Path, tmp_path: Path, made: Any) -> None:
    path = tmp_path / "walk.safetensors"
    assert main(["export", f"checkpoint={run}", f"output={path}"]) == 0
    policy = polytask.load_policy(path)
    info = policy.info
    assert (info.robot, info.control_rate, info.obs_dim) == ("go1_real", 50.0, MEASURED)
    names = [part["name"] for part in info.observation]
    assert names[:3] == ["angular velocity", "roll and pitch", "bearing of the next two waypoints"]
    assert names[-1] == "last action, 2 ago"
    assert not any("true" in name or name == "velocity" for name in names)
    assert info.observation[-1]["start"] + info.observation[-1]["size"] == MEASURED
    assert [entry["offset"] for entry in info.action] == list(DEFAULT)
    assert info.worlds["privileged"] == "none"
    assert info.worlds["reality"]["history"] == 2
    action = policy(made.obs, made.task)
    assert_close(policy.joint_targets(made.obs, made.task), torch.tensor(DEFAULT) + action)
    array = policy.joint_targets(made.obs.numpy(), made.task.numpy())
    assert_close(torch.from_numpy(array), torch.tensor(DEFAULT) + action)
    program = tmp_path / "walk.pt2"
    assert main(["export", f"checkpoint={run}", "to=torch", f"output={program}"]) == 0


def test_card_evaluates_the_file_in_worlds_that_fit_it(run: Path, tmp_path: Path) -> None:
    words = [f"checkpoint={run}", f"output={tmp_path / 'walk.safetensors'}", "card=true", "episodes=1"]
    assert main(["export", *words]) == 0
    assert (tmp_path / "walk.json").exists()


def test_evaluation_and_continuation_of_the_run(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", f"checkpoint={run}", "episodes=1"]) == 0
    assert main(["eval", f"checkpoint={run}", "episodes=1", "privileged=none"]) == 2
    err = capsys.readouterr().err
    assert "its policy was trained on observations of 485 numbers, and these worlds show 262" in err
    assert main(["train", f"checkpoint={run}", "max_iterations=3"]) == 0


@pytest.mark.gpu
def test_real_robots_train_continue_and_are_evaluated_on_a_gpu(tmp_path: Path) -> None:
    """Captured graphs replace robots, push them and read their memory; evaluations between them load another state."""
    words = ["preset=parkour/go1_real_flat", "num_envs=84", "episode_length=20", "algo.minibatch=null", "threads=1"]
    limits = ["max_iterations=3", "eval_every=1", "eval_episodes=1", f"run_dir={tmp_path / 'run'}"]
    assert main(["train", *words, *limits]) == 0
    assert main(["train", f"checkpoint={tmp_path / 'run'}", "max_iterations=4"]) == 0
    state = load(tmp_path / "run")
    (group,) = state["env"]["groups"]
    assert all(tensor.isfinite().all() for tensor in (*group["reality"].values(), *group["body"].values()))
    assert group["body"]["load"].std() > 0.5
    assert group["reality"]["push_in"].min() > 0
    assert group["reality"]["history"].abs().max() > 0


def test_policies_of_arms_have_no_joint_targets(tmp_path: Path) -> None:
    from helpers.checkpoints import write_checkpoint

    write_checkpoint(tmp_path / "checkpoint.pt", "net.hidden=[16]")
    with pytest.raises(UserError, match="not offsets of joint angles"):
        polytask.load_policy(tmp_path).joint_targets(torch.zeros(39), "reach")
