"""Check that a task's network is the mixture of the parameter sets."""

from __future__ import annotations

import torch

from polytask.nets import build
from polytask.nets.paco import PacoConfig


def test_equals_one_composed_network_per_task() -> None:
    net = build(PacoConfig(sets=3, hidden=[6, 5]), 4, 2, 4)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in net.parameters():
            weight.add_(torch.randn(weight.shape, generator=generator))
    x = torch.randn(8, 4, generator=generator)
    for k in range(4):
        mixture = torch.softmax(net.logits[k], dim=0)
        h = x
        for layer in [*net.hidden, net.output]:
            weight = torch.einsum("s,osi->oi", mixture, layer.weight)
            h = h @ weight.T + mixture @ layer.bias
            h = h if layer is net.output else torch.relu(h)
        torch.testing.assert_close(net(x, torch.full((8,), k)), h)


def test_sets_start_apart_and_mix_to_full_variance() -> None:
    net = build(PacoConfig(sets=20), 39, 4, 50)
    weight = net.hidden[1].weight  # (400, 20, 400)
    assert (weight[:, 0] - weight[:, 1]).abs().max() > 0.1
    # An orthogonal 400 x 400 matrix of gain sqrt(2) has entries of variance 2 / 400.
    torch.testing.assert_close(weight.mean(dim=1).var(), torch.tensor(2 / 400), rtol=0.02, atol=0)


def test_a_loss_leaves_other_mixtures_alone() -> None:
    net = build(PacoConfig(sets=3, hidden=[6]), 4, 2, 4)
    net(torch.ones(2, 4), torch.tensor([1, 1])).sum().backward()
    assert net.logits.grad.abs().sum(dim=1).gt(0).tolist() == [False, True, False, False]


def test_bad_tasks_get_the_average_mixture_of_the_others() -> None:
    net = build(PacoConfig(sets=2, hidden=[4]), 3, 1, 3)
    logits = torch.tensor([[1.0, 3.0], [5.0, 7.0], [100.0, -100.0]])
    net.logits.data.copy_(logits)
    net.reset_tasks(torch.tensor([False, False, True]))
    assert net.logits.tolist() == [[1.0, 3.0], [5.0, 7.0], [3.0, 5.0]]
    net.reset_tasks(torch.tensor([True, True, True]))  # there is nobody to learn from
    assert net.logits.tolist() == [[1.0, 3.0], [5.0, 7.0], [3.0, 5.0]]
