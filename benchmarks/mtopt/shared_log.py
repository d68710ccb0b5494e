"""The fixed data set of sharing.py: scripted one-action episodes, their commanded tasks, and verdicts on them."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import torch
from experiment import LIFTS, Report, generator_on, make_world, wait
from labelled import Pool, fit_detector, pick_and_place, verdicts
from torch import Tensor

from polytask.mtopt.detector import Detector
from polytask.mtopt.tasks import ALL_TASKS
from polytask.mtopt.world import BinWorld, EpisodeBatch

# Share of each task in the episodes of its skill; broad tasks collect data for narrow ones.
LIFT_SHARES = (0.50, 0.16, 0.11, 0.08, 0.06, 0.04, 0.03, 0.02)
PLACE_SHARES = (0.60, 0.20, 0.12, 0.08)


@dataclass
class Log:
    """The fixed data set."""

    episodes: list[EpisodeBatch]
    commanded: list[Tensor]  # (N,) index into MAIN_TASKS for each batch
    success: list[Tensor]  # (N, K) 1 success, 0 failure, -1 no verdict, of all tasks, including the new one
    judged: tuple[str, ...]  # tasks that have verdicts


def deal(shares: tuple[float, ...], first: int, count: int, generator: torch.Generator) -> Tensor:
    """Draw commanded tasks (count,) from uneven shares."""
    weight = torch.tensor(shares, device=generator.device)
    return first + torch.multinomial(weight, count, replacement=True, generator=generator)


def collect(arguments: argparse.Namespace, report: Report, tasks: tuple[str, ...]) -> tuple[BinWorld, Log]:
    """Collect the data set and grade it."""
    world = make_world(arguments, arguments.seed, assisted=True, reach=arguments.reach)
    generator = generator_on(arguments.device, arguments.seed + 5)
    episodes: list[EpisodeBatch] = []
    commanded: list[Tensor] = []
    start, total = report.left, 0
    while total < arguments.episodes and (start - report.left < start * arguments.collect_share or not total):
        batches = pick_and_place(world, 1, 1000 * arguments.seed + len(episodes))
        shares = ((LIFT_SHARES, 0), (PLACE_SHARES, len(LIFTS)))
        for batch, (share, first) in zip(batches, shares, strict=True):
            episodes.append(batch)
            commanded.append(deal(share, first, world.num_envs, generator))
            total += world.num_envs
        wait(world.device)
    require_equal(report, total)
    report.put("collected", {"episodes": total, "seconds": start - report.left})
    truth = true_successes(episodes, tasks)
    success, judged = [part.to(torch.int8) for part in truth], tasks
    if arguments.labels != "truth":
        detector = taught(arguments, report, tasks, episodes, generator)
        success, judged = [verdicts(detector, batch.outcome, tasks) for batch in episodes], detector.used
        report.put("taught", list(detector.taught))
        report.put("refused", detector.refused)
    report.put("judged", list(judged))
    return world, Log(episodes, commanded, success, judged)


def true_successes(episodes: list[EpisodeBatch], tasks: tuple[str, ...]) -> list[Tensor]:
    """Return the truths (N, K) of each batch."""
    return [torch.stack([batch.truth[:, ALL_TASKS.index(name)] for name in tasks], 1) for batch in episodes]


def taught(
    arguments: argparse.Namespace,
    report: Report,
    tasks: tuple[str, ...],
    episodes: list[EpisodeBatch],
    generator: torch.Generator,
) -> Detector:
    """Return the detector of the study: that of an earlier command, which lies beside `--out`, or a new one.

    Another detector would give the settings that are left other rewards than those that are finished.

    Raises:
        ValueError: If the file of the earlier command is gone.
    """
    path = arguments.out and arguments.out.with_name(f"{arguments.out.stem}_detector.pt")
    if path and "detector" in report.results:
        if not path.exists():
            raise ValueError(f"'{path}', which gave the finished rows their rewards, is gone: bring it back")
        report.say(f"the detector is that of '{path}'")
        return Detector.load(path).to(arguments.device)
    use = min(len(episodes), 2 * max(1, arguments.detector_outcomes // (2 * arguments.worlds)))
    is_place = [torch.full_like(batch.truth[:, 0], index % 2 == 1) for index, batch in enumerate(episodes[:use])]
    pool = Pool(
        torch.cat([batch.outcome for batch in episodes[:use]]),
        torch.cat([batch.truth for batch in episodes[:use]]),
        torch.cat(is_place),
    )
    found = fit_detector(pool, tasks, arguments.labels_per_task, arguments, generator)
    detector, is_new = found.detector, found.is_new
    if path:
        detector.save(path)
    said = torch.cat([verdicts(detector, batch.outcome, tasks) for batch in episodes]) == 1
    true = torch.cat(true_successes(episodes, tasks))
    is_unseen = torch.cat([is_new, is_new.new_ones(len(said) - len(is_new))])
    said, true = said[is_unseen], true[is_unseen]
    precision = (said & true).sum(0) / said.sum(0).clamp(min=1)
    recall = (said & true).sum(0) / true.sum(0).clamp(min=1)
    figures = {
        name: [found.successes[name], float(precision[k]), float(recall[k])]
        for k, name in enumerate(tasks)
        if name in detector.used
    }
    report.put("pictures_viewed", found.viewed)
    report.put("detector", figures)
    return detector


def require_equal(report: Report, total: int) -> None:
    """Check that a study goes on with as many episodes as before.

    Raises:
        ValueError: If the time sufficed for another number.
    """
    before = report.results.get("collected", {}).get("episodes", total)
    if before != total:
        raise ValueError(f"{total} episodes were collected, {before} before: give a longer --seconds")
