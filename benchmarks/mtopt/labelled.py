"""Outcomes with labels of the stand-in: pools of picks and places, the choice of those to label, and detectors."""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

import torch
from experiment import Report, make_world, wait
from torch import Tensor

from polytask.errors import UserError
from polytask.mtopt.config.learning import DetectorConfig
from polytask.mtopt.config.network import NetworkConfig
from polytask.mtopt.config.world import ScriptConfig
from polytask.mtopt.detector import Detector, train_detector
from polytask.mtopt.detector.labelled import admit
from polytask.mtopt.detector.labels import fewest
from polytask.mtopt.detector.labels import kept_aside as kept_of
from polytask.mtopt.detector.metrics import score
from polytask.mtopt.learning.buffers import NOT_USED
from polytask.mtopt.tasks import ALL_TASKS, BROAD, TASKS
from polytask.mtopt.world import BinWorld, EpisodeBatch, ScriptedPick, ScriptedPlace, run_episodes

FIRST_SHARE = 0.4  # of a task's labels, for random pictures, before a detector helps to choose


@dataclass(frozen=True)
class Fitted:
    """A detector, after the gate that refuses imprecise tasks, and what its labels were."""

    detector: Detector
    successes: dict[str, int]  # among a task's labels
    viewed: dict[str, int | None]  # pictures that a person looked at for a task; None if labels were chosen by truth
    is_new: Tensor  # (M,) rows of the pool that it has never seen


@dataclass
class Pool:
    """Outcomes of episodes and the simulator's truth on them."""

    frames: Tensor  # (M, V, S, S, 3) uint8
    truth: Tensor  # (M, len(ALL_TASKS)) bool
    is_place: Tensor  # (M,) bool

    def of(self, task: str) -> Tensor:
        """Return the truths (M,) of a task."""
        return self.truth[:, ALL_TASKS.index(task)]

    def near(self, task: str) -> Tensor:
        """Return where the broad task of the skill succeeded and this one did not: wrong object, wrong section."""
        broad = BROAD[TASKS[task].skill]
        return self.of(broad) & ~self.of(task)


def script_config(max_steps: int, seed: int) -> ScriptConfig:
    """Return how scripts err; where one action does everything, it must not be interrupted."""
    if max_steps == 1:
        return ScriptConfig(noise=0.0, early_end=0.0, early_grip=0.0, margin=0.02, seed=seed)
    return ScriptConfig(seed=seed)


def pick_and_place(world: BinWorld, max_steps: int, seed: int) -> tuple[EpisodeBatch, EpisodeBatch]:
    """Run a scripted pick in every world after a new drop, then a scripted place after another."""
    script = script_config(max_steps, seed)
    world.reset()
    picks = run_episodes(world, ScriptedPick(world, script), ["lift-any"], max_steps)
    world.reset()
    world.hand_over()
    places = run_episodes(world, ScriptedPlace(world, script), ["place-any"], max_steps)
    return picks, places


def collect_pool(arguments: argparse.Namespace, report: Report, seed: int, wanted: int, share: float) -> Pool:
    """Collect picks and places, half each, until there are `wanted` or a share of the time left is spent."""
    world = make_world(arguments, seed, assisted=True, reach=arguments.reach)
    frames, truth, is_place, count, number = [], [], [], 0, 0
    start, deadline = time.monotonic(), report.left * (1 - share)
    while count < wanted and (report.left > deadline or not count):
        for index, episodes in enumerate(pick_and_place(world, 1, 1000 * seed + number)):
            frames.append(episodes.outcome)
            truth.append(episodes.truth)
            is_place.append(torch.full_like(episodes.truth[:, 0], bool(index)))
            count += world.num_envs
        wait(world.device)
        number += 1
    wait(world.device)
    report.say(f"{count} outcomes in {time.monotonic() - start:.1f} s")
    return Pool(torch.cat(frames), torch.cat(truth), torch.cat(is_place))


def choose(pool: Pool, task: str, count: int, generator: torch.Generator, without: Tensor | None = None) -> Tensor:
    """Choose rows to label by truth, none of those `without`: half successes, and near misses among the failures.

    Of the failures, half are near misses, if there are enough, and a fifth comes from the other skill.
    """
    success, near = pool.of(task), pool.near(task)
    other = pool.is_place if TASKS[task].skill == "lift" else ~pool.is_place
    rows: list[Tensor] = []
    taken = torch.zeros_like(success)
    if without is not None:
        taken[without] = True

    def take(mask: Tensor, wanted: int) -> None:
        found = torch.nonzero(mask & ~taken).squeeze(1)
        order = torch.randperm(len(found), generator=generator, device=found.device)[: max(0, wanted)]
        taken[found[order]] = True
        rows.append(found[order])

    take(success, count // 2)
    failures = count - count // 2
    take(near, failures // 2)
    take(~success & other, failures // 5)
    take(~success & ~other, count - sum(len(part) for part in rows))
    return torch.cat(rows)


def set_aside(pool: Pool, tasks: tuple[str, ...], count: int, generator: torch.Generator) -> dict[str, Tensor]:
    """Draw the rows that only measure, by task: the same random ones for all tasks of a skill. None may train any task.

    A detector has one network for all tasks, so a picture that trains one of them is not new to the others either.
    """
    drawn: dict[str, Tensor] = {}
    for name in tasks:
        if TASKS[name].skill not in drawn:
            drawn[TASKS[name].skill] = look(pool, name, count, generator)
    return {name: drawn[TASKS[name].skill] for name in tasks}


def view(
    pool: Pool, tests: dict[str, Tensor], labels: int, arguments: argparse.Namespace, generator: torch.Generator
) -> list[Tensor]:
    """Choose rows to train on as a person does on the page, who sees pictures and not the truth: every one is labelled.

    With those that only measure (`tests`, by task) they are `labels` rows a task. First come random pictures of the
    task's skill. A detector is trained from them. Half of the rest are pictures that it finds likely, half those of
    which it is least certain. A task that it cannot judge yet gets more random ones.
    """
    closed = torch.cat(list(tests.values()))
    first = round(FIRST_SHARE * labels)
    trains = [look(pool, name, first - len(rows), generator, closed) for name, rows in tests.items()]
    detector = train_on(pool, tuple(tests), trains, arguments, generator)
    score = detector.predict_all(pool.frames)
    for number, (name, rows) in enumerate(tests.items()):
        left = labels - len(rows) - len(trains[number])
        if name not in detector.taught:
            more = look(pool, name, left, generator, torch.cat([closed, trains[number]]))
            trains[number] = torch.cat([trains[number], more])
            continue
        column = score[:, detector.index(name)]
        for rank, count in ((column, left // 2), (-(column - 0.5).abs(), left - left // 2)):
            open_rows = unseen(pool, name, torch.cat([closed, trains[number]]))
            best = rank[open_rows].topk(min(count, len(open_rows))).indices
            trains[number] = torch.cat([trains[number], open_rows[best]])
    return trains


def unseen(pool: Pool, task: str, seen: Tensor) -> Tensor:
    """Return the rows of a task's skill that are not among those seen."""
    mask = pool.is_place == (TASKS[task].skill == "place")
    mask[seen] = False
    return torch.nonzero(mask).squeeze(1)


def look(pool: Pool, task: str, count: int, generator: torch.Generator, seen: Tensor | None = None) -> Tensor:
    """Return random rows of a task's skill, none of those seen."""
    rows = unseen(pool, task, torch.empty(0, dtype=torch.long, device=pool.truth.device) if seen is None else seen)
    return rows[torch.randperm(len(rows), generator=generator, device=rows.device)[:count]]


def train_on(
    pool: Pool, tasks: tuple[str, ...], chosen: list[Tensor], arguments: argparse.Namespace, generator: torch.Generator
) -> Detector:
    """Train a detector from the truths of the rows chosen for each task."""
    rows = torch.cat(chosen)
    task = torch.cat([torch.full_like(part, index) for index, part in enumerate(chosen)])
    value = torch.cat([pool.of(name)[part] for name, part in zip(tasks, chosen, strict=True)])
    config = DetectorConfig(
        version=f"{max(map(len, chosen))}",
        tasks=list(tasks),
        network=NetworkConfig(arguments.detector_network, autocast=arguments.device.startswith("cuda")),
        updates=arguments.detector_updates,
        batch=arguments.detector_batch,
        turned=arguments.turned,
        least_precision=arguments.least_precision,
    )
    return train_detector(pool.frames[rows], task, value.float(), config, generator)


def kept_aside(labels: int) -> int:
    """Return how many of a task's labels only measure a detector, as the page keeps random ones aside."""
    return kept_of(FIRST_SHARE * labels)


def require_tested(arguments: argparse.Namespace, flags: argparse.ArgumentParser) -> None:
    """End with one line if no task could pass the gate: known before episodes are collected and detectors trained."""
    labels, least = arguments.labels_per_task, arguments.least_tested
    if arguments.labels == "truth" or kept_aside(labels) >= least:
        return
    enough = fewest(lambda count: FIRST_SHARE * count, least)
    flags.exit(
        2,
        f"--labels-per-task {labels} keeps {kept_aside(labels)} random labels of a task aside to measure it, but "
        f"--least-tested is {least}: give --labels-per-task {enough} or more, or a smaller --least-tested\n",
    )


def fit_detector(
    pool: Pool, tasks: tuple[str, ...], labels: int, arguments: argparse.Namespace, generator: torch.Generator
) -> Fitted:
    """Train a detector from at most `labels` labels a task, chosen as a person does or by truth (`--labels`).

    As in a run, some random labels only measure it, and tasks that too few of these test, or that it is too imprecise
    for, give no rewards.

    Raises:
        UserError: If no task gives rewards.
    """
    is_person = arguments.labels == "person"
    tests = set_aside(pool, tasks, kept_aside(labels), generator)
    if is_person:
        trains = view(pool, tests, labels, arguments, generator)
    else:
        closed = torch.cat(list(tests.values()))
        trains = [choose(pool, name, labels, generator, closed) for name in tasks]
    detector = train_on(pool, tasks, trains, arguments, generator)
    gate(detector, pool, tests, arguments)
    chosen = [torch.cat([tests[name], rows]) for name, rows in zip(tasks, trains, strict=True)]
    if not detector.used:
        raise UserError(f"no task has a reward: {detector.refused or 'none was taught'}; use more --labels-per-task")
    counts = {name: int(pool.of(name)[rows].sum()) for name, rows in zip(tasks, chosen, strict=True)}
    viewed = {name: len(rows) if is_person else None for name, rows in zip(tasks, chosen, strict=True)}
    is_new = torch.ones_like(pool.is_place, dtype=torch.bool)
    is_new[torch.cat(chosen)] = False
    return Fitted(detector, counts, viewed, is_new)


def gate(detector: Detector, pool: Pool, aside: dict[str, Tensor], arguments: argparse.Namespace) -> None:
    """Refuse the tasks that too few random labels, rows that did not train it, test, or with too low a precision."""
    scores = {}
    for name, rows in aside.items():
        if name in detector.taught and len(rows):
            task = torch.full_like(rows, detector.index(name))
            said = detector.predict(pool.frames[rows], task)
            scores[name] = score(name, said, pool.of(name)[rows].float(), detector.threshold_of(name))
    limits = {"least_precision": arguments.least_precision, "least_tested": arguments.least_tested}
    admit(detector, scores, DetectorConfig(**limits))


def verdicts(detector: Detector, outcome: Tensor, tasks: tuple[str, ...]) -> Tensor:
    """Return the verdicts (M, K) of a detector on outcomes (M, V, S, S, 3): 1 success, 0 failure, -1 none.

    There is none on tasks that it does not judge. As in a run, these learn nothing from an episode.
    """
    columns = [detector.index(name) for name in tasks]
    used = torch.tensor([name in detector.used for name in tasks], device=outcome.device)
    bounds = torch.tensor([detector.threshold_of(name) for name in tasks], device=outcome.device)
    said = (detector.predict_all(outcome)[:, columns] > bounds).to(torch.int8)
    return torch.where(used, said, NOT_USED)


def detector_flags(flags: argparse.ArgumentParser) -> None:
    """Add the flags of detectors."""
    flags.add_argument("--detector-network", default="small")
    flags.add_argument("--detector-updates", type=int, default=1500)
    flags.add_argument("--detector-batch", type=int, default=128)
    flags.add_argument("--turned", type=int, nargs="*", default=[2], help="views that training turns and mirrors")
    flags.add_argument("--labels-per-task", type=int, default=500)
    flags.add_argument(
        "--least-precision", type=float, default=0.5, help="precision on random labels below which a task is no reward"
    )
    flags.add_argument(
        "--least-tested", type=int, default=20, help="random labels that must measure a task before it is a reward"
    )


def labels_flag(flags: argparse.ArgumentParser) -> None:
    """Add the flag that says where verdicts come from."""
    about = (
        "person: a detector from labels of pictures that a person would look at; detector: from labels chosen by truth"
    )
    flags.add_argument("--labels", choices=("person", "detector", "truth"), default="person", help=about)
