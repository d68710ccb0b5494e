"""Demonstrations: which steps of a data set a run imitates, what comes of it, and which data sets it refuses."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.ppo import make as make_ppo
from helpers.toy import GOALS, PointMass
from torch.testing import assert_close
from torch.utils._pytree import tree_leaves

from polytask.cli.main import main
from polytask.datasets.read import EpisodeDataset, load
from polytask.envs.make import make_env
from polytask.envs.options import EnvOptions
from polytask.files import read_json, read_json_lines
from polytask.runs.checkpoint import load as load_checkpoint
from polytask.runs.checkpoint import save
from polytask.runs.demonstrations import last_success, read_demonstrations

TASKS = "tasks=[drawer-close,button-press-topdown]"
RUN = [
    "tasks=[button-press-topdown,push]",
    "num_envs=4",
    "algo.horizon=4",
    "eval_episodes=0",
    "threads=1",
    "video=false",
]
IMITATES = ["algo.imitation_coef=1", "algo.imitation_steps=300"]


def collect(folder: Path, *words: str) -> Path:
    """Collect two episodes of a task."""
    assert main(["collect", "episodes=2", "num_envs=4", "threads=1", *words, f"output={folder}"]) == 0
    return folder


@pytest.fixture(scope="module")
def expert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return four short episodes, of which only one succeeds, in button-press-topdown."""
    return collect(tmp_path_factory.mktemp("data") / "expert", TASKS, "policy=scripted", "episode_length=70")


def test_steps_up_to_the_last_success_are_imitated(expert: Path) -> None:
    env = make_env(EnvOptions(tasks=["push", "button-press-topdown"], num_envs=2))
    found, data = read_demonstrations(str(expert), env), load(expert)
    (shown,) = (each for each in map(data.episode, range(4)) if each.success.any())
    last = int(shown.success.nonzero().max())
    assert found.episodes == {"button-press-topdown": 1} and found.task.tolist() == (last + 1) * [1]
    assert_close(found.obs, shown.obs[: last + 1])
    assert_close(found.action, shown.action[: last + 1])
    env.close()


def test_the_last_success_of_every_episode() -> None:
    flags = torch.tensor([0, 1, 0, 0, 0, 0, 1, 1, 0, 1]).bool()  # episodes of 3, 2 and 5 steps
    empty, numbers = torch.zeros(10, 1), torch.zeros(3, dtype=torch.int64)
    data = EpisodeDataset(
        ("a",), {}, empty, empty, empty[:, 0], flags, flags, flags, *(3 * [numbers]), torch.tensor([3, 2, 5]), empty
    )  # fmt: skip
    assert last_success(data, 5).tolist() == [1, -1, 4]
    assert last_success(data, 4).tolist() == [1, -1, 2]  # only these steps count
    assert last_success(data, 1).tolist() == [-1, -1, -1]


def test_a_run_begins_with_them_and_continues_without_the_folder(
    expert: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, run = Path(shutil.copytree(expert, tmp_path / "data")), tmp_path / "run"
    words = [*RUN, *IMITATES, f"demos={folder}", f"run_dir={run}"]
    assert main(["train", *words, "max_iterations=1"]) == 0
    printed = capsys.readouterr()
    assert f"demos {folder}: successful episodes: button-press-topdown 1; 1 tasks have none" in printed.err
    assert "episodes of training, dense reward, with demonstrations" in " ".join(printed.out.split())
    memory = torch.load(run / "checkpoint.pt", weights_only=True)["algo"]["success_memory"]
    assert memory["_written"].tolist() == [300, 0]
    shown = load(folder)
    is_from_them = (memory["_obs"][0][:, None] == shown.obs[shown.step_task == 1]).all(dim=-1).any(dim=-1)
    assert is_from_them.all()
    assert main(["train", *words, "max_iterations=3", f"run_dir={tmp_path / 'whole'}"]) == 0
    shutil.rmtree(folder)
    preset = ["preset=cpu_demo", *words[:-1], "algo.lr=5e-4", "algo.minibatch=null", "net=mlp"]
    for iteration, more in ((2, []), (3, [word for word in preset if not word.startswith("demos=")])):
        assert main(["train", f"checkpoint={run}", *more, f"max_iterations={iteration}"]) == 0
    summary = json.loads((run / "summary.json").read_text())
    assert summary["demonstrations"] == {"button-press-topdown": 1} and summary["iterations"] == 3
    for each in (run, tmp_path / "whole"):
        assert torch.load(each / "checkpoint.pt", weights_only=True)["config"]["demos"] == str(folder)
        assert f"demos: {folder}" in (each / "config.yaml").read_text()
    resumed, uninterrupted = (
        torch.load(each / "checkpoint.pt", weights_only=True)["algo"] for each in (run, tmp_path / "whole")
    )
    assert_close(resumed, uninterrupted, rtol=0, atol=0)


@pytest.fixture(scope="module")
def reaching(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return two episodes that reach."""
    folder = tmp_path_factory.mktemp("data") / "reaching"
    return collect(folder, "tasks=[reach]", "policy=scripted", "episode_length=60")


REACHES = ["tasks=[reach]", "num_envs=4", "algo.horizon=50", "threads=1", "eval_episodes=0", "video=false"]


def metrics(run: Path) -> list[dict[str, float]]:
    """Return what a run has logged, without its times."""
    rows = read_json_lines(run / "metrics.jsonl")
    return [{name: row[name] for name in row if name not in ("seconds", "frames_per_second")} for row in rows]


def test_half_a_run_and_the_other_half_are_the_run_bit_for_bit(reaching: Path, tmp_path: Path) -> None:
    words = [*REACHES, *IMITATES, f"demos={reaching}"]
    whole, halves = tmp_path / "whole", tmp_path / "halves"
    assert main(["train", *words, "max_iterations=6", f"run_dir={whole}"]) == 0
    assert main(["train", *words, "max_iterations=3", f"run_dir={halves}"]) == 0
    assert main(["train", f"checkpoint={halves}", "max_iterations=6"]) == 0
    one, other = (torch.load(each / "checkpoint.pt", weights_only=True) for each in (whole, halves))
    parts = (tree_leaves([state["algo"], state["env"]]) for state in (one, other))
    for mine, theirs in zip(*parts, strict=True):
        assert torch.equal(mine, theirs) if isinstance(mine, torch.Tensor) else mine == theirs
    assert metrics(halves) == metrics(whole)
    memory = one["algo"]["success_memory"]
    is_shown = (memory["_obs"][0][:, None] == load(reaching).obs).all(dim=-1).any(dim=-1)
    assert 0 < is_shown.sum() < 300  # own successes have overwritten some of the steps


def test_evaluations_and_exports_say_what_the_policy_was_shown(
    reaching: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, file, other = (tmp_path / name for name in ("run", "policy.safetensors", "plain"))
    train = ["train", *REACHES, *IMITATES, "max_iterations=1"]
    assert main([*train, f"demos={reaching}", f"run_dir={run}"]) == main([*train, f"run_dir={other}"]) == 0
    assert main(["export", f"checkpoint={run}", f"output={file}"]) == 0
    capsys.readouterr()
    for source, shown in ((run, {"reach": 2}), (file, {"reach": 2}), (other, None)):
        words = ["eval", f"checkpoint={source}", "tasks=[reach]", "episodes=1", "episode_length=2", "threads=1"]
        assert main([*words, "format=json"]) == main(words) == 0
        payload, end = json.JSONDecoder().raw_decode(printed := capsys.readouterr().out)
        assert payload["demonstrations"] == shown
        assert ("trained with demonstrations" in " ".join(printed[end:].split())) == bool(shown)


def test_what_starts_from_a_policy_with_demonstrations_has_them_too(
    reaching: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, file, plain = (tmp_path / name for name in ("first", "policy.safetensors", "plain"))
    train = ["train", *REACHES, "max_iterations=1"]
    assert main([*train, *IMITATES, f"demos={reaching}", f"run_dir={first}"]) == main([*train, f"run_dir={plain}"]) == 0
    assert main(["export", f"checkpoint={first}", f"output={file}"]) == 0
    capsys.readouterr()
    for source, count in ((first, 2), (file, 2), (plain, None)):
        run = tmp_path / f"from-{source.name}"
        assert main([*train, f"init_from={source}", f"run_dir={run}"]) == 0
        printed = capsys.readouterr()
        assert ("was trained with demonstrations, so this one is, too" in printed.err) == bool(count)
        assert ("dense reward, with demonstrations" in " ".join(printed.out.split())) == bool(count)
        assert main(["train", f"checkpoint={run}", "max_iterations=2"]) == 0  # its checkpoint says it, too
        assert read_json(run / "summary.json", "summary", {})["demonstrations"] == (count and {"reach": count})
        capsys.readouterr()
    again = tmp_path / "again"
    assert main([*train, *IMITATES, f"init_from={first}", f"demos={reaching}", f"run_dir={again}"]) == 0
    assert read_json(again / "summary.json", "summary", {})["demonstrations"] == {"reach": 4}
    capsys.readouterr()
    (tmp_path / "from-plain/start.json").unlink()  # as in a run of an early version
    (tmp_path / "from-first/summary.json").unlink()  # as in a run that was killed
    assert main(["report", f"runs=[{tmp_path / 'from-first'},{tmp_path / 'from-plain'}]"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "with demonstrations" in shown and "without demonstrations" in shown


def test_a_memory_of_another_version_is_one_line(
    reaching: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    assert main(["train", *REACHES, *IMITATES, "max_iterations=1", f"demos={reaching}", f"run_dir={run}"]) == 0
    state = load_checkpoint(run)
    del state["algo"]["success_memory"]["_last_done"]
    save(run / "checkpoint.pt", state)
    capsys.readouterr()
    assert main(["train", f"checkpoint={run}", "max_iterations=2"]) == 2
    line = " ".join(capsys.readouterr().err.split())
    assert "another version of polytask saved this run: its memory of successes has no '_last_done'" in line


def test_episodes_that_succeed_too_late_are_left_out_and_counted(
    reaching: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = load(reaching)
    early, late = sorted(int(data.episode(number).success.nonzero().min()) for number in range(2))
    assert early < late
    words = [*REACHES, *IMITATES, "max_iterations=1", f"demos={reaching}", f"episode_length={late}"]
    assert main(["train", *words, f"run_dir={tmp_path / 'run'}"]) == 0
    line = f"successful episodes: reach 1; 1 left out, which first succeed after this run's {late} steps"
    assert line in " ".join(capsys.readouterr().err.split())


def test_a_task_without_reward_that_noise_does_not_find_is_learned() -> None:
    rates = {}
    for is_shown in (False, True):
        torch.manual_seed(0)  # of the networks
        env = PointMass((64,))
        env.scale.zero_()  # nothing pays
        ppo = make_ppo(env, imitation_coef=5.0, imitation_steps=20_000, entropy_coef=0.0, lr=3e-3, initial_std=0.1)
        if is_shown:
            obs = 2 * torch.rand(200, 3) - 1
            obs[:, 2] = 3.0
            towards = torch.tensor(GOALS[0]) - obs[:, :2]
            ppo.imitate(torch.zeros(200, dtype=torch.int64), obs, (4 * towards).clamp(-1, 1))
        for _ in range(10):
            ppo.iterate(env)
        env.reset()
        steps = [env.step(ppo.act(env.obs, env.task, explore=False)) for _ in range(29)]
        rates[is_shown] = torch.stack([step.success for step in steps]).any(dim=0).float().mean().item()
    assert rates[False] < 0.2 and rates[True] > 0.7


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "the weight algo.imitation_coef, which is 0; try 1"),
        (["algo=sac"], "use algo=ppo or algo=grpo, or leave demos out"),
        ([*IMITATES, "robot=panda"], "shows the robot sawyer, and this run has panda"),
        (
            [*IMITATES, "tasks=[push]"],
            "has episodes of drawer-close, button-press-topdown, and this run has none of these tasks",
        ),
        ([*IMITATES, "tasks=[drawer-close]"], "succeeds in a task of this run within its 150 steps, so there is noth"),
        ([*IMITATES, "episode_length=20"], "succeeds in a task of this run within its 20 steps, so there is noth"),
        ([*IMITATES, "tasks=[flat]"], "shows the robot sawyer, and this run has go1"),
    ],
)
def test_what_cannot_be_imitated_is_one_line_and_leaves_nothing(
    words: list[str], message: str, expert: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = [word for word in RUN if not (words[:1] == ["algo=sac"] and word.startswith("algo."))]
    assert main(["train", *plain, *words, "max_iterations=1", f"demos={expert}", f"run_dir={tmp_path / 'run'}"]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "run").exists()


@pytest.fixture
def changed(expert: Path, tmp_path: Path) -> Callable[[bool, str, int, float], int]:
    """Return what copies the episodes to `data`, with another number in a step of the first that succeeds or fails."""

    def change(succeeds: bool, array: str, step: int, value: float) -> int:
        folder, data = Path(shutil.copytree(expert, tmp_path / "data")), load(expert)
        number = next(each for each in range(4) if bool(data.episode(each).success.any()) == succeeds)
        with np.load(folder / "shard-00000.npz") as file:
            arrays = dict(file)
        arrays[array][int(data.start[number]) + step, 1] = value
        np.savez(folder / "shard-00000.npz", **arrays)
        return number

    return change


@pytest.mark.parametrize(
    ("where", "value", "message"),
    [
        (("action", 3), 1.01, "has 1.01 in the action of step 3; every action must be in [-1, 1]"),
        (("action", 0), -math.inf, "has -inf in the action of step 0; every action must be in [-1, 1]"),
        (("obs", 2), math.nan, "has nan in the observation of step 2; every observation must be finite"),
    ],
)
def test_numbers_that_no_world_shows_are_refused_with_their_episode(
    where: tuple[str, int], value: float, message: str, changed: Callable[..., int], tmp_path: Path
) -> None:
    number = changed(True, *where, value)
    run = ["train", *RUN, *IMITATES, f"demos={tmp_path / 'data'}", f"run_dir={tmp_path / 'run'}", "max_iterations=1"]
    with redirect_stderr(StringIO()) as printed:
        assert main(run) == 2
    line = " ".join(printed.getvalue().split())
    assert f"demos: episode {number} in '{tmp_path / 'data'}', of button-press-topdown, {message}" in line
    assert not (tmp_path / "run").exists()


def test_episodes_that_fail_are_not_imitated_whatever_their_numbers(
    changed: Callable[..., int], tmp_path: Path
) -> None:
    changed(False, "action", 0, 2.0)
    env = make_env(EnvOptions(tasks=["button-press-topdown"], num_envs=1))
    assert read_demonstrations(str(tmp_path / "data"), env).episodes == {"button-press-topdown": 1}
    env.close()


@pytest.mark.parametrize("scan", ["scan.every=1", "scan.spacing=0.2"])
def test_what_an_observation_shows_must_be_the_same(
    scan: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["tasks=[flat]", "level=0", "num_envs=1", "threads=1"]
    assert main(["collect", *words, "policy=random", "episodes=1", "episode_length=4", f"output={tmp_path}/d"]) == 0
    run = ["train", *words, *IMITATES, "max_iterations=1", "eval_episodes=0", "algo.horizon=4", f"demos={tmp_path}/d"]
    name = scan.split("=")[0]
    assert main([*run, scan, f"run_dir={tmp_path}/run"]) == 2
    assert f"shows worlds with {name}=" in (line := " ".join(capsys.readouterr().err.split()))
    assert f"and this run has {scan}; collect the episodes with the same options" in line
    assert main([*run, f"run_dir={tmp_path}/run"]) == 2  # the same worlds, in which nothing succeeded
    assert "succeeds in a task of this run" in " ".join(capsys.readouterr().err.split())


def test_other_demonstrations_cannot_join_a_run_that_goes_on(
    expert: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain, shown = tmp_path / "plain", tmp_path / "shown"
    assert main(["train", *RUN, *IMITATES, "max_iterations=1", f"run_dir={plain}"]) == 0
    assert main(["train", f"checkpoint={plain}", "max_iterations=2", f"demos={expert}"]) == 2
    assert "continues one that began with demos=null: leave demos out" in " ".join(capsys.readouterr().err.split())
    assert main(["train", *RUN, *IMITATES, "max_iterations=1", f"demos={expert}", f"run_dir={shown}"]) == 0
    assert main(["train", f"checkpoint={shown}", "max_iterations=2", "demos=others"]) == 2
    assert f"began with demos={expert}: leave demos out" in " ".join(capsys.readouterr().err.split())
    assert main(["train", f"checkpoint={shown}", "max_iterations=2", f"demos={expert}"]) == 0  # as a preset may say it


def test_a_benchmark_does_not_read_them(expert: Path, tmp_path: Path) -> None:
    run, words = tmp_path / "run", ["threads=1", "iterations=1", "warmup=1", "steps=1", "format=json"]
    assert main(["train", *RUN, *IMITATES, "max_iterations=1", f"demos={expert}", f"run_dir={run}"]) == 0
    assert main(["bench", f"checkpoint={run}", "episode_length=3", *words]) == 0
    assert main(["bench", "what=train", "tasks=[reach]", "num_envs=2", "demos=nowhere", *words]) == 0
