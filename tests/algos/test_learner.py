"""One learner's step: clipping, projection, learning rate and saved state."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.testing import assert_close

from polytask.algos.learner import Learner, adam
from polytask.grads import Backward
from polytask.grads.mean import Mean, MeanConfig

CPU = torch.device("cpu")
BATCH = (torch.tensor([[1.0, 3.0], [5.0, 7.0]]),)  # two tasks, two rows each


class Point(nn.Module):
    """One number that is kept at or below `highest`."""

    def __init__(self, highest: float = 1e9) -> None:
        super().__init__()
        self.x = nn.Parameter(torch.zeros(1))
        self.highest = highest

    def forward(self, rows: Tensor) -> Tensor:
        return self.x.expand(len(rows))

    @torch.no_grad()
    def after_step(self) -> None:
        self.x.clamp_(max=self.highest)


def square(net: nn.Module, batch: tuple[Tensor]) -> Tensor:
    return (net(batch[0]) - batch[0]).square()


def learner_of(net: Point, max_norm: float = 1e9) -> Learner:
    method = Mean(MeanConfig(), 2, CPU, torch.Generator())
    return Learner(Backward(method, net, square), adam(net, 0.5, CPU), max_norm)


def test_step_reports_task_losses_and_the_norm_before_clipping() -> None:
    learner = learner_of(Point(), max_norm=0.1)
    losses, norm = learner.step(BATCH)
    assert losses.tolist() == [5, 37]  # (1 + 9) / 2, (25 + 49) / 2
    assert norm == 8  # |mean of -2, -6, -10, -14|
    assert_close(learner.net.x.grad, torch.tensor([-0.1]), rtol=1e-4, atol=0)
    assert_close(learner.net.x.detach(), torch.tensor([0.5]))  # Adam's first step is the learning rate


def test_network_is_projected_after_the_step() -> None:
    learner = learner_of(Point(highest=0.25))
    learner.step(BATCH)
    assert learner.net.x.item() == 0.25


def test_learning_rate_can_be_changed_and_is_not_part_of_the_state() -> None:
    learner, other = learner_of(Point()), learner_of(Point())
    learner.set_learning_rate(0.0)
    learner.step(BATCH)
    assert learner.net.x.item() == 0
    other.load_state_dict(learner.state_dict())
    assert other.optimizer.param_groups[0]["lr"] == 0.5
    moment = other.optimizer.state[other.net.x]["exp_avg"]
    assert_close(moment, learner.optimizer.state[learner.net.x]["exp_avg"])
    other.set_learning_rate(0.5)
    other.step(BATCH)
    assert other.net.x.item() > 0
