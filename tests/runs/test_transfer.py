"""Runs that start from a finished one: what is loaded, what is not, and that both are reported."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.learning import SMALL_NETS, context_of
from helpers.toy import PointMass

from polytask import algos
from polytask.algos import ALGOS
from polytask.cli.main import main
from polytask.errors import UserError
from polytask.nets.care import CareConfig
from polytask.nets.film import FilmConfig
from polytask.nets.mlp import MlpConfig, MultiheadConfig
from polytask.nets.paco import PacoConfig
from polytask.nets.simba_v2 import SimbaV2Config
from polytask.nets.soft_modular import SoftModularConfig
from polytask.nets.task_axes import TaskAxis
from polytask.runs.checkpoint import load
from polytask.runs.divergence import not_finite
from polytask.runs.transfer import TaskNames, initialize, merge, places, saved_parts, shorten
from polytask.types import EnvSpec

TINY: dict[str, dict[str, Any]] = {
    "ppo": {"horizon": 8, "minibatch": 32, "epochs": 1},
    "grpo": {"minibatch": 64, "epochs": 1},
    "pqn": {"horizon": 8, "epochs": 1, "minibatches": 1},
    "sac": {"steps_per_iteration": 6, "batch": 24, "learning_starts": 2, "updates_per_step": 1, "capacity": 1000},
    "fast_td3": {"steps_per_iteration": 6, "batch": 24, "learning_starts": 2, "updates_per_step": 1, "capacity": 1000},
}
every_algo = pytest.mark.parametrize("name", ALGOS)


def worlds(*tasks: str) -> PointMass:
    """Build two worlds of each task, with the given task names instead of those of the toy."""
    env = PointMass((2,) * len(tasks))
    env.spec = EnvSpec(3, 2, tasks, env.spec.envs_per_task, env.spec.episode_length)
    return env


def build(name: str, env: PointMass, net: Any = None, seed: int = 0) -> Any:
    """Build a small learner."""
    context = replace(context_of(env, net or MlpConfig(hidden=[16, 16])), seed=seed)
    return algos.build(ALGOS[name][0](**TINY[name]), context)


def finished(name: str, env: PointMass, net: Any = None) -> tuple[Any, dict[str, Any]]:
    """Train for two iterations, and return the learner and its checkpoint."""
    algo = build(name, env, net, seed=7)
    for _ in range(2):
        algo.iterate(env)
    return algo, {"algo": algo.state_dict(), "spec": {"tasks": env.spec.tasks}}


@every_algo
def test_equal_tasks_start_with_the_finished_policy(name: str) -> None:
    env = worlds("a", "b", "c")
    old, state = finished(name, env)
    new = build(name, env)
    obs = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
    assert (new.act(obs, env.task, explore=False) != old.act(obs, env.task, explore=False)).any()
    found = initialize(new, env.spec.tasks, state, "old")
    assert (new.act(obs, env.task, explore=False) == old.act(obs, env.task, explore=False)).all()
    assert found.loaded and not (found.partly or found.fresh or found.unused or found.remark)
    assert found.message() == f"init_from old: {len(found.loaded)} of {len(found.loaded)} tensors loaded"
    assert all(value.isfinite() for value in new.iterate(env).values())


@every_algo
def test_counters_optimisers_and_replay_start_anew(name: str) -> None:
    env = worlds("a", "b", "c")
    _, state = finished(name, env)
    new, untouched = build(name, env), build(name, env).state_dict()
    initialize(new, env.spec.tasks, state, "old")
    own = new.state_dict()
    assert all(not learner["optimizer"] for learner in own["learners"].values())
    assert torch.equal(own["generator"], untouched["generator"])
    for counter in ("iteration", "steps", "updates"):
        assert own.get(counter) == untouched.get(counter)
    if "experience" in own:
        assert own["experience"]["steps"] == own["experience"]["replay"]["count"] == 0
        assert not own["experience"]["reward_norm"]["returns"].any()
        assert own["experience"]["reward_norm"]["largest"].all()


@every_algo
def test_statistics_of_many_rows_follow_new_ones_at_once(name: str) -> None:
    env = worlds("a", "b", "c")
    _, state = finished(name, env)
    for part in saved_parts(state["algo"]).values():
        for path, tensor in part.items():
            if path.endswith("count"):
                tensor.fill_(1e9)
    for limit in ({}, {"init_rows": 77}):
        new = build(name, env)
        initialize(new, env.spec.tasks, state, "old", **limit)
        tensors = [item for part in saved_parts(new.state_dict()).values() for item in part.items()]
        counts = [tensor.tolist() for path, tensor in tensors if path.endswith("count")]
        assert counts and all(count == [limit.get("init_rows", 10_000)] * 3 for count in counts)


@every_algo
def test_networks_are_found_in_the_saved_state_under_their_names(name: str) -> None:
    algo = build(name, worlds("a", "b"))
    saved = saved_parts(algo.state_dict())
    networks = algo.networks()
    assert saved.keys() == networks.keys()
    assert {part: list(net.state_dict()) for part, net in networks.items()} == {k: list(v) for k, v in saved.items()}


def test_other_tasks_bring_no_bound_on_rewards() -> None:
    _, state = finished("sac", worlds("a", "b", "c"))
    new = build("sac", worlds("d", "e", "f"))
    found = initialize(new, ("d", "e", "f"), state, "old")
    assert any(name.endswith("largest") for name in found.fresh)


NETS_BY_TASK = {
    **SMALL_NETS,
    "multihead, embedding": MultiheadConfig(hidden=[16], task_code="embedding"),
    "film": FilmConfig(hidden=[16]),
    "paco": PacoConfig(hidden=[16]),
    "soft_modular": SoftModularConfig(width=16, state_hidden=[16], task_hidden=[16], feature_dim=16),
    "care": CareConfig(context="learned", hidden=[16]),
}


@pytest.mark.parametrize("net", NETS_BY_TASK)
def test_a_task_of_both_runs_keeps_its_policy_among_new_ones(net: str) -> None:
    old, state = finished("ppo", worlds("flat"), NETS_BY_TASK[net])
    env = worlds("beam", "flat", "dome")
    new = build("ppo", env, NETS_BY_TASK[net])
    before = new.state_dict()["learners"]["actor"]["net"]["log_std"].clone()
    found = initialize(new, env.spec.tasks, state, "old")
    obs = torch.randn(20, 3, generator=torch.Generator().manual_seed(0))
    zero, one = torch.zeros(20, dtype=torch.int64), torch.ones(20, dtype=torch.int64)
    expected = old.act(obs, zero, explore=False)
    torch.testing.assert_close(new.act(obs, one, explore=False), expected)
    assert not torch.allclose(new.act(obs, zero, explore=False), expected, atol=1e-3)
    log_std = new.policy.log_std.detach()
    assert torch.equal(log_std[1], old.policy.log_std.detach()[0]) and torch.equal(log_std[[0, 2]], before[[0, 2]])
    assert {"actor.log_std", "obs_norm.mean", "value_norm.count"} <= set(found.partly)
    assert not found.fresh and not found.unused
    assert "tasks of both runs: flat; entries of other tasks are newly initialized" in found.message()


@pytest.mark.parametrize(("before", "now"), [(("beam", "flat", "dome"), ("flat",)), (("flat",), ("beam", "flat"))])
def test_networks_of_other_tasks_survive_the_projection_after_a_step(
    before: tuple[str, ...], now: tuple[str, ...]
) -> None:
    net = SimbaV2Config(hidden=16, blocks=1)
    old, state = finished("ppo", worlds(*before), net)
    new = build("ppo", worlds(*now), net)
    initialize(new, now, state, "old")
    obs = torch.randn(20, 3, generator=torch.Generator().manual_seed(0))
    for mine, loaded in ((new.policy.net, old.policy.net), (new.critic, old.critic)):
        mine.after_step()
        task, old_task = (torch.full((20,), names.index("flat")) for names in (now, before))
        torch.testing.assert_close(mine(obs, task), loaded(obs, old_task))


def test_a_noisier_policy_acts_within_the_bounds_of_the_new_run() -> None:
    _, state = finished("ppo", worlds("reach", "push"))
    env = worlds("reach", "push")
    quiet = ALGOS["ppo"][0](**TINY["ppo"], initial_std=0.2, max_std=0.2)
    algo: Any = algos.build(quiet, context_of(env, MlpConfig(hidden=[16, 16])))
    initialize(algo, env.spec.tasks, state, "finished")
    assert torch.allclose(algo.policy.log_std.exp(), torch.full((2, 2), 0.2))
    assert algo.iterate(env)["policy/mean_kl"] < 0.2


def test_first_layer_takes_observations_over_and_leaves_new_tasks_alone() -> None:
    old, state = finished("ppo", worlds("flat"))
    env = worlds("beam", "dome", "poles")
    new = build("ppo", env)
    drawn = new.policy.net.trunk[0].weight.detach().clone()
    found = initialize(new, env.spec.tasks, state, "old")
    weight = new.policy.net.trunk[0].weight
    assert torch.equal(weight[:, :3], old.policy.net.trunk[0].weight[:, :3])
    assert torch.equal(weight[:, 3:], drawn[:, 3:])
    assert torch.equal(new.policy.net.trunk[2].weight, old.policy.net.trunk[2].weight)
    assert found.partly == ["actor.net.trunk.0.weight", "critic.trunk.0.weight"]
    assert set(found.fresh) == {
        "actor.log_std",
        *(f"{norm}.{name}" for norm in ("obs_norm", "value_norm") for name in ("count", "mean", "variance")),
    }
    assert set(found.unused) == set(found.fresh)
    lines = found.message().splitlines()
    assert lines[1] == "  loaded in part: actor.net.trunk.0.weight, critic.trunk.0.weight"
    assert lines[2].startswith("  not loaded, newly initialized: actor.log_std, obs_norm.count")
    assert lines[3].startswith("  in the checkpoint but not used: actor.log_std, obs_norm.count")
    assert lines[4] == "  tasks of both runs: none; entries of other tasks are newly initialized"


def test_other_sizes_are_reported_on_both_sides() -> None:
    env = worlds("a", "b")
    _, state = finished("ppo", env, MlpConfig(hidden=[16, 16, 16]))
    found = initialize(build("ppo", env, MultiheadConfig(hidden=[16, 16])), env.spec.tasks, state, "old")
    assert {"actor.net.head.weight", "critic.head.bias"} <= set(found.fresh)
    assert {"actor.net.head.linear.weight", "critic.trunk.4.bias"} <= set(found.unused)
    assert "actor.net.trunk.2.weight" in found.loaded


def test_another_algorithm_takes_over_the_layers_and_statistics_they_share() -> None:
    env = worlds("a", "b")
    old, state = finished("ppo", env)
    sac = build("sac", env)
    found = initialize(sac, env.spec.tasks, state, "old")
    assert torch.equal(sac.policy.net.trunk[0].weight, old.policy.net.trunk[0].weight)
    assert torch.equal(sac.experience.obs_norm.mean, old.obs_norm.mean)
    assert {"alpha.log_alpha", "actor.net.head.linear.weight"} <= set(found.fresh)


def test_networks_without_a_common_layer_are_refused() -> None:
    env = worlds("a", "b")
    _, state = finished("ppo", env, PacoConfig(hidden=[16]))
    with pytest.raises(UserError, match=r"no layer of 'old' fits .* it has actor.*, this run needs .*critic") as caught:
        initialize(build("ppo", env), env.spec.tasks, state, "old")
    assert "\n" not in str(caught.value)


def test_equally_many_other_tasks_start_by_number_but_keep_their_codes() -> None:
    env, other = worlds("a", "b"), worlds("c", "d")
    net = MlpConfig(hidden=[16], task_code="embedding")
    _, state = finished("ppo", env, net)
    found = initialize(build("ppo", other, net), other.spec.tasks, state, "old")
    assert found.fresh == ["actor.net.code.table", "critic.code.table"]
    assert "the tasks differ: each task starts as the task with the same number" in found.message()


def test_merged_entries_by_hand() -> None:
    tasks = TaskNames(old=("x", "y"), new=("y", "z", "x"))
    old, new = torch.tensor([[1.0, 2.0, 3.0, 4.0]]), torch.zeros(1, 5)
    merged = merge(new, old, TaskAxis(1, start=2), tasks)  # two observations, then the codes of x and y
    assert merged is not None and merged.tensor.tolist() == [[1, 2, 4, 0, 3]]
    merged = merge(new, old, TaskAxis(1, start=1), tasks)  # one observation, the codes, then a constant
    assert merged is not None and merged.tensor.tolist() == [[1, 3, 0, 2, 4]]
    merged = merge(torch.zeros(3), torch.tensor([5.0, 6.0]), TaskAxis(0), tasks)
    assert merged is not None and merged.tensor.tolist() == [6, 0, 5]
    assert merge(torch.zeros(7), torch.zeros(6), None, tasks) is None  # a layer of another width
    assert merge(torch.zeros(7, 4), torch.zeros(6, 4), None, tasks) is None
    assert merge(torch.zeros(3, 5), torch.zeros(2, 4), TaskAxis(1, start=2), tasks) is None  # another width, again
    assert merge(torch.zeros(1, 6), old, TaskAxis(1, start=2), tasks) is None  # more entries after the tasks
    same = TaskNames(old=("x", "y"), new=("x", "y"))
    identity = TaskAxis(0, is_identity=True)
    assert merge(torch.zeros(2), torch.ones(2), identity, same) is not None
    assert merge(torch.zeros(2), torch.ones(2), identity, TaskNames(("x", "y"), ("x", "z"))) is None
    assert places(TaskNames(("x",), ("y", "z")), 0, 0) == []


def test_long_lists_are_told_by_module() -> None:
    assert shorten(["a.b.weight", "a.b.bias"]) == "a.b.weight, a.b.bias"
    names = [f"critic.layer.{index}.{kind}" for index in range(4) for kind in ("weight", "bias")]
    assert shorten(["log_std", *names]) == f"log_std, critic.layer.0.* (2), {', '.join(names[2:])}"
    many = [f"critic.{index}" for index in range(9)]
    assert shorten(["actor.log_std", *many, "obs_norm.mean"]) == "actor.log_std, critic.* (9), obs_norm.mean"
    assert shorten([f"t{index}" for index in range(10)]).endswith("t7, and 2 more")


RUN = ["num_envs=2", "episode_length=12", "algo.horizon=8", "algo.minibatch=16", "threads=1", "eval_episodes=0"]


def train(directory: Path, *words: str) -> int:
    return main(["train", f"run_dir={directory}", *RUN, "video=false", *words])


@pytest.fixture(scope="module")
def reached(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train for one iteration on one task, and return the run directory."""
    directory = tmp_path_factory.mktemp("runs") / "reach"
    assert train(directory, "tasks=[reach]", "max_iterations=1") == 0
    return directory


def records(directory: Path) -> list[dict[str, Any]]:
    """Return the rows of metrics, without the entries that depend on time."""
    rows = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    return [{name: row[name] for name in row if name not in ("seconds", "frames_per_second")} for row in rows]


def test_a_resumed_run_does_not_start_over(reached: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["tasks=[reach,drawer-close]", f"init_from={reached}"]
    assert train(tmp_path / "whole", *words, "max_iterations=3") == 0
    assert "init_from" in capsys.readouterr().err
    assert train(tmp_path / "broken", *words, "max_iterations=1") == 0
    capsys.readouterr()
    assert main(["train", f"checkpoint={tmp_path / 'broken'}", "max_iterations=3"]) == 0
    assert "init_from" not in capsys.readouterr().err
    assert records(tmp_path / "broken") == records(tmp_path / "whole")
    for directory in (tmp_path / "broken", tmp_path / "whole"):
        summary = json.loads((directory / "summary.json").read_text())["initialization"]
        assert summary["checkpoint"] == str(reached) and "actor.log_std" in summary["partly"]
        assert load(directory)["config"]["init_from"] == str(reached)
    assert main(["eval", f"checkpoint={tmp_path / 'broken'}", "episodes=1"]) == 0


def test_mistakes_are_one_line(reached: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "other.pt").write_text("hello")
    for words, line in (
        ([f"init_from={tmp_path / 'nowhere'}"], "no checkpoint at"),
        ([f"init_from={tmp_path / 'other.pt'}"], "truncated or not a polytask checkpoint"),
        ([f"init_from={reached}", f"checkpoint={reached}"], "give only one of them"),
        (
            [f"init_from={reached}", "tasks=[reach]", "net=paco"],
            f"{reached} has net=mlp, this run net=paco; use net=mlp",
        ),
        (
            [f"init_from={reached}", "tasks=[reach]", "net.hidden=[8]"],
            "has net.hidden=[256,128,64], this run net.hidden=",
        ),
        (["init_from=mt10", "tasks=[reach]"], "mt10 has net=simba_v2, this run net=mlp; use net=simba_v2"),
        (
            [f"init_from={reached}", "suite=parkour-easy"],
            f"{reached} was trained in manipulation, and this run is parkour",
        ),
    ):
        capsys.readouterr()
        assert train(tmp_path / "new", *words, "max_iterations=1") == 2
        error = capsys.readouterr().err
        assert line in error and error.count("\n") == 1
        assert not (tmp_path / "new").exists()


@every_algo
@pytest.mark.parametrize("net", SMALL_NETS)
def test_no_tensor_of_a_healthy_checkpoint_is_infinite(name: str, net: str) -> None:
    env = worlds("a", "b", "c")
    algo = build(name, env, SMALL_NETS[net])
    assert not_finite(algo.state_dict()) == []
    algo.iterate(env)
    assert not_finite(algo.state_dict()) == []
