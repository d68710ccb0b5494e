"""Operations are counted apart for updates and for the rest of an iteration."""

import pytest
import torch
from update_profile import OperationCounter, profile_of

SMALL = ["suite=mt10", "device=cpu", "num_envs=20", "iterations=1"]
OFF_POLICY = ["algo.steps_per_iteration=2", "algo.learning_starts=1", "algo.batch=20", "algo.capacity=100"]
ALGOS = {
    "ppo": (["algo.horizon=4", "algo.epochs=1"], 4),  # a quarter of the rows per update
    "pqn": (["algo.horizon=4", "algo.epochs=1"], 4),
    "sac": ([*OFF_POLICY, "algo.updates_per_step=1", "algo.n_step=2"], 2),
}


def test_views_do_not_count():
    with OperationCounter() as counter:
        torch.ones(2, 3).t().unsqueeze(0).transpose(0, 1).add_(1.0)
    assert counter.counts == {"aten.ones": 1, "aten.add_": 1}


@pytest.mark.parametrize("name", ALGOS)
def test_updates_and_the_rest_add_up(name):
    words, updates = ALGOS[name]
    found = profile_of([*SMALL, f"algo={name}", *words])
    assert (found["algo"], found["unit"], found["updates_per_iteration"]) == (name, "operations", updates)
    counts = {part: found[part]["kernels"] for part in ("update", "rest_of_iteration", "iteration")}
    assert counts["update"] * updates + counts["rest_of_iteration"] == pytest.approx(counts["iteration"])
    assert min(counts.values()) > 50
