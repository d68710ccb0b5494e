import torch
from torch.testing import assert_close
from torchjd.scalarization import FAMO as Reference


def test_by_hand(make):
    # Equal logits: w ~ 1 / loss, normalized.
    assert_close(make("famo", 2, eps=1e-8).weights(torch.tensor([1.0, 3.0]), None), torch.tensor([0.75, 0.25]))


def test_agrees_with_torchjd_on_positive_losses(make):
    method = make("famo", 5, lr=0.025, eps=1e-8)
    reference = Reference(5, lr=0.025, weight_decay=1e-3)
    generator = torch.Generator().manual_seed(0)
    for _ in range(30):
        losses = (torch.rand(5, generator=generator) + 0.1).requires_grad_()
        after = losses.detach() * (0.8 + 0.2 * torch.rand(5, generator=generator))
        (expected,) = torch.autograd.grad(reference(losses), losses)
        assert_close(method.weights(losses.detach(), None), expected)  # float32 throughout: default tolerances
        method.after_step(after.clone)
        reference.update(after)
    assert expected.max() > 1.2 * expected.min()


def descend(method, steps=300):
    """Train two tasks whose losses differ in scale by a factor of 100; return their losses."""
    point, scale = torch.ones(2), torch.tensor([1.0, 0.01])
    for _ in range(steps):
        weights = method.weights(scale * point.square(), None)
        point = point - 0.1 * weights * 2 * scale * point
        method.after_step(lambda point=point: scale * point.square())
    return scale * point.square()


def test_reduces_the_spread_of_progress(make):
    start = torch.tensor([1.0, 0.01])
    plain = (descend(make("mean", 2)) / start).log()
    famo = (descend(make("famo", 2, eps=1e-8)) / start).log()
    assert plain.max() - plain.min() > 10  # the mean hardly moves the task with the small loss
    assert famo.max() - famo.min() < 0.1
    assert famo.max() < plain.max() - 0.5  # and the slower task makes more progress


def test_slow_tasks_gain_weight(make):
    method = make("famo", 2, lr=0.1)
    for _ in range(20):
        method.weights(torch.ones(2), None)
        method.after_step(lambda: torch.tensor([0.5, 0.9]))
    weights = method.weights(torch.ones(2), None)
    assert weights[1] > 0.7


def test_normalized_gradient_of_the_logits_by_hand(make):
    method = make("famo", 3, lr=0.1, weight_decay=0.0, eps=1e-8, normalize_gradient=True)
    for factors in ([1.0, 1.0, 0.5], [1.0, 1.0, 0.999]):  # much progress of the third task, then hardly any
        method.weights(torch.ones(3), None)
        method.after_step(lambda factors=factors: torch.tensor(factors))
    # Equal logits: the gradient is (-1, -1, 2) * log(2) / 9, of length sqrt(6) log(2) / 9.
    first = torch.tensor([-1.0, -1.0, 2.0]) / 6**0.5
    assert_close(first.norm(), torch.tensor(1.0))
    moved = torch.tensor([0.1, 0.1, -0.1])  # Adam's first step
    share = moved.softmax(0)
    delta = torch.tensor([0.0, 0.0, -torch.tensor(0.999).log()])
    second = share * (delta - share @ delta)
    second = second / second.norm()  # as long as the first, although the progress is 700 times smaller
    assert_close(method.state["exp_avg"], 0.9 * 0.1 * first + 0.1 * second, rtol=1e-3, atol=1e-6)


def test_equal_progress_does_not_move_normalized_logits(make):
    method = make("famo", 2, normalize_gradient=True)
    method.weights(torch.ones(2), None)
    method.after_step(lambda: torch.full((2,), 0.5))
    assert method.state["logits"].tolist() == [0.0, 0.0]


def test_a_negative_loss_counts_from_below_its_range_by_hand(make):
    # The range of the first loss starts at zero and is -1 to -0.01 (forget = 0.01), so the bound of D is twice the
    # lowest minus the highest, -1.99: D is -1 + 1.99 = 0.99. The second is positive and counts from zero: D is 1.
    weights = make("famo", 2, eps=1e-8, forget=0.01).weights(torch.tensor([-1.0, 1.0]), None)
    assert_close(weights, torch.tensor([1 / 0.99, 1.0]) / (1 / 0.99 + 1))


def test_negative_losses_keep_weights_moderate(make):
    method, generator = make("famo", 4, eps=1e-6), torch.Generator().manual_seed(0)
    scale = torch.tensor([0.01, 0.1, 1.0, 1.0])
    for update in range(300):
        losses = scale * (torch.rand(4, generator=generator) - 0.5)
        weights = method.weights(losses, None)
        assert (weights > 0).all()
        assert_close(weights.sum(), torch.tensor(1.0))
        if update > 100:  # once the ranges are known, losses of one scale differ at most twofold
            assert 0.45 < weights[2] / weights[3] < 2.2
        method.after_step(lambda losses=losses: losses - 0.01)
    assert torch.isfinite(method.state["logits"]).all()


def test_a_spike_is_forgotten(make):
    method = make("famo", 1, forget=0.1)
    method.weights(torch.tensor([-100.0]), None)
    for _ in range(200):
        method.weights(torch.tensor([-1.0]), None)
    assert_close(method.state["lowest"], torch.tensor([-1.0]), rtol=1e-3, atol=0)
