"""A task whose loss is not finite, in one update or in all: every method of the table leaves it out and recovers."""

import pytest
import torch
from helpers.task_rows import INPUTS, ROWS, TASKS, Rows
from helpers.task_rows import HeadPerTask as Net
from helpers.task_rows import squared_error as loss
from torch.func import functional_call, grad_and_value, vmap
from torch.testing import assert_close

from polytask.cuda_graph import Graphed
from polytask.grads import GRADS, Backward, build
from polytask.grads.backward import gram_matrix

BAD = 1  # the task with the bad number
# The square of 1e30 is infinite, but its derivative is not.
NUMBERS = [float("nan"), float("inf"), float("-inf"), 1e30]


def make_batch(number=None, tasks=(BAD,), device="cpu"):
    """Draw a batch; with a number, it replaces one target of each of some tasks."""
    generator = torch.Generator().manual_seed(0)
    obs = torch.randn(TASKS, ROWS, INPUTS, generator=generator)
    target = torch.randn(TASKS, ROWS, generator=generator) * torch.arange(1, TASKS + 1)[:, None]
    if number is not None:
        target[list(tasks), 2] = number
    task = torch.arange(TASKS)[:, None].expand(TASKS, ROWS)
    return Rows(obs.to(device), task.to(device), target.to(device))


def backward_of(name, device="cpu"):
    torch.manual_seed(0)
    method = build(GRADS[name][0](), TASKS, torch.device(device), torch.Generator(device).manual_seed(0))
    return Backward(method, Net().to(device), loss)


def update(backward, batch):
    """Compute the gradient and let the method look back, without an optimizer step."""
    losses = backward(batch)
    backward.after_step(batch)
    return losses


def gradients_of(net):
    return {name: parameter.grad.clone() for name, parameter in net.named_parameters()}


def plain_task_gradients(net, batch):
    """Differentiate the loss of every task, without any guard."""

    def task_loss(parameters, rows):
        return loss(lambda *args: functional_call(net, parameters, args), rows).mean()

    parameters = {name: p.detach() for name, p in net.named_parameters()}
    gradients, losses = vmap(grad_and_value(task_loss), in_dims=(None, 0))(parameters, batch)
    return losses, gradients


@pytest.mark.parametrize("name", GRADS)
def test_finite_numbers_give_the_bits_of_the_plain_formula(name):
    guarded, plain, batch = backward_of(name), backward_of(name), make_batch()
    for _ in range(2):
        update(guarded, batch)
        if plain.method.needs_gram:
            losses, gradients = plain_task_gradients(plain.net, batch)
            weights = plain.method.weights(losses, gram_matrix(gradients))
            expected = {name: torch.tensordot(weights, gradient, 1) for name, gradient in gradients.items()}
        else:
            losses = loss(plain.net, Rows(*(tensor.flatten(0, 1) for tensor in batch))).view(TASKS, -1).mean(1)
            weights = plain.method.weights(losses.detach(), None)
            found = torch.autograd.grad((weights * losses).sum(), list(plain.net.parameters()))
            expected = dict(zip(dict(plain.net.named_parameters()), found, strict=True))
        plain.method.after_step(lambda losses=losses: losses.detach())
        assert_close(gradients_of(guarded.net), expected, rtol=0, atol=0)
        assert_close(guarded.method.state_dict(), plain.method.state_dict(), rtol=0, atol=0)


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("name", GRADS)
def test_a_bad_task_is_left_out_of_the_gradient(name, number):
    backward = backward_of(name)
    update(backward, make_batch())
    losses = update(backward, make_batch(number))
    assert losses.isfinite().tolist() == backward.method.is_used.tolist() == [task != BAD for task in range(TASKS)]
    assert backward.weights[BAD] == 0
    assert backward.weights.isfinite().all() and backward.weights.any()
    _, gradients = plain_task_gradients(backward.net, make_batch())  # the other tasks' rows are the same
    expected = {name: torch.tensordot(backward.weights, gradient, 1) for name, gradient in gradients.items()}
    assert_close(gradients_of(backward.net), expected)


@pytest.mark.parametrize("name", [name for name, (_, method) in GRADS.items() if method.needs_gram])
@pytest.mark.parametrize("entry", [float("nan"), float("inf"), float("-inf"), 5.0])
def test_a_bad_task_is_weighed_like_a_task_without_gradient(make, draw, name, entry):
    jacobian, losses = draw(TASKS, "uneven"), torch.ones(TASKS)
    jacobian[BAD] = 0
    expected = make(name, TASKS).weights(losses, jacobian @ jacobian.T)
    gram = jacobian @ jacobian.T
    gram[BAD] = gram[:, BAD] = entry
    method = make(name, TASKS)
    weights = method.weigh(torch.where(torch.arange(TASKS) == BAD, torch.nan, losses), gram)
    others = torch.arange(TASKS) != BAD
    assert_close(weights, expected * others, rtol=0, atol=0)
    assert all(tensor.isfinite().all() for tensor in method.state_dict().values())


@pytest.mark.parametrize("name", [name for name, (_, method) in GRADS.items() if method.needs_gram])
@pytest.mark.parametrize("entry", [torch.nan, torch.inf, -torch.inf])
def test_a_gradient_that_is_not_finite_does_not_reach_the_state(make, draw, name, entry):
    jacobian = draw(TASKS, "even")
    jacobian[BAD, 0] = entry  # although the loss is finite
    method = make(name, TASKS)
    assert method.weigh(torch.ones(TASKS), jacobian @ jacobian.T).isfinite().all()
    assert all(tensor.isfinite().all() for tensor in method.state_dict().values())


@pytest.mark.parametrize("number", NUMBERS)
def test_the_mean_still_divides_by_all_tasks(number):
    backward = backward_of("mean")
    update(backward, make_batch(number))
    assert backward.weights.tolist() == [0.25, 0, 0.25, 0.25]


@pytest.mark.parametrize("name", GRADS)
def test_after_a_bad_update_a_method_goes_on_as_if_it_had_not_happened(name):
    disturbed, calm = backward_of(name), backward_of(name)
    for number in (None, float("nan"), None):
        update(disturbed, make_batch(number))
        update(calm, make_batch())
    # The dual solvers of CAGrad and MGDA start from their last solution, which the bad update moved.
    assert_close(disturbed.weights, calm.weights, rtol=1e-4, atol=1e-5)
    assert_close(gradients_of(disturbed.net), gradients_of(calm.net), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", GRADS)
def test_without_any_finite_loss_state_and_gradient_stay_finite(name):
    backward = backward_of(name)
    update(backward, make_batch(float("nan"), tasks=range(TASKS)))
    assert not backward.method.is_used.any()
    assert not backward.weights.any()
    assert all(not gradient.any() for gradient in gradients_of(backward.net).values())
    assert all(tensor.isfinite().all() for tensor in backward.method.state_dict().values())


def test_a_loss_that_is_bad_only_after_the_step_counts_as_unchanged():
    looked, calm = (build(GRADS["famo"][0](), 2, torch.device("cpu"), torch.Generator()) for _ in range(2))
    before = torch.tensor([1.0, 2.0])
    for method, after in ((looked, [0.5, float("nan")]), (calm, [0.5, 2.0])):
        method.weigh(before, None)
        method.look_back(lambda after=after: torch.tensor(after))
    assert_close(looked.state_dict(), calm.state_dict(), rtol=0, atol=0)


@pytest.mark.parametrize("name", GRADS)
def test_a_clipped_infinite_ratio_has_no_gradient(name):
    def clipped(net, rows):
        ratio = (1e3 * rows.target.abs() + net(rows.obs, rows.task)).exp()  # infinite
        return torch.maximum(-ratio, -ratio.clamp(0.8, 1.2))  # -1.2, whose derivative is 0 * inf

    backward = backward_of(name)
    backward.loss = clipped
    losses = update(backward, make_batch())
    assert_close(losses, torch.full((TASKS,), -1.2))
    assert all(not gradient.any() for gradient in gradients_of(backward.net).values())


@pytest.mark.gpu
@pytest.mark.parametrize("name", GRADS)
def test_a_captured_update_leaves_out_bad_tasks_without_waiting(name, without_waiting):
    backward, batch = backward_of(name, "cuda"), make_batch(device="cuda")
    run = Graphed(lambda: update(backward, batch), torch.device("cuda"), getattr(backward.method, "generator", None))
    for _ in range(4):
        run()
    bad = make_batch(float("nan"), device="cuda").target
    with without_waiting():
        batch.target.copy_(bad)
        run()
    assert backward.method.is_used.tolist() == [task != BAD for task in range(TASKS)]
    assert all(gradient.isfinite().all() for gradient in gradients_of(backward.net).values())
    batch.target.copy_(make_batch(device="cuda").target)
    run()
    assert backward.method.is_used.all()
    assert all(gradient.isfinite().all() for gradient in gradients_of(backward.net).values())


@pytest.mark.parametrize("name", GRADS)
def test_a_task_with_a_large_loss_is_masked_but_not_bad(name):
    method = build(GRADS[name][0](max_loss=10.0), 3, torch.device("cpu"), torch.Generator())
    gram = torch.eye(3, dtype=torch.float64) if method.needs_gram else None
    weights = method.weigh(torch.tensor([1.0, 10.5, 10.0]), gram)
    assert method.is_used.tolist() == [True, False, True]
    assert method.is_finite.all()  # nothing to stop a run for
    assert weights[1] == 0 and (weights[[0, 2]] > 0).all()
    assert method.last_losses.tolist() == [1.0, 0.0, 10.0]
