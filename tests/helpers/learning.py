"""Checks on the point mass for every algorithm: resuming, training, metrics and actions."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from helpers.toy import PointMass, success_rate
from polytask.algos import AlgoContext
from polytask.grads.mean import MeanConfig
from polytask.nets.bro import BroConfig
from polytask.nets.mlp import MlpConfig, MultiheadConfig
from polytask.nets.moore import MooreConfig
from polytask.nets.simba_v2 import SimbaV2Config

METHODS = ("mean", "pcgrad", "famo")  # equal task weights, weights from gradients, weights from past losses
SEARCH: dict[str, Any] = {  # all that PPO and GRPO do for tasks that fail
    "max_std": 1.2,
    "search_entropy_coef": 0.01,
    "search_correlation": 0.9,
    "search_std": 0.15,
    "search_period": 4,
    "imitation_coef": 1.0,
    "imitation_steps": 50,
    "borrow_share": 0.5,
    "novelty_coef": 0.3,
    "success_coef": 5.0,
    "solved_weight": 0.1,
    "bounds_coef": 0.1,
    "schedule": "adaptive",
}
SMALL_NETS: dict[str, Any] = {
    "mlp": MlpConfig(hidden=[16]),
    "multihead": MultiheadConfig(hidden=[16]),
    "moore": MooreConfig(hidden=[16, 16]),
    "bro": BroConfig(hidden=16, task_code="embedding"),
    "simba_v2": SimbaV2Config(hidden=16),
}


def context_of(env: PointMass, net: Any, grads: Any = None, total_frames: int = 10**6) -> AlgoContext:
    """Return the context of a learner in an environment."""
    return AlgoContext(env.spec, env.device, net=net, grads=grads or MeanConfig(), total_frames=total_frames)


def know_success(algo: Any, *rates: float) -> None:
    """Let a learner believe that this share of each task's recent episodes succeeded."""
    episodes = torch.full((len(rates),), 1000.0)  # so many that those of a few iterations change little
    algo.actor.success.load_state_dict({"recent_episodes": torch.stack([torch.tensor(rates) * episodes, episodes])})


def assert_resumes(build: Callable[[PointMass], Any], before: int = 1, after: int = 2) -> None:
    """Check that a run that is saved and resumed equals an uninterrupted run, bit for bit."""
    env = PointMass((5, 4, 3))
    algo = build(env)
    for _ in range(before):
        algo.iterate(env)
    file = io.BytesIO()
    torch.save({"algo": algo.state_dict(), "env": env.state_dict()}, file)
    for _ in range(after):
        algo.iterate(env)

    file.seek(0)
    saved = torch.load(file, weights_only=True)
    other_env = PointMass((5, 4, 3), seed=5)
    other = build(other_env)
    other.load_state_dict(saved["algo"])
    other_env.load_state_dict(saved["env"])
    for _ in range(after):
        other.iterate(other_env)
    assert_close(flat(other.state_dict()), flat(algo.state_dict()), rtol=0, atol=0)


def depends_on(loss: torch.Tensor, parameter: torch.Tensor) -> bool:
    """Tell whether autograd would compute a gradient of the loss (R,) for the parameter."""
    (gradient,) = torch.autograd.grad(loss.sum(), parameter, allow_unused=True, retain_graph=True)
    return gradient is not None


def compile_on_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile what is compiled on a GPU, without generating kernels; a break in the graph is an error."""

    def compiled(function: Callable[..., Any], device: torch.device, *, is_wanted: bool) -> Callable[..., Any]:
        return torch.compile(function, backend="aot_eager", fullgraph=True, dynamic=False) if is_wanted else function

    torch._dynamo.reset()
    for name, module in list(sys.modules.items()):
        if name.startswith("polytask.") and hasattr(module, "fused"):
            monkeypatch.setattr(module, "fused", compiled)


def flat(state: Any, prefix: str = "") -> dict[str, Any]:
    """Return the leaves of a nested state, by their paths."""
    if not isinstance(state, dict):
        return {prefix: torch.as_tensor(state)}
    return {name: leaf for key, value in state.items() for name, leaf in flat(value, f"{prefix}/{key}").items()}


def assert_trains(algo: Any, env: PointMass) -> None:
    """Check that two iterations return finite scalars with the same names and change most of the parameters.

    What the first returned must not change in the second.
    """
    before = [p.clone() for learner in algo.learners.values() for p in learner.net.parameters()]
    first = algo.iterate(env)
    returned = {name: value.clone() for name, value in first.items()}
    second = algo.iterate(env)
    assert_close(first, returned, rtol=0, atol=0, equal_nan=True)
    after = [p for learner in algo.learners.values() for p in learner.net.parameters()]
    assert first.keys() == second.keys()
    for name, value in second.items():
        assert value.shape == () and value.isfinite(), name
    moved = [(old != new).any().item() for old, new in zip(before, after, strict=True)]
    assert sum(moved) > len(moved) / 2


def assert_reports(algo: Any, env: PointMass, names: set[str], loss: str) -> None:
    """Check that the metrics have these names, and that two iterations do not return the same buffer."""
    first, second = algo.iterate(env), algo.iterate(env)
    assert names | {loss} <= second.keys()
    assert first[loss] != second[loss]


def assert_acts_in_bounds(algo: Any, env: PointMass) -> None:
    """Check that actions are in [-1, 1] even for large observations, deterministic without noise and random with it."""
    obs = 100 * env.obs
    mean = algo.act(obs, env.task, explore=False)
    assert (mean == algo.act(obs, env.task, explore=False)).all()
    noisy = algo.act(obs, env.task, explore=True)
    assert (noisy != mean).any() and noisy.abs().max() <= 1 and mean.abs().max() <= 1


def assert_solves(algo: Any, env: PointMass, iterations: int) -> dict[str, torch.Tensor]:
    """Check that the given number of iterations solves every task, and return the metrics of the last iteration."""
    for _ in range(iterations):
        metrics = algo.iterate(env)
    assert all(value.isfinite() for value in metrics.values())
    rate = success_rate(PointMass((64, 64, 64), seed=1, device=env.device.type), algo.act)
    assert rate.min() > 0.9, rate
    return metrics
