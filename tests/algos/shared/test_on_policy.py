"""The loop of on-policy learners: rollouts, epochs of minibatches, statistics, chunks of rows, and schedules."""

from __future__ import annotations

from typing import NamedTuple

import torch
from helpers.toy import PointMass
from torch import Tensor, nn
from torch.testing import assert_close

from polytask.algos import AlgoContext
from polytask.algos.ppo import PPOConfig
from polytask.algos.shared.learner import Learner, adam
from polytask.algos.shared.on_policy import OnPolicyLoop, chunks, scheduled
from polytask.algos.shared.rollout import Choice
from polytask.grads import Backward
from polytask.grads.mean import Mean, MeanConfig

CPU = torch.device("cpu")


class Rows(NamedTuple):
    obs: Tensor
    task: Tensor
    target: Tensor


class Point(nn.Module):
    """Returns one learned number and ignores the input."""

    def __init__(self) -> None:
        super().__init__()
        self.x = nn.Parameter(torch.zeros(1))

    def forward(self, obs: Tensor, task: Tensor) -> Tensor:
        return self.x.expand(len(obs))


def loop_of(env: PointMass, seen: list[Tensor], epochs: int = 2) -> OnPolicyLoop:
    """Build a loop of three steps and two minibatches; the learner records its rows in `seen`, actions are 0.5."""
    loop = OnPolicyLoop(PPOConfig(epochs=epochs), AlgoContext(env.spec, CPU), horizon=3, minibatches=2)

    def loss(net: nn.Module, rows: Rows) -> Tensor:
        seen.append(rows.target)
        return (net(rows.obs, rows.task) - rows.target).square()

    learner = Learner(Backward(Mean(MeanConfig(), 2, CPU, loop.generator), Point(), loss), adam(Point(), 0.0, CPU))
    obs, task, _ = loop.columns()
    loop.start(
        Rows(obs, task, torch.arange(12.0)), {"critic": learner}, lambda obs, task: Choice(0.5 * torch.ones(4, 2))
    )
    return loop


def test_every_epoch_visits_every_row_once_and_shuffles_anew() -> None:
    seen: list[Tensor] = []
    loop = loop_of(PointMass((2, 2)), seen)
    loop.rollout.obs.fill_(3.0)
    loop.obs_norm.mean.fill_(1.0)
    loop.run_epochs(2)
    assert [len(batch) for batch in seen] == [6] * 4  # two minibatches of three rows of each task
    epochs = torch.cat(seen).view(2, 12)
    assert (epochs.sort().values == torch.arange(12.0)).all()
    assert (epochs[0] != epochs[1]).any()
    last = loop.last()
    assert (last.target == seen[-1]).all() and (last.obs == 2).all()  # 3 minus the normalizer's mean


def test_metrics_average_over_the_updates() -> None:
    loop = loop_of(PointMass((2, 2)), [], epochs=3)
    for _ in range(2):  # the second run must reset the sums of the first
        metrics = loop.learn()
    # Task 0 has the targets 0, 1, 4, 5, 8, 9, task 1 the others; the network returns 0.
    assert_close(metrics["per_task/goal-0/value_loss"], torch.tensor(187 / 6))
    assert_close(metrics["per_task/goal-1/value_loss"], torch.tensor(319 / 6))
    assert_close(metrics["loss/value"], torch.tensor(506 / 12))
    assert_close(metrics["grad_norm/critic"], torch.tensor(11.0))  # 2 * mean target


def test_an_iteration_updates_the_statistics_last() -> None:
    env, seen = PointMass((2, 2)), []
    loop = loop_of(env, seen)
    first = env.obs.clone()
    loop.collect(env)
    assert_close(loop.rollout.obs[0], first)
    assert (loop.rollout.action == 0.5).all()
    assert loop.frames_per_iteration == 12
    loop.learn()
    assert not loop.obs_norm.count.any()  # the policy learns with the statistics that it acted with
    loop.finish()
    assert loop.obs_norm.count.tolist() == [6, 6]
    assert loop.progress == 12 / loop.total_frames
    other = loop_of(env, seen)
    other.load_state_dict(loop.state_dict())
    assert other.iteration == 1


def test_chunks_cover_all_rows() -> None:
    rows = list(range(10))
    assert [rows[part] for part in chunks(10, 4)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_schedules() -> None:
    assert [scheduled(2.0, "linear", progress) for progress in (0.0, 0.25, 1.0, 1.5)] == [2.0, 1.5, 0.0, 0.0]
    assert scheduled(2.0, "constant", 0.9) == 2.0
