"""QT-Opt's learner: a Q-network regressed to stored targets, and the two older copies that compute the targets.

The loss is the cross-entropy between sigmoid(logit) and the target, as in MT-Opt (arXiv 2104.08212). Q1 is a Polyak
average of the weights and Q2 a lagged copy of Q1. Q1 also acts.

A target is the smaller value of the two, so Q2 sets how fast a reward travels back through an episode: about one step
per copy. The paper copies every 6,000 updates, because it trains for millions. So both lags start short and grow with
training, the average's to `polyak` and the copies' to `lag`. A run of a few thousand updates never reaches the paper's
values and does not need to. Nothing else may delay the targets: updaters use the copies themselves, or, in another
process, those that are published whenever Q2 was copied (`copied`).

Differences from the paper, all off by default: `conservatism` lowers the values of actions that no data covers (as
Q-Transformer does, arXiv 2309.10150), because CEM would otherwise search for them; augmentation; a lower bound on
targets.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import SGD, Adam, Optimizer

from polytask.errors import require_known
from polytask.mtopt.config.learning import LearnerConfig
from polytask.mtopt.learning.bellman import targets
from polytask.mtopt.learning.cem import draw, first_sampler, usable_modes
from polytask.mtopt.learning.transitions import Transitions
from polytask.mtopt.networks import QNetwork, augment
from polytask.mtopt.networks.layout import merges_by_place, picture_size
from polytask.settings import choices_of


@dataclass(frozen=True)
class TrainBatch:
    """Supervised examples, as the Bellman updater makes them."""

    image: Tensor  # (B, H, W, 3) uint8
    closed: Tensor  # (B,)
    height: Tensor  # (B,) m
    task: Tensor  # (B,) index
    action: Tensor  # (B, A)
    target: Tensor  # (B,) in [0, 1]
    pose: Tensor | None = None  # (B, 3) of the hand; needed by networks that merge by place


class QLearner:
    """Trains one Q-network for all tasks and keeps the copies that act and compute targets."""

    def __init__(self, config: LearnerConfig, num_tasks: int, device: torch.device | str = "cpu") -> None:
        """Build network, copies and optimizer on a device.

        Raises:
            UserError: If the configuration names an optimizer or a network that does not exist.
        """
        self.config, self.num_tasks, self.device = config, num_tasks, torch.device(device)
        generator = torch.Generator().manual_seed(config.seed)
        self.net = QNetwork(config.network, num_tasks, generator).to(self.device)
        self.q1, self.q2 = frozen_copy(self.net), frozen_copy(self.net)
        self.optimizer = make_optimizer(self.net, config, self.device)
        # A merge by place needs pictures that are not shifted.
        self._augment = replace(config.augment, shift=0) if merges_by_place(config.network) else config.augment
        self.step = 0  # updates so far
        self.copied = 0  # update after which Q2 was last copied
        # How far Q1 moves towards the network in the next update; on the device, so that a CUDA graph reads its value.
        self._share = torch.zeros((), device=self.device)

    def targets(self, batch: Transitions, generator: torch.Generator, lower_bound: Tensor | None = None) -> Tensor:
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
        """Do the part of an update that runs on the device, which a CUDA graph can capture.

        Call `begin` before it and `count` after it.
        """
        config = self.config
        image = augment(batch.image, picture_size(config.network), self._augment, generator)
        action, wanted = batch.action.unsqueeze(1), batch.target.unsqueeze(1)  # (B, 1, A), (B, 1)
        if config.conservatism > 0:
            cem, layout = config.bellman.cem, config.network.action
            usable = usable_modes(batch.closed, cem, layout)  # the search tries no others either
            sampler = first_sampler(len(action), cem, self.device, usable, layout)
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

    def begin(self) -> None:
        """Set how far Q1 moves towards the network in the next update."""
        decay = self.config.polyak
        if self.config.has_warmup:  # until the full lag, Q1 averages about the last tenth of training
            decay = min(decay, (2 + self.step) / (11 + self.step))
        self._share.fill_(1 - decay)

    def count(self) -> None:
        """Count an update, and copy Q1 to Q2 when the lag is over."""
        self.step += 1
        lag = self.config.lag
        if self.config.has_warmup:  # until the full lag, Q2 is a tenth of training old
            lag = min(lag, max(1, self.step // 10))
        if self.step - self.copied >= lag:
            self.q2.load_state_dict(self.q1.state_dict())
            self.copied = self.step

    def state_dict(self) -> dict[str, Any]:
        """Return the state that a later process needs to continue exactly."""
        return {
            "net": self.net.state_dict(),
            "q1": self.q1.state_dict(),
            "q2": self.q2.state_dict(),
            "optimizer": self.optimizer.state_dict()["state"],
            "step": self.step,
            "copied": self.copied,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned; the optimizer keeps the settings of this run."""
        self.net.load_state_dict(state["net"])
        self.q1.load_state_dict(state["q1"])
        self.q2.load_state_dict(state["q2"])
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": state["optimizer"], "param_groups": groups})
        self.step, self.copied = int(state["step"]), int(state["copied"])


def make_optimizer(net: nn.Module, config: LearnerConfig, device: torch.device) -> Optimizer:
    """Make the optimizer that the configuration names.

    Raises:
        UserError: If there is no such optimizer.
    """
    if require_known("optimizer", config.optimizer, choices_of(LearnerConfig, "optimizer")) == "adam":
        is_cuda = device.type == "cuda"
        return Adam(
            net.parameters(),
            lr=config.lr,
            weight_decay=config.weight_decay,
            decoupled_weight_decay=True,
            fused=True,
            capturable=is_cuda,
        )
    return SGD(net.parameters(), lr=config.lr, momentum=0.9, weight_decay=config.weight_decay)


def needs_pose(config: LearnerConfig) -> bool:
    """Return whether the network needs the hand's pose in every state."""
    return merges_by_place(config.network)


def frozen_copy(net: QNetwork) -> QNetwork:
    """Copy a network for use without gradients and with fixed running statistics."""
    return copy.deepcopy(net).requires_grad_(False).eval()


@torch.no_grad()
def blend(into: nn.Module, source: nn.Module, share: Tensor) -> None:
    """Move the parameters of one network towards another's by a share (); copy the running statistics."""
    kept: list[Tensor] = list(into.parameters())
    way = list(torch._foreach_sub(list(source.parameters()), kept))
    torch._foreach_mul_(way, share)
    torch._foreach_add_(kept, way)
    for old, new in zip(into.buffers(), source.buffers(), strict=True):
        old.copy_(new)


@torch.no_grad()
def describe(loss: Tensor, logit: Tensor, target: Tensor, norm: Tensor) -> dict[str, Tensor]:
    """Return the metrics of an update; `excess` is the loss above the smallest that these targets allow."""
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
