"""Train a success detector from labelled outcomes, with equal shares of every task and of both verdicts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from polytask.errors import UserError
from polytask.mtopt.config.learning import DetectorConfig
from polytask.mtopt.config.network import NetworkConfig
from polytask.mtopt.detector.model import Detector
from polytask.mtopt.networks import DetectorNetwork, augment


def train_detector(  # noqa: PLR0913 - what a training depends on
    frames: Tensor,
    task: Tensor,
    value: Tensor,
    config: DetectorConfig,
    generator: torch.Generator,
    progress: Callable[[float], None] | None = None,
    start: Detector | None = None,
) -> Detector:
    """Train a detector on the frames' device; it is taught the tasks that have successes and failures.

    Args:
        frames: (M, V, S, S, 3) bytes, one row for each label, so that an outcome may appear in several rows.
        task: (M,) index into the configuration's tasks.
        value: (M,) 1 for success, 0 for failure, or a probability.
        config: What to train and how.
        generator: Source of all randomness, on the frames' device.
        progress: Receives the share of the updates that is done; an exception that it raises ends the training.
        start: A detector whose network the training continues from, if it has the same shape; None for new weights.

    Raises:
        UserError: If there are no examples, or a task has no name.
    """
    check(frames, task, config)
    network_config = _sized(config.network, *frames.shape[2:4])
    seed = torch.Generator().manual_seed(int(torch.randint(2**31, (), device=frames.device, generator=generator)))
    slots = config.slots or len(config.tasks)
    network = DetectorNetwork(network_config, slots, frames.shape[1], seed).to(frames.device)
    if start is not None and can_continue(start, network_config, config.tasks, network):
        network.load_state_dict(start.network.state_dict())
    is_held = hold_out(outcome_hashes(frames), label_kinds(task, value), config.holdout)
    out, kept = torch.nonzero(is_held).squeeze(1), torch.nonzero(~is_held).squeeze(1)
    fit(network, (frames, task, value.float()), kept, config, generator, progress)
    taught = taught_tasks(task, value, config.tasks)
    detector = Detector(config.version, config.tasks, network, config.threshold, config=network_config, taught=taught)
    if len(out) > 0:
        logit = detector.logits(frames[out], task[out]).double()
        weight = balanced_weights(task[out], value[out], len(config.tasks))
        detector.temperature = fit_temperature(logit, value[out].double(), weight.double())
        said = (logit / detector.temperature).sigmoid()
        bounds = fit_thresholds(said, task[out], value[out], len(config.tasks), config)
        detector.thresholds = {name: bounds[index] for index, name in enumerate(config.tasks) if index in bounds}
    return detector


def _sized(network: NetworkConfig, height: int, width: int) -> NetworkConfig:
    """Return a network's settings with the size of the pictures, where it has none of its own."""
    if network.image_size is not None:
        return network
    return replace(network, image_size=height, image_width=None if width == height else width)


def can_continue(start: Detector, config: NetworkConfig, tasks: Sequence[str], network: DetectorNetwork) -> bool:
    """Return whether a network of these settings and tasks can take over the weights of a detector.

    Tasks that were added since have free places in it.
    """
    is_same = start.config == config and (start.network.tasks, start.views) == (network.tasks, network.views)
    return is_same and start.tasks == tuple(tasks[: len(start.tasks)])


def fit_thresholds(said: Tensor, task: Tensor, value: Tensor, tasks: int, config: DetectorConfig) -> dict[int, float]:
    """Raise the thresholds of tasks whose precision would be too low, by labels that were not trained on.

    A task gets the lowest of a few thresholds that reaches the precision asked for or, if none does, the one with the
    highest precision. A threshold that accepts no success is not tried: a task without successes teaches nothing, and
    the gate decides whether it may be a reward. One wrong acceptance is added to those seen, so that a single lucky
    label decides nothing.

    Args:
        said: (M,) probabilities.
        task: (M,) index.
        value: (M,) 1 for success, 0 for failure.
        tasks: Number of tasks.
        config: Lowest threshold, and the precision to reach.

    Returns:
        Threshold by task, of those whose threshold is not the lowest.
    """
    candidates = [config.threshold, *(bound for bound in (0.6, 0.7, 0.8, 0.9) if bound > config.threshold)]
    found: dict[int, float] = {}
    for index in range(tasks):
        mine = task == index
        right, wrong = said[mine & (value > 0.5)], said[mine & (value <= 0.5)]
        precision: list[float] = []
        for bound in candidates:
            hits, errors = int((right > bound).sum()), int((wrong > bound).sum())
            if precision and not hits:
                break
            precision.append(hits / (hits + errors + 1) if errors else 1.0)
        enough = [place for place, share in enumerate(precision) if share >= config.least_precision]
        place = enough[0] if enough else precision.index(max(precision))
        if place:
            found[index] = candidates[place]
    return found


def check(frames: Tensor, task: Tensor, config: DetectorConfig) -> None:
    """Refuse examples that cannot train a detector."""
    views = frames.shape[1]
    if len(task) == 0:
        raise UserError("there are no labelled frames to train a detector from")
    if int(task.max()) >= len(config.tasks):
        raise UserError(f"a label is of task {int(task.max())}, but only {len(config.tasks)} tasks are named")
    if any(not 0 <= view < views for view in config.turned):
        raise UserError(f"turned={list(config.turned)}: outcomes have views 0 to {views - 1}")
    if config.turned and frames.shape[2] != frames.shape[3]:
        raise UserError(
            f"turned={list(config.turned)}: only square pictures can be turned, not {tuple(frames.shape[2:4])}"
        )


def label_kinds(task: Tensor, value: Tensor) -> Tensor:
    """Number the kinds of labels (M,): twice the task's index for a failure, one more for a success."""
    return task * 2 + (value > 0.5).long()


def taught_tasks(task: Tensor, value: Tensor, names: Sequence[str]) -> tuple[str, ...]:
    """Return the tasks that labels (M,) teach: those with at least one success and one failure."""
    there = set(label_kinds(task, value).tolist())
    return tuple(name for index, name in enumerate(names) if {2 * index, 2 * index + 1} <= there)


def outcome_hashes(frames: Tensor, batch: int = 64) -> Tensor:
    """Return a random-looking number (M,) of each outcome (M, V, S, S, 3), which never changes."""
    # The hash is a sum of the bytes, each times a random number. If two outcomes ever share a hash, they only stay on
    # the same side of the split.
    factor = torch.randint(2**62, frames.shape[1:], generator=torch.Generator().manual_seed(0)).to(frames.device)
    return torch.cat([(part.long() * factor).flatten(1).sum(1) for part in frames.split(batch)])


def hold_out(hashes: Tensor, kind: Tensor, share: float) -> Tensor:
    """Choose a share of the outcomes and return which rows (M,) belong to them.

    All labels of an outcome are on one side, because outcomes that set the temperature must not have been trained on.
    An outcome is on the same side in every training, so that this holds for the detector that a training continues
    from, too. It stays in training if a task would lose its last success or failure without it.

    Args:
        hashes: (M,) of each row's outcome.
        kind: (M,) number of each row's kind of label.
        share: Share of the outcomes to hold out.
    """
    is_held = (hashes >> 11 & 2**52 - 1).double() / 2**52 < share
    trained = torch.zeros(int(kind.max()) + 1, device=kind.device).index_add(0, kind, (~is_held).float())
    needed = hashes[trained[kind] == 0]
    return is_held & ~torch.isin(hashes, needed)


def fit(
    network: DetectorNetwork,
    examples: tuple[Tensor, Tensor, Tensor],
    kept: Tensor,
    config: DetectorConfig,
    generator: torch.Generator,
    progress: Callable[[float], None] | None = None,
) -> None:
    """Take all optimizer steps on the rows `kept` of the examples (frames, task, value)."""
    frames, task, value = examples
    optimizer = torch.optim.AdamW(network.parameters(), lr=config.lr, weight_decay=config.weight_decay)
    weight = balanced_weights(task[kept], value[kept], len(config.tasks))
    network.train()
    for update in range(config.updates):
        if progress is not None:
            progress(update / config.updates)
        row = kept[torch.multinomial(weight, config.batch, replacement=True, generator=generator)]
        logit = network(augment_views(frames[row], config, generator), task[row])
        loss = functional.binary_cross_entropy_with_logits(logit, value[row])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 10.0)
        for group in optimizer.param_groups:
            group["lr"] = config.lr * 0.5 * (1 + math.cos(math.pi * update / config.updates))
        optimizer.step()


def augment_views(frames: Tensor, config: DetectorConfig, generator: torch.Generator) -> Tensor:
    """Augment outcomes (B, V, S, S, 3), each view independently: the cameras' errors are independent."""
    size = frames.shape[2], frames.shape[3]
    views = augment(frames.flatten(0, 1), size, config.augment, generator).view(frames.shape)
    if not config.turned:
        return views
    parts = list(views.unbind(1))
    for view in config.turned:
        parts[view] = turn_and_mirror(parts[view], generator)
    return torch.stack(parts, 1)


def turn_and_mirror(picture: Tensor, generator: torch.Generator) -> Tensor:
    """Turn pictures (B, S, S, C) by quarters and mirror them at random: each in one of eight ways."""
    lots = torch.rand(3, len(picture), 1, 1, 1, device=picture.device, generator=generator) < 0.5
    picture = torch.where(lots[0], picture.transpose(1, 2), picture)
    picture = torch.where(lots[1], picture.flip(1), picture)
    return torch.where(lots[2], picture.flip(2), picture)


def balanced_weights(task: Tensor, value: Tensor, tasks: int) -> Tensor:
    """Weigh examples (M,) so that all tasks have equal shares, and successes and failures within a task, too.

    If a task has only one of the two, that one gets the whole share of the task.
    """
    cell = label_kinds(task, value)
    count = torch.zeros(tasks * 2, device=task.device).index_add(0, cell, torch.ones_like(cell, dtype=torch.float))
    verdicts = (count > 0).view(tasks, 2).sum(1)  # (K,) 2 for a task with both verdicts
    weight = 1 / (count[cell] * verdicts[task])
    return weight / weight.sum()


def fit_temperature(logit: Tensor, value: Tensor, weight: Tensor) -> float:
    """Return the temperature in [0.05, 20] with the least loss of logits (M,) on values (M,), to two per cent."""
    candidates = torch.logspace(math.log10(0.05), math.log10(20), 301, device=logit.device, dtype=logit.dtype)
    loss = functional.binary_cross_entropy_with_logits(
        logit / candidates[:, None], value.expand(len(candidates), -1), weight=weight, reduction="none"
    )
    return float(candidates[loss.sum(1).argmin()])
