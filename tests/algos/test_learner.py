"""How a learner reports conflicts between tasks."""

from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from polytask.algos.learner import Learner, adam
from polytask.grads import GRADS, Backward, build_for

TASKS, CPU = ("a", "b"), torch.device("cpu")


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


# A loss -w . x of one row a task: the gradients are -x, of lengths 5 and 1 with cosine 3 / 5.
BATCH = Rows(torch.tensor([[[3.0, 4.0]], [[1.0, 0.0]]]), torch.ones(2, 1))


def reports(learner: Learner, iterations: int) -> list[dict[str, Tensor]]:
    found = []
    for _ in range(iterations):
        learner.step(BATCH)
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
