"""One step of a learner: clipping, projection, bad numbers, learning rate, saved state; conflicts between tasks."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.testing import assert_close

from polytask.algos.pqn import radam
from polytask.algos.shared.learner import Learner, adam
from polytask.cuda_graph import Graphed
from polytask.errors import UserError
from polytask.grads import GRADS, Backward, build_for
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


def learner_of(net: Point, max_norm: float = 1e9, optimizer: Callable[..., Optimizer] = adam) -> Learner:
    method = Mean(MeanConfig(), 2, CPU, torch.Generator())
    return Learner(Backward(method, net, square), optimizer(net, 0.5, CPU), max_norm)


def test_step_reports_task_losses_and_the_norm_before_clipping() -> None:
    learner = learner_of(Point(), max_norm=0.1)
    losses, norm = learner.step(BATCH)
    assert losses.tolist() == [5, 37]  # (1 + 9) / 2, (25 + 49) / 2
    assert norm == 8  # |mean of -2, -6, -10, -14|
    assert_close(learner.net.x.grad, torch.tensor([-0.1]), rtol=1e-4, atol=0)
    assert_close(learner.net.x.detach(), torch.tensor([0.5]))  # Adam's first step is the learning rate


def test_step_lets_the_method_look_back_at_the_same_batch() -> None:
    net = Point()
    method = build_for("critic", GRADS["famo"][0](), 2, CPU, torch.Generator())
    learner = Learner(Backward(method, net, square), adam(net, 0.5, CPU))
    learner.step(BATCH)
    # From x = 0 to 0.5 the losses fall from 5 to 3.25 and from 37 to 31.25. The second task makes less progress.
    assert_close(method.state["logits"], torch.tensor([-1e-3, 1e-3]), rtol=1e-4, atol=0)
    progress = torch.tensor([5.01 / 3.26, 37.01 / 31.26]).log()
    gradient = 0.5 * (progress - progress.mean())  # of the softmax at equal logits, times the progress
    assert_close(method.state["exp_avg"], 0.1 * gradient)
    learner.descend(BATCH)  # without looking back
    assert method.state["steps"] == 1


def test_weight_decay_shrinks_a_parameter_apart_from_its_gradient() -> None:
    net = nn.Linear(1, 1, bias=False)
    for decay in (0.0, 0.1):
        with torch.no_grad():
            net.weight.fill_(4.0)
        optimizer = adam(net, 0.5, CPU, weight_decay=decay)
        net.weight.grad = torch.ones(1, 1)
        optimizer.step()
        assert net.weight.item() == pytest.approx(4.0 * (1 - 0.5 * decay) - 0.5)  # Adam's first step is the rate


def test_the_state_of_the_gradient_method_is_restored() -> None:
    def learner() -> Learner:
        method = GRADS["famo"][1](GRADS["famo"][0](), 2, CPU, torch.Generator())
        net = Point()
        return Learner(Backward(method, net, square), adam(net, 0.5, CPU), 1e9)

    old, new = learner(), learner()
    for _ in range(3):
        old.step(BATCH)
    before = {name: value.clone() for name, value in new.backward.method.state_dict().items()}
    new.load_state_dict(old.state_dict())
    assert_close(new.backward.method.state_dict(), old.backward.method.state_dict(), rtol=0, atol=0)
    assert any((before[name] != value).any() for name, value in new.backward.method.state_dict().items())


def test_mean_weights_of_the_tasks_are_reported_once() -> None:
    method = build_for("critic", GRADS["famo"][0](eps=1e-8), 2, CPU, torch.Generator())
    learner = Learner(Backward(method, Point(), square), adam(Point(), 0.5, CPU))  # a network that never moves
    for target in (1.0, 2.0):  # with equal logits, weights are in inverse proportion to the losses
        learner.step((torch.tensor([[target], [1.0]]),))
        method.state["logits"].zero_()
    found = learner.pop_weights(2, "critic", ("a", "b"))
    expected = {"per_task/a/critic_weight": (0.5 + 0.2) / 2, "per_task/b/critic_weight": (0.5 + 0.8) / 2}
    assert {name: value.item() for name, value in found.items()} == pytest.approx(expected)
    assert not any(learner.pop_weights(1, "critic", ("a", "b")).values())


def test_equal_weights_are_not_reported() -> None:
    learner = learner_of(Point())
    learner.step(BATCH)
    assert learner.pop_weights(1, "critic", ("a", "b")) == {}


class OwnPoint(Point):
    """A point that remembers which tasks were reset."""

    def reset_tasks(self, is_bad: Tensor) -> None:
        self.is_bad = is_bad


@pytest.mark.parametrize(("max_loss", "bad"), [(6.0, [False, True]), (math.inf, None)])
def test_masked_tasks_have_no_gradient_and_are_reset(max_loss: float, bad: list[bool] | None) -> None:
    net = OwnPoint()
    method = Mean(MeanConfig(max_loss=max_loss), 2, CPU, torch.Generator())
    learner = Learner(Backward(method, net, square), adam(net, 0.5, CPU))
    learner.step(BATCH)  # losses 5 and 37, gradients -4 and -12
    assert net.x.grad.item() == (-8.0 if bad is None else -2.0)
    assert learner.pop_skipped(1) == 0  # a masked loss is no divergence
    assert (net.is_bad.tolist() if bad else None) == bad


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


def batch_with(*numbers: float) -> tuple[Tensor]:
    """Return the batch with other numbers in the first rows of the tasks."""
    rows = BATCH[0].clone()
    rows[:, 0] = torch.tensor(numbers)
    return (rows,)


ALL_BAD = [batch_with(math.nan, math.nan), batch_with(math.inf, math.nan)]
HUGE = batch_with(1e30, 1.0)  # the loss of the first task overflows, but its derivative does not


def step_with_gradient(learner: Learner, factor: float) -> None:
    """Take a step with finite losses whose gradient is multiplied by a factor, as if the network had overflowed."""
    hook = learner.net.x.register_hook(lambda gradient: gradient * factor)
    losses, norm = learner.step(BATCH)
    hook.remove()
    assert losses.isfinite().all() and not norm.isfinite()


@pytest.mark.parametrize("optimizer", [adam, radam])
@pytest.mark.parametrize("bad", [*ALL_BAD, math.inf, math.nan])
def test_a_step_without_a_finite_gradient_changes_no_parameter(optimizer, bad) -> None:
    learner = learner_of(Point(), optimizer=optimizer)
    for _ in range(8):  # afterwards the moments would move the parameter even with a zero gradient
        learner.step(BATCH)
    before = learner.net.x.item()
    if isinstance(bad, float):
        step_with_gradient(learner, bad)
    else:
        learner.step(bad)
    assert learner.net.x.item() == before
    assert learner.optimizer.param_groups[0]["lr"] == 0.5
    assert all(moment.isfinite().all() for moment in learner.optimizer.state[learner.net.x].values())
    learner.step(BATCH)
    assert learner.net.x.isfinite() and learner.net.x.item() != before


def test_a_skipped_step_of_a_fused_optimizer_leaves_no_trace() -> None:
    disturbed, calm = learner_of(Point()), learner_of(Point())
    for batch in (BATCH, ALL_BAD[0], BATCH):
        disturbed.step(batch)
    for batch in (BATCH, BATCH):
        calm.step(batch)
    assert_close(disturbed.state_dict(), calm.state_dict(), rtol=0, atol=0)


def test_a_step_with_one_bad_task_follows_the_other() -> None:
    learner = learner_of(Point())
    losses, norm = learner.step(HUGE)
    assert losses.tolist() == [math.inf, 25]  # (1 + 49) / 2
    assert norm == 4  # |mean of -2, -14|, divided by two tasks
    assert_close(learner.net.x.detach(), torch.tensor([0.5]))


def test_the_share_of_skipped_updates_is_that_of_the_worst_task() -> None:
    learner = learner_of(Point())
    for batch in (BATCH, HUGE, ALL_BAD[0]):
        learner.step(batch)
    step_with_gradient(learner, math.inf)
    assert learner.pop_skipped(4) == 0.75  # the first task
    learner.step(BATCH)
    assert learner.pop_skipped(1) == 0
    assert learner.pop_skipped(0) == 0  # an iteration without updates


def test_the_last_finite_losses_are_part_of_the_state() -> None:
    learner, other = learner_of(Point()), learner_of(Point())
    learner.step(BATCH)
    other.load_state_dict(learner.state_dict())
    assert other.backward.method.last_losses.tolist() == [5, 37]
    old = {name: value for name, value in learner.state_dict().items() if name != "losses"}
    learner_of(Point()).load_state_dict(old)  # version 0.1 did not save them


@pytest.mark.gpu
@pytest.mark.parametrize("optimizer", [adam, radam])
def test_a_captured_step_is_skipped_without_waiting(optimizer, without_waiting) -> None:
    cuda = torch.device("cuda")
    net, rows = Point().to(cuda), BATCH[0].to(cuda)
    method = Mean(MeanConfig(), 2, cuda, torch.Generator(cuda))
    learner = Learner(Backward(method, net, square), optimizer(net, 0.5, cuda), 1e9)
    run = Graphed(lambda: learner.step((rows,)), cuda)
    for _ in range(8):
        run()
    before, bad = net.x.item(), ALL_BAD[0][0].to(cuda)
    with without_waiting():
        rows.copy_(bad)
        run()
    assert net.x.item() == before
    rows.copy_(BATCH[0])
    run()
    assert net.x.isfinite() and net.x.item() != before


TASKS = ("a", "b")


class Rows(NamedTuple):
    obs: Tensor
    target: Tensor


def make(name: str, every: int) -> Learner:
    net = nn.Linear(2, 1, bias=False)
    nn.init.zeros_(net.weight)
    config = GRADS[name][0](conflicts_every=every)
    backward = Backward(
        build_for("critic", config, 2, CPU, torch.Generator()),
        net,
        lambda net, rows: -(net(rows.obs)[:, 0] * rows.target),
    )
    return Learner(backward, adam(net, 0.1, CPU))


# The loss is -w . x with one row per task. So the gradients are -x, with lengths 5 and 1 and cosine 3 / 5.
LINES = Rows(torch.tensor([[[3.0, 4.0]], [[1.0, 0.0]]]), torch.ones(2, 1))


def reports(learner: Learner, iterations: int) -> list[dict[str, Tensor]]:
    found = []
    for _ in range(iterations):
        learner.step(LINES)
        found.append(learner.conflicts("conflict/critic", TASKS))
    return found


@pytest.mark.parametrize("name", ["mean", "pcgrad"])
def test_norms_and_cosines_are_reported_every_so_many_iterations(name):
    found = reports(make(name, every=2), 4)
    assert [bool(one) for one in found] == [False, True, False, True]
    expected = {"cosine_min": 0.6, "cosine_mean": 0.6, "cosine_max": 0.6, "norms/a": 5.0, "norms/b": 1.0}
    assert_close(
        {key: value.item() for key, value in found[1].items()}, {f"conflict/critic/{k}": v for k, v in expected.items()}
    )


def test_by_default_only_methods_that_compare_gradients_report():
    assert reports(make("mean", every=0), 2) == [{}, {}]
    assert all(reports(make("pcgrad", every=0), 2))


def test_a_resumed_learner_keeps_the_rhythm():
    first, second = make("mean", every=2), make("mean", every=2)
    reports(first, 1)
    second.load_state_dict(first.state_dict())
    assert reports(second, 1)[0]


def test_the_other_network_is_measured_too():
    config = GRADS["pcgrad"][0](apply_to="critic", conflicts_every=3)
    assert build_for("actor", config, 2, CPU, torch.Generator()).conflicts_every == 3


def test_before_the_first_step_there_is_nothing_to_report():
    assert make("mean", every=1).conflicts("conflict/critic", TASKS) == {}


def test_a_negative_rhythm_is_refused():
    with pytest.raises(UserError, match="conflicts_every=-1"):
        make("mean", every=-1)
