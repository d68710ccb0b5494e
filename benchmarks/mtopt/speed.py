"""Measure the speed of collection and training: images and episodes per second, trained samples per second.

An episode counts with its reset, its 13 pictures and the three views of its outcome. A trained sample counts with its
target: CEM on the next state by the averaged network, a look by the lagged one, and the update.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import torch
from captured import CapturedUpdate
from experiment import (
    Report,
    generator_on,
    learner_config,
    learning_flags,
    make_world,
    parser,
    run,
    wait,
)

from polytask.mtopt.config.world import ScriptConfig
from polytask.mtopt.learning.learner import QLearner
from polytask.mtopt.learning.transitions import Transitions
from polytask.mtopt.records import ACTION_DIM
from polytask.mtopt.world import BinWorld, ScriptedPick, run_episodes


def episodes(world: BinWorld, max_steps: int, report: Report, seconds: float) -> dict[str, Any]:
    """Run scripted episodes for some seconds."""
    policy = ScriptedPick(world, ScriptConfig(seed=1))
    run_episodes(world, policy, ["lift-any"], max_steps)  # compiles kernels and captures graphs
    wait(world.device)
    start, count, success = time.monotonic(), 0, torch.zeros((), device=world.device)
    while not count or (time.monotonic() - start < seconds and report.left > 5):
        world.reset()
        batch = run_episodes(world, policy, ["lift-any"], max_steps)
        success += batch.truth[:, 0].float().mean()
        wait(world.device)
        count += 1
    taken, total = time.monotonic() - start, count * world.num_envs
    return {
        "episodes_per_second": total / taken,
        "images_per_second": total * (max_steps + 1) / taken,  # the outcome's views, of another size, are not counted
        "outcome_views_per_second": total * batch.outcome.shape[1] / taken,
        "episodes": total,
        "lift_any": float(success) / count,
        "broken": int(world.broken.sum()),
    }


def parts(world: BinWorld, repeats: int) -> dict[str, float]:
    """Time observations, actions, presenting and resets separately, in milliseconds for all worlds."""
    action = torch.zeros(world.num_envs, ACTION_DIM, device=world.device)
    result = {}
    jobs = {"observe": world.observe, "step": lambda: world.step(action)}
    jobs |= {"present": world.present, "reset": world.reset}
    for name, job in jobs.items():
        job()
        wait(world.device)
        start = time.monotonic()
        for _ in range(repeats):
            job()
        wait(world.device)
        result[f"{name}_ms"] = (time.monotonic() - start) / repeats * 1e3
    return result


def syncs(world: BinWorld) -> int:
    """Count how often torch waits for the device in one observation, action and reset; there should be none."""
    if world.device.type != "cuda":
        return 0
    action = torch.zeros(world.num_envs, ACTION_DIM, device=world.device)
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            world.observe()
            world.step(action)
            world.reset()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return sum("synchroniz" in str(one.message) for one in caught)


def transitions(batch: int, size: int, device: str) -> Transitions:
    """Make a random batch."""
    generator = generator_on(device, 0)
    image = torch.randint(0, 256, (2, batch, size, size, 3), dtype=torch.uint8, device=device, generator=generator)
    some, pose = torch.rand(batch, device=device, generator=generator), torch.zeros(batch, 3, device=device)
    pose[:, 1] = 0.6
    action = torch.rand(batch, ACTION_DIM, device=device, generator=generator) * 2 - 1
    flag, whole = some > 0.8, torch.zeros(batch, dtype=torch.long, device=device)
    seen = (image[0], flag.float(), some * 0.2, action, image[1], flag.float(), some * 0.2)
    return Transitions(*seen, flag.float(), flag, whole, flag, whole, pose, next_pose=pose, policy=whole)


def training(arguments: argparse.Namespace, network: str, merge: str, batch: int, is_eager: bool) -> dict[str, Any]:
    """Time targets and updates."""
    arguments.network = network
    size = arguments.image_size if network == "small" else arguments.medium_size
    arguments.image_size, before = size, arguments.image_size
    learner = QLearner(learner_config(arguments, merge, 0.06, 0), 12, arguments.device)
    arguments.image_size = before
    rows = transitions(batch, size, arguments.device)
    update = CapturedUpdate(learner, generator_on(arguments.device, 1), is_eager=is_eager)
    if arguments.device.startswith("cuda"):
        torch.cuda.reset_peak_memory_stats()
    for _ in range(4):
        update(rows)
    wait(arguments.device)
    start, count = time.monotonic(), 0
    while count < 3 or (time.monotonic() - start < arguments.train_seconds and count < 2000):
        update(rows)
        count += 1
        if count % 10 == 0:
            wait(arguments.device)
    wait(arguments.device)
    taken = time.monotonic() - start
    memory = torch.cuda.max_memory_allocated() / 2**30 if arguments.device.startswith("cuda") else None
    setting = {"network": network, "pixels": size, "merge": merge, "batch": batch, "captured": not is_eager}
    return {**setting, "samples_per_second": count * batch / taken, "updates_per_second": count / taken, "gib": memory}


def body(arguments: argparse.Namespace, report: Report) -> None:
    """Time collection for each number of worlds, then training."""
    for count in arguments.counts:
        arguments.worlds = count
        for assisted, steps in ((False, arguments.max_steps), (True, 1)):
            start = time.monotonic()
            world = make_world(arguments, 0, assisted=assisted, reach=0.14 if assisted else 0.06)
            wait(world.device)
            row = {"worlds": count, "max_steps": steps, "assisted": assisted, "start_s": time.monotonic() - start}
            row |= episodes(world, steps, report, arguments.collect_seconds)
            if not assisted:
                row |= {**parts(world, arguments.repeats), "syncs": syncs(world)}
            report.append("collection", row)
            del world
    for network in arguments.networks:
        for merge in ("located", "added"):
            for batch in arguments.batches:
                if report.left < 8:
                    report.say("no time left")
                    return
                report.append("training", training(arguments, network, merge, batch, is_eager=arguments.eager))
    if arguments.device.startswith("cuda"):
        report.append("training", training(arguments, "small", "located", arguments.batches[0], is_eager=True))


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Read the flags and run."""
    flags = parser(__doc__ or "", seconds=240, worlds=1024)
    learning_flags(flags, updates=0, batch=0)
    flags.add_argument("--counts", type=int, nargs="+", default=[1024, 4096], help="of worlds")
    flags.add_argument("--max-steps", type=int, default=12)
    flags.add_argument("--collect-seconds", type=float, default=8)
    flags.add_argument("--repeats", type=int, default=10)
    flags.add_argument("--networks", nargs="+", default=["small", "medium"])
    flags.add_argument("--medium-size", type=int, default=128)
    flags.add_argument("--batches", type=int, nargs="+", default=[256, 1024])
    flags.add_argument("--train-seconds", type=float, default=3)
    return run("speed", flags.parse_args(argv), body)


if __name__ == "__main__":
    main()
