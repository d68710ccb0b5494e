"""Test whether sharing data helps: impersonation x re-balancing on one data set, and a new task by relabelling.

The data are scripted one-action picks and places, each collected for a task drawn from uneven shares: broad tasks are
more frequent than narrow ones. For each of the 3 x 2 settings and each seed, a network is trained for the same number
of updates on the same episodes, and evaluated by the simulator's truth on every task. Then one more task, for which no
episode was collected, is learned from new labels on the old episodes alone. Constant commands, random actions and the
scripts play the starts of the evaluation.

Means are over the tasks that the detector judges (`judged`): nothing learns the others (`refused` has the reasons).

The same command continues with the settings and seeds that `--out` lacks, until nothing is left to do (`complete`). It
collects the same episodes again (on a GPU up to the last bits), which takes a part of the time, and judges them by the
same detector, which lies beside `--out`.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from experiment import (
    LIFTS,
    QPolicy,
    Report,
    contrast,
    generator_on,
    learner_config,
    learning_flags,
    parser,
    pooled,
    rate,
    run,
    train_updates,
    wait,
)
from labelled import detector_flags, labels_flag, require_tested, script_config
from runs import of_common_seeds
from shared_log import Log, collect
from simple import best_of_each, simple_rates
from torch import Tensor

from polytask.errors import UserError
from polytask.mtopt.config.learning import STRATEGIES, CEMConfig, ReplayConfig
from polytask.mtopt.learning.buffers import NOT_USED, TaskBuffers
from polytask.mtopt.learning.learner import QLearner
from polytask.mtopt.learning.sharing import impersonate
from polytask.mtopt.tasks import ALL_TASKS, BROAD, MAIN_TASKS, TASKS
from polytask.mtopt.world import BinWorld, ScriptedPick, ScriptedPlace, run_episodes

FREE = ("seconds", "seeds", "strategies", "cell_seconds")  # flags that may differ from one command to the next
Rates = dict[str, dict[str, float | int]]  # task -> rate with its interval
Row = dict[str, Any]  # the rates of one setting and seed: {"seed": ..., "tasks": Rates}


def fill(
    log: Log, tasks: tuple[str, ...], learned: tuple[str, ...], strategy: str, balanced: bool, arguments: Any
) -> TaskBuffers:
    """Fill the buffers of every task with the episodes that a strategy gives it."""
    table = torch.full((len(MAIN_TASKS), len(tasks)), False, device=arguments.device)
    for row, name in enumerate(MAIN_TASKS):
        for other in impersonate(strategy, name, {key: TASKS[key] for key in tasks}):
            table[row, tasks.index(other)] = other in learned
    frames = 2 * sum(len(batch.length) for batch in log.episodes)
    config = ReplayConfig(frames, balance_tasks=balanced, success_ratio=0.5 if balanced else None)
    buffers = TaskBuffers(tasks, (arguments.image_size, arguments.image_size), config, arguments.device)
    number = itertools.count()
    for batch, commanded, success in zip(log.episodes, log.commanded, log.success, strict=True):
        verdict = torch.where(table[commanded], success, NOT_USED)
        buffers.add_from_device(list(itertools.islice(number, len(commanded))), batch, verdict)
    return buffers


def train(learner: QLearner, buffers: TaskBuffers, updates: int, seed: int, arguments: argparse.Namespace) -> None:
    """Take a number of updates, each action ending its episode."""
    draw = generator_on(arguments.device, seed + 10)
    steps = train_updates(
        learner,
        lambda: buffers.sample(arguments.batch, draw),
        generator_on(arguments.device, seed + 20),
        has_next=False,
        is_eager=arguments.eager,
    )
    for _ in range(updates):
        next(steps)
    wait(arguments.device)


def judge(
    learner: QLearner, world: BinWorld, tasks: tuple[str, ...], asked: tuple[str, ...], arguments: argparse.Namespace
) -> dict[str, Tensor]:
    """Run greedy episodes of each asked task; return the truths (M, len(ALL_TASKS)) of each."""
    result: dict[str, list[Tensor]] = {name: [] for name in asked}
    generator = generator_on(arguments.device, arguments.seed + 30)
    for skill, modes in (("lift", [0.0, 1.0, 0.0, 0.0]), ("place", [0.0, 0.0, 1.0, 0.0])):
        names = [name for name in asked if TASKS[name].skill == skill]
        if not names:
            continue
        search = {"modes": modes, "axes": [1.0, 1.0, 0.0]}
        cem = CEMConfig(samples=arguments.cem_samples, iterations=arguments.cem_rounds, **search)
        policy = QPolicy(learner, tasks, generator, cem=cem)
        index = torch.tensor([ALL_TASKS.index(name) for name in names], device=world.device)
        which = torch.arange(world.num_envs, device=world.device) % len(names)
        for number in range(arguments.rounds):
            begin(world, skill, number)
            episodes = run_episodes(world, policy, index[which], max_steps=1)
            for place, name in enumerate(names):
                result[name].append(episodes.truth[which == place])
    return {name: torch.cat(parts) for name, parts in result.items()}


def begin(world: BinWorld, skill: str, number: int) -> None:
    """Bring all worlds to the starts of a round of judging: the same drops for every setting."""
    world.generator.manual_seed(1234 + number)
    world.reset()
    if skill == "place":
        world.hand_over()


def baselines(arguments: argparse.Namespace, report: Report, world: BinWorld, tasks: tuple[str, ...]) -> None:
    """Report what simple policies and scripts reach from the starts of the judging."""
    found: dict[str, dict[str, Any]] = {}
    config = script_config(1, arguments.seed)
    for skill, script in (("lift", ScriptedPick(world, config)), ("place", ScriptedPlace(world, config))):
        names = [name for name in tasks if TASKS[name].skill == skill]
        starts = [partial(begin, world, skill, number) for number in range(arguments.rounds)]
        found |= simple_rates(world, starts, names, script, 1)
    report.put("simple", found)
    report.put("best_blind", best_of_each(found))


def own_rates(truths: dict[str, Tensor]) -> Rates:
    """Return the success rate of each task where it was commanded."""
    return {name: rate(truth[:, ALL_TASKS.index(name)]) for name, truth in truths.items()}


def summary(rows: list[Row], rare: tuple[str, ...], judged: Sequence[str]) -> dict[str, Any]:
    """Pool the seeds of one setting; min, mean and max over judged tasks, and the mean of those with least data."""
    tasks = {name: pooled([row["tasks"][name] for row in rows]) for name in rows[0]["tasks"]}
    means = {name: float(value["mean"]) for name, value in tasks.items() if name in judged}
    return {
        "min": min(means.values()),
        "mean": sum(means.values()) / len(means),
        "max": max(means.values()),
        "mean_of_rare": sum(means[name] for name in rare) / len(rare),
        "judged": list(means),
        "tasks": tasks,
    }


def relabel(
    arguments: argparse.Namespace,
    report: Report,
    world: BinWorld,
    log: Log,
    tasks: tuple[str, ...],
    spent: float = 0.0,
) -> bool:
    """Learn the new task from labels on old episodes alone, if it and the broad task of its skill have a reward.

    Without `spent`, the seconds that a seed takes, the first seed begins in any case.

    Returns:
        Whether nothing is left to do.
    """
    new = arguments.new_task
    missing = [name for name in (BROAD[TASKS[new].skill], new) if name not in log.judged]
    if missing:
        report.say(f"the detector does not judge {' and '.join(missing)}, so {new} is not learned by relabelling")
        return True
    done = {row["seed"] for row in report.results.get("relabelling", [])}
    for seed in (one for one in arguments.seeds if one not in done):
        if report.left < max(spent, 0.0 if seed == arguments.seeds[0] else arguments.cell_seconds):
            return False
        config = learner_config(arguments, arguments.merge, arguments.reach, seed)
        learner = QLearner(config, len(tasks), arguments.device)
        train(learner, fill(log, tasks, MAIN_TASKS, "skill", True, arguments), arguments.updates, seed, arguments)
        broad = BROAD[TASKS[new].skill]
        asked = (broad, new)
        before = judge(learner, world, tasks, asked, arguments)
        column = ALL_TASKS.index(new)
        row: dict[str, Any] = {
            "seed": seed,
            "accidental": rate(before[broad][:, column]),  # success of the broad policy in the new task
            "before": rate(before[new][:, column]),
            "broad_before": rate(before[broad][:, ALL_TASKS.index(broad)]),
        }
        train(learner, fill(log, tasks, tasks, "skill", True, arguments), arguments.fine_tuning, seed + 1, arguments)
        after = judge(learner, world, tasks, asked, arguments)
        row |= {
            "after": rate(after[new][:, column]),
            "broad_after": rate(after[broad][:, ALL_TASKS.index(broad)]),
        }
        report.append("relabelling", row)
    return True


def describe(arguments: argparse.Namespace, report: Report, log: Log, tasks: tuple[str, ...]) -> tuple[str, ...]:
    """Report the scripts' rates and the data of each task; return the tasks with a reward that have the least data."""
    scripted = torch.cat([batch.truth for batch in log.episodes])
    is_pick = torch.cat([torch.full_like(batch.task, index % 2 == 0) for index, batch in enumerate(log.episodes)])
    rates = {
        name: rate(scripted[is_pick.bool() == (TASKS[name].skill == "lift"), ALL_TASKS.index(name)]) for name in tasks
    }
    report.put("scripted", rates)
    counts = fill(log, tasks, MAIN_TASKS, "orig", True, arguments).counts()
    report.put("own_data", {name: part._asdict() for name, part in counts.items()})
    # Among tasks with equal successes, the one with fewer episodes is rarer.
    rewarded = [name for name in MAIN_TASKS if name in log.judged]
    if not rewarded:
        raise UserError(f"the detector judges no commanded task, only {', '.join(log.judged)}: use more labels")
    rare = tuple(sorted(rewarded, key=lambda name: (counts[name].success, counts[name].failure))[:6])
    report.put("rare", rare)
    return rare


def finished(report: Report) -> tuple[dict[str, list[Row]], set[tuple[str, int]]]:
    """Return the rows of each setting from the cells that are there already, and the settings and seeds of these."""
    rows: dict[str, list[Row]] = {}
    cells = report.results.get("cells", [])
    for cell in cells:
        found: Rates = {name: {"mean": cell[name], "count": count} for name, count in cell["counts"].items()}
        rows.setdefault(cell["setting"], []).append({"seed": cell["seed"], "tasks": found})
    return rows, {(cell["setting"], cell["seed"]) for cell in cells}


def fill_table(
    arguments: argparse.Namespace,
    report: Report,
    world: BinWorld,
    log: Log,
    tasks: tuple[str, ...],
    rare: tuple[str, ...],
) -> tuple[dict[str, list[Row]], float]:
    """Train and evaluate settings, seed by seed, while there is time.

    Returns:
        The rows of each setting, and the seconds of the last one.
    """
    rows, done = finished(report)
    spent = arguments.cell_seconds
    for seed in arguments.seeds:
        for strategy, balanced in itertools.product(arguments.strategies, (False, True)):
            key = f"{strategy}/{'balanced' if balanced else 'uniform'}"
            if (key, seed) in done:
                continue
            if report.left < 1.3 * spent and rows:
                report.say("no time for another setting")
                break
            start = report.left
            config = learner_config(arguments, arguments.merge, arguments.reach, seed)
            learner = QLearner(config, len(tasks), arguments.device)
            buffers = fill(log, tasks, MAIN_TASKS, strategy, balanced, arguments)
            train(learner, buffers, arguments.updates, seed, arguments)
            found = own_rates(judge(learner, world, tasks, MAIN_TASKS, arguments))
            rows.setdefault(key, []).append({"seed": seed, "tasks": found})
            spent = start - report.left
            means = {name: value["mean"] for name, value in found.items()}
            counts = {name: value["count"] for name, value in found.items()}
            report.append("cells", {"setting": key, "seed": seed, "seconds": spent, **means, "counts": counts})
            table = {name: summary(part, rare, log.judged) for name, part in rows.items()}
            report.put("table", table, quiet=True)
    return rows, spent


def is_full(arguments: argparse.Namespace, report: Report) -> bool:
    """Return whether every setting and seed was trained."""
    wanted = itertools.product(arguments.strategies, ("uniform", "balanced"), arguments.seeds)
    return {(f"{strategy}/{mix}", seed) for strategy, mix, seed in wanted} <= finished(report)[1]


def conclude(report: Report, rows: dict[str, list[Row]], rare: tuple[str, ...], judged: Sequence[str]) -> None:
    """Compare the paper's setting with the others on the rarest lift, if one is judged; print a line per setting.

    Only seeds that both settings have are compared.
    """
    rarest = next((name for name in rare if name in LIFTS), None)
    if rarest is None:
        report.say("no lift is judged by the detector, so the settings are not compared on the rarest one")
    elif "skill/balanced" in rows:
        ours = rows["skill/balanced"]
        pairs = {name: of_common_seeds(ours, part) for name, part in rows.items() if part is not ours}
        gaps = {
            name: contrast(*([row["tasks"][rarest] for row in part] for part in pair))
            for name, pair in pairs.items()
            if all(pair)
        }
        report.put("skill_balanced_above", {"task": rarest, **gaps})
    for name, part in rows.items():
        total = summary(part, rare, judged)
        report.say(f"{name}: " + ", ".join(f"{key} {total[key]:.3f}" for key in ("min", "mean", "max", "mean_of_rare")))


def body(arguments: argparse.Namespace, report: Report) -> None:
    """Collect, then fill the table seed by seed, then relabel."""
    tasks = (*MAIN_TASKS, arguments.new_task)
    labelled = ("detector", "pictures_viewed", "taught", "refused", "judged")
    report.resume(("collected", *labelled, "simple", "best_blind", "cells", "table", "relabelling"), FREE)
    report.put("complete", False, quiet=True)
    world, log = collect(arguments, report, tasks)
    rare = describe(arguments, report, log, tasks)
    if "simple" not in report.results:
        baselines(arguments, report, world, tasks)
    is_relabelled = arguments.relabel_first and relabel(arguments, report, world, log, tasks)
    rows, spent = fill_table(arguments, report, world, log, tasks, rare)
    conclude(report, rows, rare, log.judged)
    if not arguments.relabel_first:
        is_relabelled = relabel(arguments, report, world, log, tasks, spent)
    is_complete = is_full(arguments, report) and is_relabelled
    report.put("complete", is_complete)
    report.say("nothing is left to do" if is_complete else "the time is over; the same command continues")


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Read the flags and run."""
    flags = parser(__doc__ or "", seconds=290, worlds=4096)
    learning_flags(flags, updates=2500, batch=1024)
    detector_flags(flags)
    add = flags.add_argument
    add("--episodes", type=int, default=98304, help="of the fixed data set, picks and places together")
    add("--collect-share", type=float, default=0.3)
    labels_flag(flags)
    add("--detector-outcomes", type=int, default=65536, help="episodes to choose the labelled ones from")
    add("--strategies", nargs="+", default=list(STRATEGIES))
    add("--seeds", type=int, nargs="+", default=[0, 1, 2])
    add("--merge", default="located")
    add("--reach", type=float, default=0.14)
    add("--rounds", type=int, default=1, help="of judging in all worlds, for each skill")
    add("--cell-seconds", type=float, default=10, help="guess of what one setting takes")
    add("--cem-samples", type=int, default=64)
    add("--cem-rounds", type=int, default=3)
    add("--new-task", default="lift-red-thing")
    add("--fine-tuning", type=int, default=1500, help="updates after relabelling")
    add("--relabel-first", action="store_true")
    arguments = flags.parse_args(argv)
    require_tested(arguments, flags)
    return run("sharing", arguments, body)


if __name__ == "__main__":
    main()
