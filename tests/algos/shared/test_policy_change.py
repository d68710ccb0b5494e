"""The change of a policy over an iteration, and the learning rate that follows from it."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from polytask.algos.shared.learner import Learner, adam
from polytask.algos.shared.policy_change import AdaptiveRate, PolicyChange
from polytask.grads import Backward
from polytask.grads.mean import Mean, MeanConfig

CPU = torch.device("cpu")
TARGET = AdaptiveRate(target_kl=0.01, lowest=1e-4, highest=1e-2)


def learner() -> Learner:
    net = nn.Linear(1, 1)
    backward = Backward(Mean(MeanConfig(), 2, CPU, torch.Generator()), net, lambda net, rows: net(rows))
    return Learner(backward, adam(net, 1e-3, CPU))


def rate_of(actor: Learner) -> float:
    rate: Tensor = actor.optimizer.param_groups[0]["lr"]
    return rate.item()


def run_epoch(change: PolicyChange, actor: Learner, *kls: list[float]) -> None:
    """Run one epoch whose minibatches have these divergences of the two tasks, and one clipped row in four."""
    for kl in kls:
        actor.backward.facts = {"kl": torch.tensor(kl), "clip_fraction": torch.full((2,), 0.25)}
        change.add()
    change.end_epoch(len(kls))


@pytest.mark.parametrize(
    ("kls", "expected"),
    [
        (([0.05, 0.0], [0.0, 0.05]), 1e-3 / 1.5),  # mean .025, above twice the target
        (([0.03, 0.0], [0.0, 0.03]), 1e-3),  # mean .015
        (([0.006, 0.006],), 1e-3),
        (([0.008, 0.0],), 1.5e-3),  # mean .004, below half the target
        (([math.nan, 0.05],), 1e-3 / 1.5),  # a bad task is left out
        (([math.nan, math.nan],), 1e-3),
        (([math.inf, 0.0],), 1e-3 / 1.5),
    ],
)
def test_rate_follows_the_mean_over_tasks_and_minibatches(kls: tuple[list[float], ...], expected: float) -> None:
    actor = learner()
    change = PolicyChange(actor, TARGET)
    change.start()
    run_epoch(change, actor, *kls)
    assert rate_of(actor) == pytest.approx(expected)


def test_the_first_rate_is_passed_on_before_the_first_update_and_then_adapted() -> None:
    actor = learner()
    change = PolicyChange(actor, TARGET._replace(first=2e-4))
    change.start()
    assert rate_of(actor) == pytest.approx(2e-4)
    run_epoch(change, actor, [0.0, 0.0])
    assert rate_of(actor) == pytest.approx(3e-4)


def test_every_epoch_is_judged_by_itself_and_the_rate_stays_in_bounds() -> None:
    actor = learner()
    change = PolicyChange(actor, TARGET)
    change.start()
    for kl, times, expected in ((1.0, 2, 1e-3 / 1.5**2), (0.0, 3, 1.5e-3), (1.0, 20, 1e-4), (0.0, 20, 1e-2)):
        for _ in range(times):
            run_epoch(change, actor, [kl, kl])
        assert rate_of(actor) == pytest.approx(expected)


def test_without_a_target_the_rate_stays_and_the_change_is_reported() -> None:
    actor = learner()
    change = PolicyChange(actor)
    for _ in range(2):  # the second iteration forgets the first
        change.start()
        run_epoch(change, actor, [0.1, 0.3], [0.5, 0.7])
        run_epoch(change, actor, [2.0, 2.0], [2.0, 4.0])
        metrics = {name: value.item() for name, value in change.metrics(2, 4, ("a", "b")).items()}
        assert metrics == pytest.approx(
            {
                "policy/lr": 1e-3,
                "policy/mean_kl": (0.4 + 2.5) / 2,
                "policy/last_epoch_kl": 2.5,
                "policy/mean_clip_fraction": 0.25,
                "per_task/a/kl": (0.1 + 0.5 + 2.0 + 2.0) / 4,
                "per_task/b/kl": (0.3 + 0.7 + 2.0 + 4.0) / 4,
            }
        )
    assert change.state_dict() == {}


def test_a_saved_rate_continues_and_an_older_state_starts_anew() -> None:
    actor = learner()
    change = PolicyChange(actor, TARGET)
    change.start()
    run_epoch(change, actor, [1.0, 1.0])
    saved: dict[str, Any] = change.state_dict()
    for state, expected in ((saved, 1e-3 / 1.5), ({}, 1e-3)):
        other_actor = learner()
        other = PolicyChange(other_actor, TARGET)
        other.load_state_dict(state)
        other_actor.set_learning_rate(0.5)  # as the loop does before every iteration
        other.start()
        assert rate_of(other_actor) == pytest.approx(expected)
