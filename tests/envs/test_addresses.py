"""Captured graphs read tensors by their address, so no reset, load or step of an environment may replace one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import warp
from torch.testing import assert_close

import polytask
from polytask.cuda_graph import addresses, fixed_addresses
from polytask.envs.multi_task import MultiTaskEnv
from polytask.envs.options import ScanOptions, TuningOptions

DOMAINS: dict[str, dict[str, Any]] = {
    "manipulation": {"tasks": ["reach", "push", "peg-insert-side"], "num_envs": 6},
    "fixed goals": {"tasks": ["push"], "num_envs": 2, "goals": "fixed"},
    "parkour": {"tasks": ["flat", "dome"], "num_envs": 4},
    "real robots": {"tasks": ["flat", "dome"], "num_envs": 4, "robot": "go1_real"},
    "curriculum": {"tasks": ["flat", "dome"], "num_envs": 4, "levels": "curriculum"},
    "scan of the feet": {"tasks": ["flat", "dome"], "num_envs": 4, "scan": ScanOptions(feet=True)},
    "additions": {
        **{"tasks": ["flat", "even-gaps"], "num_envs": 4},
        "tuning": TuningOptions(mirror=True, edge_penalty=1.0, stall_seconds=0.02),  # so that each episode ends at once
    },
    "a critic that sees more": {
        **{"tasks": ["flat", "dome"], "num_envs": 4, "robot": "go1_real", "privileged": "critic"},
        "scan": ScanOptions(feet=True),
    },
}
every_domain = pytest.mark.parametrize("options", DOMAINS.values(), ids=list(DOMAINS))


def make(options: dict[str, Any], **more: Any) -> MultiTaskEnv:
    return polytask.make(threads=1, episode_length=3, **options, **more)


def still(env: MultiTaskEnv) -> torch.Tensor:
    return torch.zeros(env.spec.num_envs, env.spec.action_dim, device=env.device)


@pytest.mark.parametrize("sim", ["cpu", "warp"])
@every_domain
def test_no_tensor_moves(options: dict[str, Any], sim: str) -> None:
    env = make(options, sim=sim)
    before, state = addresses(env), env.state_dict()
    assert len(before) > 50
    for _ in range(4):  # to the end of an episode and beyond
        env.step(still(env))
    env.reset()
    env.load_state_dict(state)
    after = addresses(env)
    assert {name: after[name] for name in before} == before


def test_loading_that_replaces_a_tensor_is_an_error() -> None:
    env = make(DOMAINS["parkour"])
    group: Any = env.groups[0]
    load = group.load_state_dict

    def replace(state: dict[str, Any]) -> None:
        load(state)
        group._default = group._default.clone()

    group.load_state_dict = replace
    with pytest.raises(RuntimeError, match=r"MultiTaskEnv.groups.0._default was replaced"):
        env.load_state_dict(env.state_dict())


@pytest.mark.parametrize("name", ["warp_data.qpos", "warp_data.efc.J", "warp_model.geom_size"])
def test_replacing_an_array_of_warp_is_an_error(name: str) -> None:
    env = make(DOMAINS["parkour"], sim="warp")
    holder: Any = env.groups[0].batch
    *path, field = name.split(".")
    for part in path:
        holder = getattr(holder, part)
    with (
        pytest.raises(RuntimeError, match=rf"MultiTaskEnv.groups.0.batch.{name} was replaced"),
        fixed_addresses(env),
    ):
        setattr(holder, field, warp.clone(getattr(holder, field)))


@pytest.mark.parametrize("sim", ["cpu", pytest.param("warp", marks=pytest.mark.gpu)])
@every_domain
def test_second_evaluation_sees_what_the_first_saw(options: dict[str, Any], sim: str) -> None:
    """Other tensors fill the memory between the two, as the learner's do between two evaluations of a run."""
    device = "cuda" if sim == "warp" else "cpu"
    env = make({**options, "stagger": False}, sim=sim, device=device)
    start, seen = env.state_dict(), []
    for _ in range(3):
        env.load_state_dict(start)
        seen.append([env.step(still(env)).next_obs.clone() for _ in range(5)])
        garbage = [torch.full((size,), 7.0, device=device) for size in (16, 128, 1024, 8192) for _ in range(100)]
        del garbage
    for other in seen[1:]:
        for one, two in zip(seen[0], other, strict=True):
            assert_close(one, two, rtol=1e-3, atol=1e-3)
