"""Behaviour that SAC and FastTD3 share: random actions, updates, metrics and resuming."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers.learning import (
    METHODS,
    SMALL_NETS,
    assert_acts_in_bounds,
    assert_reports,
    assert_resumes,
    assert_solves,
    assert_trains,
    context_of,
)
from helpers.toy import PointMass
from torch.testing import assert_close

from polytask import algos
from polytask.algos import ALGOS
from polytask.algos.shared.off_policy import rows_per_task, updates_due
from polytask.errors import UserError
from polytask.grads import GRADS
from polytask.nets.mlp import MlpConfig

SMALL = {"steps_per_iteration": 8, "batch": 48, "learning_starts": 4, "updates_per_step": 1, "capacity": 5000}
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {  # name in these tests -> algorithm, settings
    "sac": ("sac", {}),
    "sac_categorical": ("sac", {"critic": "categorical", "twin": "mean", "weight_decay": 0.01}),
    "fast_td3": ("fast_td3", {}),
}
every_algo = pytest.mark.parametrize("name", VARIANTS)


def make(
    name: str, env: PointMass, *, net: Any = None, grads: Any = None, total_frames: int = 10**6, **settings: Any
) -> Any:
    """Build a small learner for the environment."""
    context = context_of(env, net or MlpConfig(hidden=[32, 32], activation="relu"), grads, total_frames)
    algo, own = VARIANTS[name]
    return algos.build(ALGOS[algo][0](**{**SMALL, **own, **settings}), context)


@pytest.mark.parametrize(("rate", "expected"), [(1, [1] * 6), (0.5, [0, 1] * 3), (2.5, [2, 3] * 3), (4, [4] * 6)])
def test_updates_follow_steps_at_the_wanted_rate(rate: float, expected: list[int]) -> None:
    assert [updates_due(step, rate) for step in range(1, 7)] == expected


def test_batches_are_split_evenly() -> None:
    assert (rows_per_task(1280, 10), rows_per_task(8192, 10), rows_per_task(4, 10)) == (128, 819, 1)


@every_algo
@pytest.mark.parametrize("setting", ["updates_per_step", "learning_starts", "steps_per_iteration"])
def test_schedules_that_never_learn_are_refused(name: str, setting: str) -> None:
    with pytest.raises(UserError, match=f"algo.{setting}=0"):
        make(name, PointMass((2, 2)), **{setting: 0})


@every_algo
def test_first_steps_are_random_and_without_updates(name: str) -> None:
    env = PointMass((5, 4, 3))
    algo = make(name, env, steps_per_iteration=16, learning_starts=10, updates_per_step=0.5)
    before = [p.clone() for p in algo.policy.parameters()]
    algo.policy.net.head.linear.bias.data.fill_(50.0)
    metrics = algo.iterate(env)
    action = algo.experience.replay.ring.action[:16]
    assert metrics["updates"] == 4  # after steps 10, 12, 14 and 16
    assert action[:10].abs().mean().item() == pytest.approx(0.5, abs=0.06)
    assert action[10].min() > 0.1 and (action[10] == 1).any()  # actions of the policy, despite the noise
    assert any((old != new).any() for old, new in zip(before[:-1], list(algo.policy.parameters())[:-1], strict=True))


@pytest.mark.parametrize(
    ("overlap", "expected"),
    [(False, ["act", "step", "act", "step", "update"] + ["act", "step", "update"] * 2),
     (True, ["act", "step", "act", "step"] + ["act", "update", "step"] * 2)],
)  # fmt: skip
def test_updates_come_after_their_step_or_during_the_next(overlap: bool, expected: list[str]) -> None:
    env = PointMass((2, 2))
    loop = make("sac", env, overlap=overlap, learning_starts=2, steps_per_iteration=4).loop
    events: list[str] = []
    take_step = env.step
    env.step = lambda action: (events.append("step"), take_step(action))[1]
    updates = loop.run(env, lambda: events.append("act"), lambda: events.append("update"))
    assert events == expected
    assert updates == events.count("update")
    assert loop.run(env, lambda: None, lambda: None) == 4


@every_algo
def test_overlapped_run_learns_and_resumes_bit_for_bit(name: str) -> None:
    assert_trains(make(name, env := PointMass((5, 4, 3)), overlap=True), env)
    assert_resumes(lambda env: make(name, env, overlap=True))


@pytest.mark.gpu
@every_algo
def test_overlapped_updates_are_captured_and_solve_the_point_mass(name: str) -> None:
    env = PointMass((32, 32, 32), device="cuda")
    learn = {"batch": 384, "updates_per_step": 2, "lr": 3e-3, "tau": 0.05, "n_step": 3, "gamma": 0.9}
    net = MlpConfig(hidden=[64, 64], activation="relu")
    algo = make(name, env, **learn, overlap=True, steps_per_iteration=32, capacity=50_000, net=net)
    assert_solves(algo, env, iterations=12)


@every_algo
def test_one_world_per_task_learns_at_any_rate(name: str) -> None:
    env = PointMass((1, 1, 1))
    algo = make(name, env, updates_per_step=0.25, batch=30, learning_starts=1)
    assert algo.loop.rows_per_task == 10
    assert algo.frames_per_iteration == 24
    assert algo.iterate(env)["updates"] == 2


@pytest.mark.parametrize(
    ("name", "own"),
    [("sac", {}), ("sac_categorical", {}), ("fast_td3", {"end_lr": 1e-5, "total_frames": 500})],
)
@pytest.mark.parametrize("method", METHODS)
def test_resumed_run_equals_an_unbroken_one_bit_for_bit(name: str, own: dict[str, Any], method: str) -> None:
    grads = GRADS[method][0](apply_to="both")
    # The ring holds twenty steps, so old steps are overwritten before the end.
    assert_resumes(lambda env: make(name, env, grads=grads, capacity=12 * 20, **own), after=3)


@every_algo
def test_run_resumed_without_its_replay_fills_it_before_it_learns(name: str) -> None:
    env = PointMass((5, 4, 3))
    algo = make(name, env, save_replay=False, learning_starts=12)
    for _ in range(3):
        algo.iterate(env)
    state = algo.state_dict()
    assert "replay" not in state["experience"]
    other = make(name, env, save_replay=False, learning_starts=12)
    other.load_state_dict(state)
    assert other.iterate(env)["updates"] == 0
    assert other.iterate(env)["updates"] == 5  # steps 12 to 16


@pytest.mark.parametrize(
    ("name", "own"), [("sac", "alpha"), ("sac_categorical", "alpha"), ("fast_td3", "reward_scale")]
)
def test_metrics_have_stable_names(name: str, own: str) -> None:
    env = PointMass((3, 2))
    common = {"loss/actor", "grad_norm/critic", "value/target", "per_task/goal-1/critic_loss"}
    assert_reports(make(name, env), env, common | {f"per_task/goal-1/{own}"}, "loss/critic")


@every_algo
def test_losses_are_averaged_over_tasks_and_updates(name: str) -> None:
    env = PointMass((3, 2))
    algo = make(name, env)
    reported: dict[str, list[Any]] = {"actor": [], "critic": []}
    for group, learner in list(algo.learners.items()):
        if group in reported:
            step = learner.step
            learner.step = lambda rows, step=step, kept=reported[group]: kept.append(step(rows)) or kept[-1]
    metrics = algo.iterate(env)
    assert metrics["updates"] == len(reported["critic"]) == 5  # after steps 4 to 8
    assert len(reported["actor"]) == (3 if name == "fast_td3" else 5)  # FastTD3's actor learns in every second update
    for group, steps in reported.items():
        assert metrics[f"loss/{group}"].item() == pytest.approx(sum(x.mean().item() for x, _ in steps) / len(steps))
        assert metrics[f"grad_norm/{group}"].item() == pytest.approx(sum(x.item() for _, x in steps) / len(steps))
        own = sum(losses[1].item() for losses, _ in steps) / len(steps)
        assert metrics[f"per_task/goal-1/{group}_loss"].item() == pytest.approx(own)


@every_algo
def test_gradients_of_actor_and_critics_are_clipped_apart(name: str) -> None:
    env = PointMass((3, 2))
    algo = make(name, env, max_grad_norm=0.01)
    metrics = algo.iterate(env)
    for group in ("actor", "critic"):
        gradients = [p.grad for p in algo.learners[group].net.parameters()]
        assert metrics[f"grad_norm/{group}"] > 0.01
        assert_close(torch.stack([each.norm() for each in gradients]).norm(), torch.tensor(0.01), rtol=1e-3, atol=0)


@every_algo
def test_famo_looks_back_after_every_update_and_reports_weights(name: str) -> None:
    env = PointMass((3, 2))
    algo = make(name, env, grads=GRADS["famo"][0](apply_to="both"))
    metrics = algo.iterate(env)
    updates = metrics["updates"]
    for group in ("actor", "critic"):  # weights are convex, so their means over the updates are too
        total = metrics[f"per_task/goal-0/{group}_weight"] + metrics[f"per_task/goal-1/{group}_weight"]
        assert total.item() == pytest.approx(1.0)
    actor_updates = 3 if name == "fast_td3" else updates
    looks = {group: algo.learners[group].backward.method.state["steps"] for group in ("actor", "critic")}
    assert looks == {"actor": actor_updates, "critic": updates}


@every_algo
def test_acting_without_noise_repeats_and_stays_in_bounds(name: str) -> None:
    env = PointMass((4, 4))
    assert_acts_in_bounds(make(name, env), env)


@every_algo
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("net", SMALL_NETS)
def test_networks_and_gradient_methods_combine(name: str, net: str, method: str) -> None:
    env = PointMass((3, 2, 2))
    grads = GRADS[method][0](apply_to="both")
    assert_trains(make(name, env, net=SMALL_NETS[net], grads=grads, steps_per_iteration=4, learning_starts=2), env)


@every_algo
def test_bfloat16_trains(name: str) -> None:
    env = PointMass((3, 2, 2))
    assert_trains(make(name, env, bf16=True), env)
