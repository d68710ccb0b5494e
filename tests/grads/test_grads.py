"""Properties of every gradient method in the table."""

from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

import polytask.grads
from polytask.errors import UserError
from polytask.grads import GRADS, build_for
from polytask.grads.mean import Mean
from polytask.grads.pcgrad import PCGradConfig

CONVEX = ("mean", "mgda", "famo", "uncertainty")
DIRECTION = ("imtl_g", "nash_mtl", "aligned_mtl")


def updates(method, jacobian, steps):
    """Run some updates on changing gradients and losses; return the weights of the last."""
    for step in range(steps):
        turned = jacobian.roll(step, dims=1) + 0.1 * jacobian
        losses = turned.norm(dim=1).float()
        weights = method.weights(losses, turned @ turned.T)
        method.after_step(lambda losses=losses: 0.9 * losses - 0.1 * losses.square() / losses.max())
    return weights


def test_every_module_is_in_the_table():
    shared = {"__init__", "method", "simplex", "solvers", "kernels", "backward", "diagnostics"}
    modules = {path.stem for path in Path(polytask.grads.__file__).parent.glob("*.py")}
    assert modules - shared == set(GRADS)


def test_unknown_group_is_refused_with_the_known_ones():
    with pytest.raises(UserError, match=r"grads.apply_to=value.*critic, actor"):
        build_for("actor", PCGradConfig(apply_to="value"), 3, torch.device("cpu"), torch.Generator())


@pytest.mark.parametrize(("apply_to", "group", "applies"), [
    ("critic", "critic", True), ("critic", "actor", False), ("actor", "actor", True), ("both", "actor", True)
])  # fmt: skip
def test_other_group_uses_the_mean(apply_to, group, applies):
    method = build_for(group, PCGradConfig(apply_to=apply_to), 3, torch.device("cpu"), torch.Generator())
    assert isinstance(method, Mean) != applies


@pytest.mark.parametrize("name", GRADS)
@pytest.mark.parametrize("gradients", [[[0.0, 0.0]] * 3, [[1.0, 0], [0, 0], [1, 1]], [[1.0, 2]], [[1.0, 0], [-1, 0]]])
def test_degenerate_gradients_give_finite_updates(solve, name, gradients):
    jacobian = torch.tensor(gradients)
    weights = solve(name, jacobian)
    assert weights.shape == (len(gradients),)
    assert weights.dtype == torch.float32
    assert torch.isfinite(weights).all()


@pytest.mark.parametrize("name", sorted(set(GRADS) - {"pcgrad"}))  # PCGrad's order must be renamed too: own test
def test_renaming_tasks_renames_the_weights(make, draw, name):
    jacobian, names = draw(10, "uneven"), torch.randperm(10, generator=torch.Generator().manual_seed(1))
    expected = updates(make(name, 10), jacobian, 3)
    # After 50 steps MGDA is 1e-9 away from the optimum, and rounding changes its path.
    assert_close(updates(make(name, 10), jacobian[names], 3), expected[names], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", [name for name, (_, method) in GRADS.items() if method.needs_gram])
@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_weights_do_not_depend_on_the_overall_scale(solve, draw, name, scale):
    jacobian = draw(10, "uneven")
    assert_close(solve(name, scale * jacobian), solve(name, jacobian), rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("name", CONVEX)
def test_convex_methods_share_out_one(make, jacobian, num_tasks, name):
    weights = updates(make(name, num_tasks), jacobian, 3)
    assert (weights >= 0).all()
    assert_close(weights.sum().item(), 1.0, rtol=1e-5, atol=0)


@pytest.mark.parametrize("name", DIRECTION)
def test_direction_methods_have_the_length_of_an_orthogonal_mean(solve, jacobian, num_tasks, name):
    length = (solve(name, jacobian) @ jacobian).norm()
    # Aligned-MTL's ridge of 1e-6 shortens directions whose eigenvalue is 1e-4 of the mean by half a percent.
    assert_close(length, jacobian.norm() / num_tasks, rtol=5e-3, atol=0)


@pytest.mark.parametrize("name", GRADS)
def test_equal_orthogonal_gradients_give_the_mean(solve, name):
    # Here all conventions of scale give the same; CAGrad adds its pull of c to the mean.
    expected = 0.25 * (1.4 / 1.16 if name == "cagrad" else 1.0)
    assert_close(solve(name, 3 * torch.eye(4, 7)), torch.full((4,), expected), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", GRADS)
def test_saved_state_continues_bit_for_bit(make, draw, name):
    jacobian = draw(5, "uneven").float()
    first, second = make(name, 5), make(name, 5)
    updates(first, jacobian, 4)
    saved = {key: value.clone() for key, value in first.state_dict().items()}
    addresses = {key: value.data_ptr() for key, value in second.state_dict().items()}
    second.load_state_dict(saved)
    if name == "pcgrad":  # the algorithm owns and saves its generator
        second.generator.set_state(first.generator.get_state())
    assert torch.equal(updates(first, jacobian, 2), updates(second, jacobian, 2))
    assert {key: value.data_ptr() for key, value in second.state_dict().items()} == addresses
