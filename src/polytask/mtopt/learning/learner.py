"""QT-Opt's learner: a Q-network regressed to stored targets, and the two older copies that targets come from.

Cross-entropy between sigmoid(logit) and the target, as in MT-Opt (arXiv 2104.08212). Q1 is a Polyak average of the
weights, Q2 a lagged copy of Q1; both are also what acts.

How fast a reward travels back through an episode is set by Q2, since a target is the smaller of the two: about one step
for each copy. The paper's 6,000 updates between copies belong to millions of updates. So both lags start short and
grow with training, the average's to `polyak` and the copies' to `lag`; a run of a few thousand updates never reaches
the paper's values and does not need to.

Differences from the paper, all off by default: `conservatism` asks for low values of actions that no data covers (as
Q-Transformer does, arXiv 2309.10150), which CEM would otherwise seek out; augmentation; a lower bound on targets.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import SGD, Adam, Optimizer

from polytask.errors import UserError
from polytask.mtopt.config.learning import LearnerConfig
from polytask.mtopt.learning.bellman import Followed, Observed, best_action, targets
from polytask.mtopt.learning.cem import draw, first_sampler
from polytask.mtopt.networks import QNetwork, augment
from polytask.mtopt.networks.layout import merges_by_place, picture_size


@dataclass(frozen=True)
class TrainBatch:
    """Supervised examples as the Bellman updater makes them."""

    image: Tensor  # (B, H, W, 3) uint8
    closed: Tensor  # (B,)
    height: Tensor  # (B,) m
    task: Tensor  # (B,) index
    action: Tensor  # (B, 8)
    target: Tensor  # (B,) in [0, 1]
    pose: Tensor | None = None  # (B, 3) of the hand; needed by networks that merge by place


class QLearner:
    """Trains one Q-network for all tasks and keeps the copies that act and that targets come from."""

    def __init__(self, config: LearnerConfig, num_tasks: int, device: torch.device | str = "cpu") -> None:
        """Build network, copies and optimiser on a device.

        Raises:
            UserError: If the configuration names an optimiser or a network that does not exist.
        """
        self.config, self.num_tasks, self.device = config, num_tasks, torch.device(device)
        generator = torch.Generator().manual_seed(config.seed)
        self.net = QNetwork(config.network, num_tasks, generator).to(self.device)
        self.q1, self.q2 = frozen_copy(self.net), frozen_copy(self.net)
        self.optimizer = make_optimizer(self.net, config, self.device)
        # Where places count, a picture must not be moved.
        self._augment = replace(config.augment, shift=0) if merges_by_place(config.network) else config.augment
        self.step = 0  # updates so far
        self.copied = 0  # the update after which Q2 was last copied
        # How far Q1 moves towards the network in the next update; on the device, so that a graph reads it anew.
        self._share = torch.zeros((), device=self.device)

    def targets(self, batch: Followed, generator: torch.Generator, lower_bound: Tensor | None = None) -> Tensor:
        """Return the targets (B,) of transitions by the present copies."""
        return targets(self.q1, self.q2, batch, self.config.bellman, generator, lower_bound)

    def update(self, batch: TrainBatch, generator: torch.Generator) -> dict[str, Tensor]:
        """Take one step towards the targets; return metrics, each a tensor of one number.

        Args:
            batch: Examples on the learner's device.
            generator: Source of augmentation and random actions, on the same device.
        """
        self.begin()
        metrics = self.learn(batch, generator)
        self.count()
        return metrics

    def learn(self, batch: TrainBatch, generator: torch.Generator) -> dict[str, Tensor]:
        """Do what of an update happens on the device, so that a graph can hold it; between `begin` and `count`."""
        config = self.config
        image = augment(batch.image, picture_size(config.network), self._augment, generator)
        action, wanted = batch.action.unsqueeze(1), batch.target.unsqueeze(1)  # (B, 1, 8), (B, 1)
        if config.conservatism > 0:
            sampler = first_sampler(len(action), config.bellman.cem, self.device)
            action = torch.cat((action, draw(sampler, config.conservative_samples, generator)), 1)
        self.net.train()
        logits = self.net(image, batch.closed, batch.height, batch.task, action, batch.pose)  # (B, 1 + random)
        loss = functional.binary_cross_entropy_with_logits(logits[:, :1], wanted)
        total = loss
        if config.conservatism > 0:  # softplus(logit) is the cross-entropy to zero
            total = loss + config.conservatism * functional.softplus(logits[:, 1:]).mean()
        self.optimizer.zero_grad(set_to_none=True)
        total.backward()
        norm = nn.utils.clip_grad_norm_(self.net.parameters(), config.max_norm)
        self.optimizer.step()
        blend(self.q1, self.net, self._share)
        return describe(loss.detach(), logits[:, 0].detach(), batch.target, norm)

    def act(
        self, observed: Observed, task: Tensor, generator: torch.Generator, epsilon: float = 0.0, noise: float = 0.0
    ) -> Tensor:
        """Choose actions (N, 8) by CEM on Q1.

        Args:
            observed: What N robots see.
            task: (N,) index of what each is to do.
            generator: Source of samples, on the learner's device.
            epsilon: Chance that a robot takes a random action instead.
            noise: Standard deviation of what is added to the translation.
        """
        cem = self.config.bellman.cem
        action, _ = best_action(self.q1, observed, task, cem, generator)
        if epsilon > 0:
            random = draw(first_sampler(len(task), cem, self.device), 1, generator).squeeze(1)
            is_random = torch.rand(len(task), 1, device=self.device, generator=generator) < epsilon
            action = torch.where(is_random, random, action)
        if noise > 0:
            shake = torch.randn(len(task), 3, device=self.device, generator=generator) * noise
            shake[:, 2] *= cem.axes[2]  # no exploring where the search does not go
            action = torch.cat(((action[:, :3] + shake).clamp(-1, 1), action[:, 3:]), -1)
        return action

    def begin(self) -> None:
        """Say how far Q1 moves towards the network in the next update."""
        decay = self.config.polyak
        if self.config.has_warmup:  # Q1 averages about the last tenth of training until the full lag
            decay = min(decay, (2 + self.step) / (11 + self.step))
        self._share.fill_(1 - decay)

    def count(self) -> None:
        """Count an update, and let Q2 become Q1 when it is time."""
        self.step += 1
        lag = self.config.lag
        if self.config.has_warmup:  # Q2 is a tenth of training old until the full lag
            lag = min(lag, max(1, self.step // 10))
        if self.step - self.copied >= lag:
            self.q2.load_state_dict(self.q1.state_dict())
            self.copied = self.step

    def state_dict(self) -> dict[str, Any]:
        """Return all that a later process needs to go on exactly."""
        return {
            "net": self.net.state_dict(),
            "q1": self.q1.state_dict(),
            "q2": self.q2.state_dict(),
            "optimizer": self.optimizer.state_dict()["state"],
            "step": self.step,
            "copied": self.copied,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned; the optimiser's settings stay this run's own."""
        self.net.load_state_dict(state["net"])
        self.q1.load_state_dict(state["q1"])
        self.q2.load_state_dict(state["q2"])
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": state["optimizer"], "param_groups": groups})
        self.step, self.copied = int(state["step"]), int(state["copied"])


def make_optimizer(net: nn.Module, config: LearnerConfig, device: torch.device) -> Optimizer:
    """Make the optimiser that the configuration names.

    Raises:
        UserError: If there is no such optimiser.
    """
    if config.optimizer == "adam":
        is_cuda = device.type == "cuda"
        return Adam(
            net.parameters(),
            lr=config.lr,
            weight_decay=config.weight_decay,
            decoupled_weight_decay=True,
            fused=True,
            capturable=is_cuda,
        )
    if config.optimizer == "momentum":
        return SGD(net.parameters(), lr=config.lr, momentum=0.9, weight_decay=config.weight_decay)
    raise UserError(f"unknown optimizer '{config.optimizer}'; choose adam or momentum")


def frozen_copy(net: QNetwork) -> QNetwork:
    """Copy a network for use without gradients, with its running statistics fixed."""
    return copy.deepcopy(net).requires_grad_(False).eval()


@torch.no_grad()
def blend(into: nn.Module, source: nn.Module, share: Tensor) -> None:
    """Move the parameters of one network towards another's by a share (); running statistics are copied."""
    kept: list[Tensor] = list(into.parameters())
    way = list(torch._foreach_sub(list(source.parameters()), kept))
    torch._foreach_mul_(way, share)
    torch._foreach_add_(kept, way)
    for old, new in zip(into.buffers(), source.buffers(), strict=True):
        old.copy_(new)


@torch.no_grad()
def describe(loss: Tensor, logit: Tensor, target: Tensor, norm: Tensor) -> dict[str, Tensor]:
    """Sum an update up; `excess` is the loss above the least that these targets allow."""
    value = logit.sigmoid()
    floor = functional.binary_cross_entropy(target, target)
    return {
        "loss": loss,
        "excess": loss - floor,
        "error": (value - target).abs().mean(),
        "value": value.mean(),
        "target": target.mean(),
        "gradient": norm,
    }
