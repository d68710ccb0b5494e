"""Write the `.grad` of one parameter group for a minibatch; no other module computes task gradients or writes `.grad`.

An algorithm defines its loss once, per row and as a function of the network. Minibatches have the task axis first:

    def loss(net, batch):                                   # batch: any rows, of one task or of many
        return (net(batch.obs, batch.task) - batch.target).square()     # (rows,)

    backward = Backward(method, critic, loss)
    losses = backward(batch)                                # every tensor of batch is (K, B, ...), B rows a task
    optimizer.step()
    backward.after_step(batch)

A loss may also return facts of every row beside it, `loss, {"error": error}`: numbers that it has computed anyway and
that nothing differentiates. `backward.facts` has their task means.

A task's loss is the mean over its rows. Methods that need only the losses cost one forward and one backward pass over
all rows. For the others `vmap` over the task axis differentiates the same function for all tasks at once. The forward
pass is still one pass over all rows, and the backward pass gives a separate gradient for each task.

Because of `vmap`, a loss and a network must not change shared buffers in place (batch norm), branch on data or draw
random numbers. Draw noise before the call and put it into the batch. Networks that only the loss uses (target networks,
a critic inside the actor's loss) get no gradient.

One task with a bad number must not spoil the update of the others. A task whose loss is not finite gets the weight zero
(`GradMethod.weigh`). But zero times the derivative of its loss would still be NaN, also in parameters that all tasks
share. So derivatives of the loss by the network's output that are not finite count as zero. This is also their right
value where a loss clips an infinite ratio. If the network itself overflows, its gradient can still be NaN. Then the
learner skips the step (`algos.shared.learner`).

With several ranks, each has its part of the rows of every task. Task losses and gradients are averages over the rows of
all ranks, so all ranks write the same `.grad`. Methods that need only the losses exchange K losses and one gradient.
The Gram matrix is not linear in the gradients: it must be that of the averaged task gradients. So the other methods
exchange all of them, K times as many numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap
from torch.utils._pytree import tree_leaves, tree_map

from polytask.cuda_graph import fused
from polytask.grads.method import GradMethod
from polytask.parallel.ranks import ALONE, Ranks

Net = Callable[..., Any]  # called like the module
Batch = Any  # a tree (dict, tuple, named tuple) of tensors whose leading axes agree
Facts = dict[str, Tensor]  # by name: one number of every row (R,), or the means of every task (K,)
Loss = Callable[[Net, Batch], Tensor | tuple[Tensor, Facts]]  # (net, batch of R rows) -> loss of every row (R,)


class Backward:
    """Applies a gradient method to one network.

    Attributes:
        weights: Weights of the last update. (K,)
        facts: Task means (K,) of what the loss told in the last update, by name; over the rows of all ranks.
        gram: Gram matrix of the last update; None for methods that do not need it. (K, K) float64
    """

    weights: Tensor
    gram: Tensor | None = None

    def __init__(
        self,
        method: GradMethod,
        net: nn.Module,
        loss: Loss,
        autocast: torch.dtype | None = None,
        *,
        is_fused: bool = False,
        ranks: Ranks = ALONE,
    ) -> None:
        """Store method, network and loss.

        Args:
            method: Method that weighs the tasks.
            net: Network whose trainable parameters get a gradient.
            loss: Returns the loss of every row, and facts if it has any. Its arguments are a callable that replaces
                `net`, and a batch (R, ...).
            autocast: Lower-precision type for the forward pass, such as torch.bfloat16; None for full precision.
            is_fused: On a GPU, compile the forward and backward pass into fewer kernels. This applies to methods that
                need only the losses; torch cannot compile the gradients of all tasks under `vmap`.
            ranks: The processes that share the rows of every batch.
        """
        self.method, self.net, self.loss, self.autocast, self.is_fused = method, net, loss, autocast, is_fused
        self.ranks = ranks
        self.facts: Facts = {}
        device = method.last_losses.device
        self._row_losses = fused(self._plain_row_losses, device, is_wanted=is_fused)

    def __call__(self, batch: Batch) -> Tensor:
        """Overwrite `.grad` of the network's parameters and return the task losses (K,).

        Args:
            batch: Tensors (K, B, ...); row k has the data of task k. With several ranks, the rows of this rank.
        """
        return self._from_jacobian(batch) if self.method.needs_gram else self._from_losses(batch)

    def after_step(self, batch: Batch) -> None:
        """Let the method evaluate the same batch after the optimizer step; most methods do nothing here."""
        if self.method.needs_after_step:
            with torch.no_grad():
                self.method.look_back(lambda: self.task_losses(batch))

    def task_losses(self, batch: Batch) -> Tensor:
        """Return every task's mean loss (K,), over the rows of all ranks, from one pass over the rows."""
        return self.ranks.mean(self._own_losses(batch)[0], rows_of(batch))[0]

    def _own_losses(self, batch: Batch) -> tuple[Tensor, Facts]:
        """Return every task's mean loss (K,) and its facts, over the rows of this rank."""
        rows = self._row_losses(self.net, tree_map(lambda tensor: tensor.flatten(0, 1), batch))  # (K * B,)
        losses, facts = tree_map(lambda row: row.view(len(tree_leaves(batch)[0]), -1).mean(1), rows)
        return losses, facts

    def task_gradients(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the losses (K,) and the gradients (K, *parameter.shape) of all tasks, by parameter name.

        With several ranks they are averages over the rows of all.
        """
        losses, gradients, _ = self._task_gradients(batch)
        return losses, gradients

    def _task_gradients(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor], Facts]:
        """Return losses, gradients and facts of all tasks."""
        parameters = {name: p.detach() for name, p in self.net.named_parameters() if p.requires_grad}

        def task_loss(parameters: dict[str, Tensor], rows: Batch) -> tuple[Tensor, Facts]:
            def net(*args: object, **kwargs: object) -> object:
                return functional_call(self.net, parameters, args, kwargs)

            loss, facts = self._plain_row_losses(net, rows)
            return loss.mean(), {name: fact.mean() for name, fact in facts.items()}

        differentiate = vmap(grad_and_value(task_loss, has_aux=True), in_dims=(None, 0))
        gradients, (losses, facts) = differentiate(parameters, batch)
        return self._averaged(losses, gradients, facts, rows_of(batch))

    @torch.no_grad()
    def _averaged(
        self, losses: Tensor, gradients: dict[str, Tensor], facts: Facts, rows: int
    ) -> tuple[Tensor, dict[str, Tensor], Facts]:
        """Average losses, task gradients and facts over the rows of all ranks, in one exchange."""
        if self.ranks.is_alone:
            return losses, gradients, facts
        parts = [losses[:, None], *(gradient.flatten(1) for gradient in gradients.values())]
        parts += [fact[:, None] for fact in (*facts.values(), torch.ones_like(losses))]  # the last column counts rows
        flat = self.ranks.sum_(torch.cat(parts, 1).mul_(rows))  # (K, P + 2 + number of facts)
        mean, *means = (flat / flat[:, -1:]).split([part.shape[1] for part in parts], 1)
        named = zip(gradients.items(), means, strict=False)
        means_of_facts = (column.squeeze(1) for column in means[len(gradients) :])
        return (
            mean.squeeze(1),
            {name: mean.view(gradient.shape) for (name, gradient), mean in named},
            dict(zip(facts, means_of_facts, strict=False)),
        )

    def _plain_row_losses(self, net: Net, rows: Batch) -> tuple[Tensor, Facts]:
        """Return the loss of every row (R,) and its facts, in float32; the forward pass may run in lower precision."""

        def guarded(*args: object, **kwargs: object) -> object:
            return tree_map(FiniteDerivative.apply, net(*args, **kwargs))

        device = tree_leaves(rows)[0].device.type
        # No cache, because cached casts of parameters would outlive the vmap level in which they were made.
        with torch.autocast(device, dtype=self.autocast, enabled=self.autocast is not None, cache_enabled=False):
            result = self.loss(guarded, rows)
        loss, facts = result if isinstance(result, tuple) else (result, {})
        return loss.float(), {name: fact.detach().float() for name, fact in facts.items()}

    def _from_losses(self, batch: Batch) -> Tensor:
        """Weigh the losses and differentiate their sum once."""
        own, facts = self._own_losses(batch)
        with torch.no_grad():
            columns = [own.detach(), *facts.values()]
            means, share = self.ranks.mean(torch.cat(columns), rows_of(batch))
            losses, *averages = means.split(len(own))
            self.facts = dict(zip(facts, averages, strict=True))
            self.weights = self.method.weigh(losses, None)
            factors = self.weights if self.ranks.is_alone else share * self.weights
        parameters = [p for p in self.net.parameters() if p.requires_grad]
        # Not backward(): a network inside the loss, such as the critic in an actor's loss, must not get a gradient.
        gradients = self.ranks.sum_all(torch.autograd.grad(own, parameters, factors, materialize_grads=True))
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = _laid_out_as(parameter, gradient)
        return losses

    def _from_jacobian(self, batch: Batch) -> Tensor:
        """Differentiate the loss of every task and combine the gradients by their weights."""
        losses, gradients, self.facts = self._task_gradients(batch)
        with torch.no_grad():
            self.gram = gram_matrix(gradients)
            self.weights = self.method.weigh(losses.detach(), self.gram)
            for name, gradient in gradients.items():
                parameter = self.net.get_parameter(name)
                parameter.grad = _laid_out_as(parameter, torch.tensordot(self.weights, gradient, 1))
        return losses.detach()


class FiniteDerivative(torch.autograd.Function):
    """The identity; in the backward pass, derivatives that are NaN or infinite become zero."""

    generate_vmap_rule = True

    @staticmethod
    def forward(output: Tensor) -> Tensor:
        """Return the same tensor."""
        return output.view_as(output)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        """Store nothing."""

    @staticmethod
    def backward(ctx: Any, derivative: Tensor) -> Tensor:
        """Replace what is not finite."""
        return derivative.nan_to_num(0.0, 0.0, 0.0)


def _laid_out_as(parameter: Tensor, gradient: Tensor) -> Tensor:
    """Return a gradient with its parameter's strides, also on axes of size one, as fused optimizers require."""
    return gradient if gradient.stride() == parameter.stride() else torch.empty_like(parameter).copy_(gradient)


def rows_of(batch: Batch) -> int:
    """Return the number of rows of each task in a batch (K, B, ...)."""
    return int(tree_leaves(batch)[0].shape[1])


def gram_matrix(gradients: dict[str, Tensor]) -> Tensor:
    """Return the dot products (K, K) of the tasks' whole gradients, summed over the parameters in float64.

    Float64 keeps the matrix positive semi-definite. Float32 sums over a million entries do not.
    """

    def products(gradient: Tensor) -> Tensor:
        rows = gradient.flatten(1).double()
        return rows @ rows.T

    return torch.stack([products(gradient) for gradient in gradients.values()]).sum(0)
