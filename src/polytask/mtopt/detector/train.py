"""Train a success detector from labelled outcomes, every task and either verdict in equal shares."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from polytask.errors import UserError
from polytask.mtopt.config.learning import DetectorConfig
from polytask.mtopt.detector.model import Detector
from polytask.mtopt.networks import DetectorNetwork, augment


def train_detector(  # noqa: PLR0913 - what to learn from, how, and how to watch it
    frames: Tensor,
    task: Tensor,
    value: Tensor,
    config: DetectorConfig,
    generator: torch.Generator,
    start: Detector | None = None,
    progress: Callable[[float], None] | None = None,
) -> Detector:
    """Train a detector where the frames lie; it counts as taught the tasks that have successes and failures.

    Args:
        frames: (M, V, S, S, 3) bytes, one row for each label, so that an outcome may stand in several.
        task: (M,) index into the configuration's tasks.
        value: (M,) 1 for success, 0 for failure; values between are believed as they stand.
        config: What to train and how.
        generator: Source of all chance, on the frames' device.
        start: An earlier detector of the same tasks and views to go on from.
        progress: Told the share of the updates that is done; whatever it raises ends the training.

    Raises:
        UserError: If there are no examples, a task has no name, or `start` is of another kind.
    """
    check(task, config, frames.shape[1])
    network_config = replace(config.network, image_size=config.network.image_size or frames.shape[-2])
    seed = torch.Generator().manual_seed(int(torch.randint(2**31, (), device=frames.device, generator=generator)))
    network = DetectorNetwork(network_config, len(config.tasks), frames.shape[1], seed).to(frames.device)
    if start is not None:
        if start.tasks != tuple(config.tasks) or start.config != network_config or start.views != frames.shape[1]:
            raise UserError(f"detector {start.version} is of other tasks, views or network than the one to train")
        network.load_state_dict(start.network.state_dict())
    is_held = hold_out(same_outcomes(frames), label_kinds(task, value), config.holdout, generator)
    out, kept = torch.nonzero(is_held).squeeze(1), torch.nonzero(~is_held).squeeze(1)
    fit(network, (frames, task, value.float()), kept, config, generator, progress)
    taught = set(taught_tasks(task, value, config.tasks)) | set(start.taught if start else ())
    detector = Detector(config.version, config.tasks, network, config.threshold, config=network_config, taught=taught)
    if len(out) > 0:
        logit = detector.logits(frames[out], task[out]).double()
        weight = balanced_weights(task[out], value[out], len(config.tasks))
        detector.temperature = fit_temperature(logit, value[out].double(), weight.double())
    return detector


def check(task: Tensor, config: DetectorConfig, views: int) -> None:
    """Refuse examples that cannot be trained on."""
    if len(task) == 0:
        raise UserError("there are no labelled frames to train a detector from")
    if int(task.max()) >= len(config.tasks):
        raise UserError(f"a label is of task {int(task.max())}, but only {len(config.tasks)} tasks are named")
    if any(not 0 <= view < views for view in config.turned):
        raise UserError(f"turned={list(config.turned)}: outcomes have views 0 to {views - 1}")


def label_kinds(task: Tensor, value: Tensor) -> Tensor:
    """Number the kinds of labels (M,): failures of a task are twice its index, successes one more."""
    return task * 2 + (value > 0.5).long()


def taught_tasks(task: Tensor, value: Tensor, names: Sequence[str]) -> tuple[str, ...]:
    """Name the tasks that labels (M,) teach: those with at least one success and one failure."""
    there = set(label_kinds(task, value).tolist())
    return tuple(name for index, name in enumerate(names) if {2 * index, 2 * index + 1} <= there)


def same_outcomes(frames: Tensor, batch: int = 64) -> Tensor:
    """Number the different outcomes among (M, V, S, S, 3); return the number (M,) of each row's."""
    # A sum of the bytes, each times a random number, tells outcomes apart. Should two ever share one, they are only
    # kept together.
    factor = torch.randint(2**62, frames.shape[1:], generator=torch.Generator().manual_seed(0)).to(frames.device)
    sums = [(part.long() * factor).flatten(1).sum(1) for part in frames.split(batch)]
    return torch.cat(sums).unique(return_inverse=True)[1]


def hold_out(outcome: Tensor, kind: Tensor, share: float, generator: torch.Generator) -> Tensor:
    """Draw a share of the outcomes and tell which rows (M,) are theirs.

    All labels of an outcome are on one side, lest what sets the temperature has been trained on. An outcome stays in
    training where without it a task would lose its last success or failure.

    Args:
        outcome: (M,) number of each row's outcome.
        kind: (M,) number of each row's kind of label.
        share: Of the outcomes to hold out.
        generator: Of the draw, on the device of the rows.
    """
    count = int(outcome.max()) + 1
    is_held = torch.randperm(count, device=outcome.device, generator=generator) < int(count * share)
    trained = torch.zeros(int(kind.max()) + 1, device=kind.device).index_add(0, kind, (~is_held[outcome]).float())
    is_held[outcome[trained[kind] == 0]] = False
    return is_held[outcome]


def fit(
    network: DetectorNetwork,
    examples: tuple[Tensor, Tensor, Tensor],
    kept: Tensor,
    config: DetectorConfig,
    generator: torch.Generator,
    progress: Callable[[float], None] | None = None,
) -> None:
    """Take all optimiser steps on examples (frames, task, value), of which `kept` lists the rows."""
    frames, task, value = examples
    optimizer = torch.optim.AdamW(network.parameters(), lr=config.lr, weight_decay=config.weight_decay)
    weight = balanced_weights(task[kept], value[kept], len(config.tasks))
    network.train()
    for update in range(config.updates):
        if progress is not None:
            progress(update / config.updates)
        row = kept[torch.multinomial(weight, config.batch, replacement=True, generator=generator)]
        logit = network(changed(frames[row], config, generator), task[row])
        loss = functional.binary_cross_entropy_with_logits(logit, value[row])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 10.0)
        for group in optimizer.param_groups:
            group["lr"] = config.lr * 0.5 * (1 + math.cos(math.pi * update / config.updates))
        optimizer.step()


def changed(frames: Tensor, config: DetectorConfig, generator: torch.Generator) -> Tensor:
    """Augment outcomes (B, V, S, S, 3), each view by itself: cameras do not share their errors."""
    views = augment(frames.flatten(0, 1), frames.shape[2], config.augment, generator).view(frames.shape)
    if not config.turned:
        return views
    parts = list(views.unbind(1))
    for view in config.turned:
        parts[view] = turned(parts[view], generator)
    return torch.stack(parts, 1)


def turned(picture: Tensor, generator: torch.Generator) -> Tensor:
    """Turn pictures (B, S, S, C) by quarters and mirror them, each at random: one of eight ways."""
    lots = torch.rand(3, len(picture), 1, 1, 1, device=picture.device, generator=generator) < 0.5
    picture = torch.where(lots[0], picture.transpose(1, 2), picture)
    picture = torch.where(lots[1], picture.flip(1), picture)
    return torch.where(lots[2], picture.flip(2), picture)


def balanced_weights(task: Tensor, value: Tensor, tasks: int) -> Tensor:
    """Weigh examples (M,) so that tasks have equal shares and, within a task, so have successes and failures.

    A task that has only one of the two gives it its whole share.
    """
    cell = label_kinds(task, value)
    count = torch.zeros(tasks * 2, device=task.device).index_add(0, cell, torch.ones_like(cell, dtype=torch.float))
    verdicts = (count > 0).view(tasks, 2).sum(1)  # (K,) how many of the two verdicts each task has
    weight = 1 / (count[cell] * verdicts[task])
    return weight / weight.sum()


def fit_temperature(logit: Tensor, value: Tensor, weight: Tensor) -> float:
    """Return the temperature at which logits (M,) explain the values (M,) best, to two per cent, in [0.05, 20]."""
    candidates = torch.logspace(math.log10(0.05), math.log10(20), 301, device=logit.device, dtype=logit.dtype)
    loss = functional.binary_cross_entropy_with_logits(
        logit / candidates[:, None], value.expand(len(candidates), -1), weight=weight, reduction="none"
    )
    return float(candidates[loss.sum(1).argmin()])
