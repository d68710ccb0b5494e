"""Test whether a grasp can be learned from pictures. One action chooses place and turn; the rest is automatic.

The script collects scripted one-action picks and trains predictors of success for the eight lifts, at several numbers
of samples and with each merge of action and picture. It reports the held-out AUC. Then the predictor with the most
samples of each merge chooses grasps by CEM, for lift-any and for each kind, and is compared with the scripted rate.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import torch
from experiment import (
    LIFTS,
    QPolicy,
    Report,
    Supervised,
    auc,
    generator_on,
    learner_config,
    learning_flags,
    make_world,
    parser,
    rate,
    run,
    wait,
)
from torch import Tensor

from polytask.mtopt.config.learning import CEMConfig
from polytask.mtopt.config.world import ScriptConfig
from polytask.mtopt.detector.train import balanced_weights
from polytask.mtopt.learning.learner import QLearner
from polytask.mtopt.tasks import ALL_TASKS
from polytask.mtopt.world import BinWorld, ScriptedPick, run_episodes

Table = dict[str, Tensor]


def collect(arguments: argparse.Namespace, report: Report) -> tuple[BinWorld, Table]:
    """Run scripted one-action picks until there are enough, or a third of the time is spent."""
    world = make_world(arguments, arguments.seed, assisted=True, reach=arguments.reach)
    script = ScriptConfig(noise=0.0, early_end=0.0, early_grip=0.0, margin=0.02, seed=arguments.seed)
    policy, parts, count = ScriptedPick(world, script), [], 0
    wanted = max(arguments.samples) + arguments.held_out
    deadline = report.left * (1 - arguments.collect_share)
    wait(world.device)
    start = time.monotonic()
    while count < wanted and (report.left > deadline or not parts):
        if parts:
            world.reset()
        episodes = run_episodes(world, policy, ["lift-any"], max_steps=1)
        assert episodes.pose is not None
        parts.append(
            {
                "image": episodes.images[:, 0].clone(),
                "closed": episodes.closed[:, 0],
                "height": episodes.height[:, 0],
                "pose": episodes.pose[:, 0],
                "action": episodes.actions[:, 0],
                "truth": torch.stack([episodes.truth[:, ALL_TASKS.index(name)] for name in LIFTS], 1),
            }
        )
        count += world.num_envs
        if len(parts) % 4 == 0:
            wait(world.device)
            report.say(f"{count} of {wanted} picks")
    wait(world.device)
    taken = time.monotonic() - start
    table = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    report.put("collected", {"episodes": count, "seconds": taken, "episodes_per_second": count / taken})
    report.put("scripted", {name: rate(table["truth"][:, index]) for index, name in enumerate(LIFTS)})
    report.put("broken_worlds", int(world.broken.sum()))
    return world, table


def train(
    arguments: argparse.Namespace, report: Report, table: Table, merge: str, samples: int, deadline: float
) -> tuple[QLearner, dict[str, Any]]:
    """Train on the first examples of a table; the deadline is in seconds left."""
    learner = QLearner(learner_config(arguments, merge, arguments.reach, arguments.seed), len(LIFTS), arguments.device)
    generator = generator_on(arguments.device, arguments.seed + 1)
    step = Supervised(learner, table, arguments.batch, arguments.seed + 2, arguments.eager)
    truth = table["truth"][:samples]
    task = torch.arange(len(LIFTS), device=truth.device).repeat(samples)
    # The mean of the natural mix, in which a kind succeeds once in thirty, and equal shares.
    weight = 0.5 * balanced_weights(task, truth.flatten(), len(LIFTS)) + 0.5 / len(task)
    wait(arguments.device)
    start, done, chosen = time.monotonic(), 0, torch.empty(0, dtype=torch.long)
    metrics: dict[str, Tensor] = {}
    while done < arguments.updates and (report.left > deadline or done < 3):
        place = done % 64
        if place == 0:  # a draw is a pass over all examples, so it draws 64 batches at once
            chosen = torch.multinomial(weight, 64 * arguments.batch, replacement=True, generator=generator)
            wait(arguments.device)
        pair = chosen[place * arguments.batch : (place + 1) * arguments.batch]
        metrics = step(torch.div(pair, len(LIFTS), rounding_mode="floor"), pair % len(LIFTS))
        done += 1
    wait(arguments.device)
    taken = time.monotonic() - start
    return learner, {"updates": done, "seconds": taken, "loss": float(metrics["loss"])}


@torch.no_grad()
def scores(learner: QLearner, table: Table, rows: slice) -> Tensor:
    """Return the logits (M, 8) of held-out examples."""
    part, result = {name: value[rows] for name, value in table.items()}, []
    for start in range(0, len(part["image"]), 1024):
        row = slice(start, start + 1024)
        q, seen = learner.q1, learner.q1.image_part(part["image"][row])
        state = (part["closed"][row], part["height"][row])
        action, pose = part["action"][row].unsqueeze(1), part["pose"][row]
        tasks = (torch.full_like(state[0], index, dtype=torch.long) for index in range(len(LIFTS)))
        result.append(torch.cat([q.action_part(seen, *state, task, action, pose) for task in tasks], 1))
    return torch.cat(result)


def act(arguments: argparse.Namespace, report: Report, world: BinWorld, learner: QLearner) -> dict[str, Any]:
    """Let a predictor choose grasps for every lift on command."""
    search = {"modes": [0.0, 1.0, 0.0, 0.0], "axes": [1.0, 1.0, 0.0]}  # always close; the height is not chosen
    cem = CEMConfig(samples=arguments.cem_samples, iterations=arguments.cem_rounds, **search)
    generator = generator_on(arguments.device, arguments.seed + 3)
    policy = QPolicy(learner, LIFTS, generator, cem=cem)
    task = torch.arange(world.num_envs, device=world.device) % len(LIFTS)
    columns = torch.tensor([ALL_TASKS.index(name) for name in LIFTS], device=world.device)
    truths, tasks, values = [], [], []
    for _ in range(arguments.rounds):
        world.reset()
        episodes = run_episodes(world, policy, columns[task], max_steps=1)
        assert policy.value is not None
        truths.append(episodes.truth[:, columns])
        tasks.append(task)
        values.append(policy.value)
    truth, commanded, value = torch.cat(truths), torch.cat(tasks), torch.cat(values)
    result: dict[str, Any] = {}
    for index, name in enumerate(LIFTS):
        mine = commanded == index
        result[name] = {
            **rate(truth[mine, index]),
            "any": float(truth[mine, 0].float().mean()),
            "expected": float(value[mine].mean()),
        }
    kinds = [float(result[name]["mean"]) for name in LIFTS[1:]]
    return {"tasks": result, "mean_of_kinds": sum(kinds) / len(kinds)}


def body(arguments: argparse.Namespace, report: Report) -> None:
    """Collect, train, act."""
    world, table = collect(arguments, report)
    total = len(table["image"])
    held_out = slice(total - min(arguments.held_out, total // 4), total)
    sizes = [size for size in sorted(arguments.samples, reverse=True) if size <= held_out.start] or [held_out.start]
    acting = arguments.act_seconds * len(arguments.merges)
    jobs = [(merge, size) for size in sizes for merge in arguments.merges]  # the largest first: its learner acts
    share = max(1.0, (report.left - acting) / len(jobs))
    for number, (merge, size) in enumerate(jobs):
        deadline = max(0.0, acting if size == sizes[0] else 0.0) + share * (len(jobs) - number - 1)
        learner, row = train(arguments, report, table, merge, size, deadline)
        logit, truth = scores(learner, table, held_out), table["truth"][held_out]
        areas = [auc(logit[:, index], truth[:, index]) for index in range(len(LIFTS))]
        known = [area for area in areas[1:] if area == area]
        mean = sum(known) / len(known) if known else float("nan")
        row = {"merge": merge, "samples": size, "auc_any": areas[0], "auc_kinds": mean, **row}
        report.append("auc", row)
        if size == sizes[0]:
            report.put(f"acting_{merge}", act(arguments, report, world, learner))
            acting -= arguments.act_seconds


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Read the flags and run."""
    flags = parser(__doc__ or "", seconds=280, worlds=4096)
    learning_flags(flags, updates=4000, batch=1024)
    flags.add_argument("--samples", type=int, nargs="+", default=[3000, 10000, 30000, 100000])
    flags.add_argument("--held-out", type=int, default=10000)
    flags.add_argument("--merges", nargs="+", default=["located", "added"])
    flags.add_argument("--reach", type=float, default=0.14, help="m that the one action may move by")
    flags.add_argument("--collect-share", type=float, default=0.35, help="of the time, at most")
    flags.add_argument("--act-seconds", type=float, default=15, help="kept for acting, for each merge")
    flags.add_argument("--rounds", type=int, default=2, help="of acting in all worlds")
    flags.add_argument("--cem-samples", type=int, default=64)
    flags.add_argument("--cem-rounds", type=int, default=3)
    return run("one_step", flags.parse_args(argv), body)


if __name__ == "__main__":
    main()
