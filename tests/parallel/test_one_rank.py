"""A single rank that exchanges everything with itself learns what a process without exchanges learns.

One GPU is enough for this: the exchanges by NCCL are captured into the graphs of the learners.
"""

import socket
from dataclasses import replace

import pytest
import torch
import torch.distributed as dist
from helpers.learning import SMALL_NETS, compile_on_cpu, context_of, flat
from helpers.toy import PointMass
from torch.testing import assert_close

from polytask.algos import build
from polytask.algos.fast_td3 import FastTD3Config
from polytask.algos.grpo import GRPOConfig
from polytask.algos.ppo import PPOConfig
from polytask.algos.pqn import PQNConfig
from polytask.algos.sac import SACConfig
from polytask.grads.cagrad import CAGradConfig
from polytask.grads.famo import FAMOConfig
from polytask.parallel import ranks
from polytask.parallel.ranks import connect

OFF_POLICY = {"steps_per_iteration": 8, "learning_starts": 4, "updates_per_step": 1.0, "batch": 48, "capacity": 4000}
CASES = {
    "ppo": (PPOConfig(horizon=8, epochs=2), CAGradConfig(apply_to="both")),
    "grpo": (GRPOConfig(epochs=2), FAMOConfig(apply_to="both")),
    "pqn": (PQNConfig(horizon=8, epochs=2), None),
    "sac": (SACConfig(**OFF_POLICY), FAMOConfig(apply_to="both")),
    "sac_overlap": (SACConfig(**OFF_POLICY, overlap=True), None),
    "fast_td3": (FastTD3Config(**OFF_POLICY, atoms=11), CAGradConfig(apply_to="both")),
}
QUICK = ("ppo", "sac")  # one of each kind, which every run of the tests compiles
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
ITERATIONS = 5  # after four, every graph is captured


@pytest.fixture(scope="module")
def rank():
    """Connect this process to itself."""
    with socket.socket() as free, pytest.MonkeyPatch.context() as patch:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
        free.close()
        settings = {"RANK": 0, "WORLD_SIZE": 1, "MASTER_ADDR": "localhost", "MASTER_PORT": port}
        for name, value in settings.items():
            patch.setenv(name, str(value))
        yield connect(0, 1, 0, 1)
        dist.destroy_process_group()


def learned(case, device, **changes):
    """Train on the point mass and return the networks and the last metrics."""
    config, grads = CASES[case]
    env = PointMass((5, 4, 3), device=device)
    algo = build(config, replace(context_of(env, SMALL_NETS["mlp"], grads), **changes))
    for _ in range(ITERATIONS):
        metrics = algo.iterate(env)
    return {name: net.state_dict() for name, net in algo.networks().items()}, metrics


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("case", CASES)
def test_exchanges_change_nothing(rank, case, device):
    networks, metrics = learned(case, device)
    same_networks, same_metrics = learned(case, device, ranks=rank)
    # A GPU adds in another order each time, and an optimizer like Adam scales a gradient near zero up to a whole step.
    assert_close(flat(same_networks), flat(networks), rtol=1e-3, atol=1e-5 if device == "cpu" else 2e-4)
    assert_close(same_metrics, metrics, rtol=1e-3, atol=1e-4)


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # torch about itself
@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=() if case in QUICK else pytest.mark.slow) for case in CASES]
)
def test_compiled_functions_exchange_and_draw_nothing(rank, case, monkeypatch):
    networks, _ = learned(case, "cpu", ranks=rank)
    compile_on_cpu(monkeypatch)  # refuses numbers of a generator
    for module, name in ((dist, "all_reduce"), (ranks, "_all_gather")):
        monkeypatch.setattr(module, name, torch._dynamo.disable(getattr(module, name)))  # now refused, too
    same_networks, _ = learned(case, "cpu", ranks=rank)
    assert_close(flat(same_networks), flat(networks), rtol=1e-3, atol=1e-5)


def test_only_the_first_failure_is_reported(rank):
    assert rank.is_first_to_fail()
    assert not rank.is_first_to_fail()
