"""Per-task gradients and `.grad` on a small network with shared layers and a head per task."""

import pytest
import torch
from helpers.task_rows import INPUTS, ROWS, TASKS, HeadPerTask, Rows
from helpers.task_rows import squared_error as loss
from torch import nn
from torch.testing import assert_close

from polytask import nets
from polytask.cuda_graph import Graphed
from polytask.grads import GRADS, Backward, build
from polytask.grads.backward import gram_matrix
from polytask.grads.mean import Mean, MeanConfig
from polytask.nets import NETS


class Net(HeadPerTask):
    """Also has a parameter that is not used, one that is not trained, and a record of its calls."""

    def __init__(self):
        super().__init__()
        self.unused = nn.Parameter(torch.ones(2))
        self.frozen = nn.Parameter(torch.ones(1), requires_grad=False)
        self.calls = []

    def forward(self, obs, task):
        self.calls.append(obs.shape)
        return super().forward(obs, task) * self.frozen


class MeanOfGradients(Mean):
    """The mean, computed from per-task gradients."""

    needs_gram = True


def make_batch(device="cpu"):
    generator = torch.Generator().manual_seed(0)
    obs = torch.randn(TASKS, ROWS, INPUTS, generator=generator)
    target = torch.randn(TASKS, ROWS, generator=generator) * torch.arange(1, TASKS + 1)[:, None]
    task = torch.arange(TASKS)[:, None].expand(TASKS, ROWS)
    return Rows(obs.to(device), task.to(device), target.to(device))


def make_net(device="cpu"):
    torch.manual_seed(0)
    return Net().to(device)


def method(name, device="cpu", num_tasks=TASKS):
    return build(GRADS[name][0](), num_tasks, torch.device(device), torch.Generator(device).manual_seed(0))


def gradients_of(net):
    return {name: parameter.grad for name, parameter in net.named_parameters()}


def loop_gradients(net, batch):
    """Differentiate task by task, as a slow reference."""
    parameters = [p for p in net.parameters() if p.requires_grad]
    losses = [loss(net, Rows(*(tensor[k] for tensor in batch))).mean() for k in range(TASKS)]
    rows = [torch.autograd.grad(one, parameters, materialize_grads=True) for one in losses]
    names = [name for name, p in net.named_parameters() if p.requires_grad]
    return torch.stack(losses).detach(), dict(zip(names, map(torch.stack, zip(*rows, strict=True)), strict=True))


@pytest.mark.parametrize("name", ["mean", "pcgrad"])
def test_facts_beside_a_loss_are_averaged_per_task_and_change_no_gradient(name):
    def telling(net, rows):
        error = net(rows.obs, rows.task) - rows.target
        return error.square(), {"error": error, "target": rows.target}

    plain, told, batch = make_net(), make_net(), make_batch()
    losses = Backward(method(name), plain, lambda net, rows: telling(net, rows)[0])(batch)
    backward = Backward(method(name), told, telling)
    assert_close(backward(batch), losses, rtol=0, atol=0)
    assert_close(gradients_of(told), gradients_of(plain), rtol=0, atol=0)
    assert_close(backward.facts["target"], batch.target.mean(1))
    tasks = [Rows(*(tensor[k] for tensor in batch)) for k in range(TASKS)]
    assert_close(backward.facts["error"], torch.stack([telling(told, rows)[1]["error"].mean() for rows in tasks]))
    assert not backward.facts["error"].requires_grad
    backward.after_step(batch)
    assert_close(backward.task_losses(batch), losses)


def test_vmap_equals_a_loop_over_tasks():
    net, batch = make_net(), make_batch()
    losses, gradients = Backward(method("pcgrad"), net, loss).task_gradients(batch)
    expected_losses, expected = loop_gradients(net, batch)
    assert_close(losses, expected_losses)
    assert_close(gradients, expected)


def test_gram_matrix_is_that_of_the_flattened_gradients():
    _, gradients = loop_gradients(make_net(), make_batch())
    jacobian = torch.cat([gradient.flatten(1) for gradient in gradients.values()], 1).double()
    assert_close(gram_matrix(gradients), jacobian @ jacobian.T)


def test_both_paths_agree_on_the_mean():
    batch, plain, split = make_batch(), make_net(), make_net()
    plain_losses = Backward(method("mean"), plain, loss)(batch)
    generator = torch.Generator()
    split_losses = Backward(MeanOfGradients(MeanConfig(), TASKS, torch.device("cpu"), generator), split, loss)(batch)
    assert_close(plain_losses, split_losses)
    assert_close(gradients_of(plain), gradients_of(split))
    assert_close(plain.unused.grad, torch.zeros(2))
    assert plain.frozen.grad is None


def test_losses_and_gradient_of_the_mean_are_autograds():
    net, batch = make_net(), make_batch()
    losses = Backward(method("mean"), net, loss)(batch)
    residual = torch.stack([net(batch.obs[k], batch.task[k]) for k in range(TASKS)]) - batch.target
    assert_close(losses, residual.square().mean(1).detach())
    assert not losses.requires_grad
    (expected,) = torch.autograd.grad(residual.square().mean(), net.heads.weight)
    assert_close(net.heads.weight.grad, expected)


@pytest.mark.parametrize("name", GRADS)
def test_grad_is_the_weighted_sum_of_task_gradients(name):
    net, batch = make_net(), make_batch()
    _, gradients = loop_gradients(net, batch)
    backward = Backward(method(name), net, loss)
    backward(batch)
    for parameter, gradient in gradients.items():
        assert_close(net.get_parameter(parameter).grad, torch.tensordot(backward.weights, gradient, 1))


def test_loss_methods_make_one_pass_over_all_rows():
    net, batch = make_net(), make_batch()
    Backward(method("uncertainty"), net, loss)(batch)
    assert net.calls == [(TASKS * ROWS, INPUTS)]


@pytest.mark.parametrize("name", ["mean", "pcgrad"])
def test_grad_is_replaced_and_other_networks_get_none(name):
    net, other, batch = make_net(), make_net(), make_batch()

    def loss_through_other(net, rows):
        return other(rows.obs * net(rows.obs, rows.task)[:, None], rows.task).square()

    backward = Backward(method(name), net, loss_through_other)
    backward(batch)
    first = {name: grad.clone() for name, grad in gradients_of(net).items() if grad is not None}
    backward(batch)
    assert {name for name, grad in gradients_of(net).items() if grad is not None} == set(first)
    if name == "mean":  # PCGrad draws another order the second time
        assert_close({name: gradients_of(net)[name] for name in first}, first)
    assert all(grad is None for grad in gradients_of(other).values())


@pytest.mark.parametrize("name", ["mean", "cagrad"])
def test_batches_may_be_dicts(name):
    net, twin, batch = make_net(), make_net(), make_batch()
    Backward(method(name), net, loss)(batch)
    Backward(method(name), twin, lambda net, rows: loss(net, Rows(**rows)))(batch._asdict())
    assert_close(gradients_of(net), gradients_of(twin))


@pytest.mark.parametrize("name", ["mean", "cagrad"])
def test_autocast_lowers_only_the_forward_pass(name):
    net, twin, batch = make_net(), make_net(), make_batch()
    losses = Backward(method(name), net, loss, autocast=torch.bfloat16)(batch)
    exact = Backward(method(name), twin, loss)(batch)
    assert losses.dtype == net.heads.weight.grad.dtype == torch.float32
    assert not torch.equal(losses, exact)
    assert_close(losses, exact, rtol=0.03, atol=0.03)  # bfloat16 keeps 8 bits
    assert_close(net.heads.weight.grad, twin.heads.weight.grad, rtol=0.05, atol=0.05)


def test_after_step_shows_the_same_batch_after_the_step():
    net, batch = make_net(), make_batch()
    backward = Backward(method("famo"), net, loss)
    before = backward(batch)
    with torch.no_grad():
        net.heads.bias -= 0.5
    seen = []
    backward.method.after_step = lambda losses: seen.append(losses())
    backward.after_step(batch)
    assert_close(seen[0], Backward(method("mean"), net, loss)(batch))
    assert not torch.equal(seen[0], before)
    assert not seen[0].requires_grad


def test_after_step_is_free_for_methods_without_it():
    net, batch = make_net(), make_batch()
    backward = Backward(method("mean"), net, loss)
    backward(batch)
    backward.after_step(batch)
    assert len(net.calls) == 1


def architecture(name, grads):
    """Return a `Backward` for an architecture with three tasks, and a batch for it."""
    tasks, generator = ("reach", "push", "door-open"), torch.Generator().manual_seed(0)
    net = nets.build(NETS[name][0](), INPUTS, 1, 3, tasks)
    task = torch.arange(3)[:, None].expand(3, ROWS)
    batch = Rows(torch.randn(3, ROWS, INPUTS, generator=generator), task, torch.randn(3, ROWS, generator=generator))

    def row_loss(net, rows):
        return (net(rows.obs, rows.task)[:, 0] - rows.target).square()

    return Backward(method(grads, num_tasks=3), net, row_loss), batch


@pytest.mark.parametrize("name", NETS)
def test_every_architecture_has_task_gradients(name):
    backward, batch = architecture(name, "pcgrad")
    _, gradients = backward.task_gradients(batch)
    parameters = [backward.net.get_parameter(name) for name in gradients]
    expected = torch.autograd.grad(backward.task_losses(batch)[1], parameters, materialize_grads=True)
    # Float32 sums in another order, through up to a dozen layers.
    assert_close([gradient[1] for gradient in gradients.values()], list(expected), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("grads", ["mean", "pcgrad"])
@pytest.mark.parametrize("name", NETS)
def test_gradients_lie_in_memory_as_their_parameters_do(name, grads):
    """Fused optimizers accept no other layout."""
    backward, batch = architecture(name, grads)
    backward(batch)
    trained = [p for p in backward.net.parameters() if p.requires_grad]
    assert [p.grad.stride() for p in trained] == [p.stride() for p in trained]


@pytest.mark.gpu
@pytest.mark.parametrize("name", GRADS)
@pytest.mark.parametrize("autocast", [None, torch.bfloat16])
def test_captured_updates_equal_eager_ones(name, autocast):
    def train(capture):
        net, batch = make_net("cuda"), make_batch("cuda")
        backward = Backward(method(name, "cuda"), net, loss, autocast)
        optimizer = torch.optim.Adam(net.parameters(), lr=torch.tensor(1e-2, device="cuda"), capturable=True)

        def update():
            losses = backward(batch)
            optimizer.step()
            backward.after_step(batch)
            return losses

        generator = getattr(backward.method, "generator", None)
        run = Graphed(update, torch.device("cuda"), generator) if capture else update
        return torch.stack([run().clone() for _ in range(10)])

    # Graphs may use other kernels than eager mode, and ten Adam steps amplify the rounding differences.
    assert_close(train(capture=True), train(capture=False), rtol=1e-3, atol=1e-4)
