"""A large store of synthetic episodes with the verdicts of detectors, for `scale.py`."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from polytask.mtopt.config.learning import CEMConfig
from polytask.mtopt.config.network import NetworkConfig
from polytask.mtopt.config.run import CollectorConfig, EvaluatorConfig, RayConfig, RunConfig, TrainerConfig
from polytask.mtopt.config.store import StoreConfig
from polytask.mtopt.config.world_specs import BINS
from polytask.mtopt.detector import Detector
from polytask.mtopt.detector.folder import choose, path_of
from polytask.mtopt.networks import DetectorNetwork
from polytask.mtopt.records import ACTION_DIM, POSE_DIM, Episode, Label
from polytask.mtopt.runtime.checks import prepared
from polytask.mtopt.store import EpisodeStore
from polytask.mtopt.tasks import ALL_TASKS, MAIN_TASKS

SIDE, STEPS = 16, 2  # pixels, actions
VIEWS = len(BINS.captions)
VERSION, OTHER = "scale", "earlier"  # of detectors
BATCH = 512  # episodes written at once
Figures = dict[str, Any]


def settings(root: Path) -> RunConfig:
    """Return the settings of the run in the large store."""
    config = RunConfig(run_dir=str(root))
    world = config.world
    world.num_envs, world.image_size, world.outcome_size, world.assisted, world.reach = 2, SIDE, SIDE, True, 0.14
    config.storage = StoreConfig(threads=2)
    config.collector = CollectorConfig(episodes=64, round_episodes=128, max_steps=STEPS, hand_over=True)
    config.labels.per_task = config.labels.round_per_task = 0  # the detector is there already
    config.learner.network.image_size = SIDE
    config.learner.bellman.cem = CEMConfig(samples=8, elites=2)
    config.replay.capacity = 100_000
    config.updater.rows = 256
    config.trainer = TrainerConfig(updates=120, round_updates=40, batch=64, publish_every=20, buffer=4096)
    config.evaluator = EvaluatorConfig(episodes=2, simple=False, chains=False)
    config.controller.rounds = 1
    config.ray = RayConfig(collectors=8, updaters=3, cpus=2)  # and five on the driver's machine
    return prepared(config)


def templates(count: int = 256) -> list[Episode]:
    """Make episodes whose pictures are smooth, as rendered ones are."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(count):
        corner = rng.integers(0, 200, (STEPS + 1 + VIEWS, 1, 1, 3))
        ramp = np.add.outer(np.arange(SIDE), np.arange(SIDE))[None, ..., None]
        pictures = np.minimum(corner + ramp, 255).astype(np.uint8)
        found.append(
            Episode(
                images=pictures[: STEPS + 1],
                closed=rng.integers(0, 2, STEPS + 1).astype(np.float32),
                height=rng.random(STEPS + 1, np.float32),
                actions=rng.uniform(-1, 1, (STEPS, ACTION_DIM)).astype(np.float32),
                outcome=pictures[STEPS + 1 :],
                task="lift-any",
                policy="scripted-pick",
                seed=1,
                pose=rng.uniform(-0.1, 0.1, (STEPS + 1, POSE_DIM)).astype(np.float32),
            )
        )
    return found


def ingest(root: Path, episodes: int, seconds: float) -> Figures:
    """Write episodes, and stop early if the time is up."""
    made, rng, count = templates(), np.random.default_rng(1), 0
    start, begun = time.process_time(), time.monotonic()
    with closing(EpisodeStore(root, settings(root).storage)) as store, store.writer("synthetic") as writer:
        while count < episodes and time.monotonic() - begun < seconds:
            size = min(BATCH, episodes - count)
            task, kind = rng.integers(len(MAIN_TASKS), size=size), rng.integers(len(made), size=size)
            won = rng.random((size, len(MAIN_TASKS))) < 0.05
            policy = f"q:{count // 50_000}" if count >= episodes // 2 else "scripted-pick"
            writer.append_many(
                [
                    replace(
                        made[kind[row]],
                        task=MAIN_TASKS[task[row]],
                        policy=policy,
                        seed=1 + count // 64,
                        truth=dict(zip(MAIN_TASKS, won[row].tolist(), strict=True)),
                    )
                    for row in range(size)
                ]
            )
            count += size
    taken = time.process_time() - start
    shards = sum(path.stat().st_size for path in (root / "shards").iterdir())
    return {
        "episodes": count,
        "seconds": taken,
        "clock_seconds": time.monotonic() - begun,
        "episodes_per_second": count / taken,
        "shard_bytes_per_episode": shards / count,
        "index_bytes_per_episode": (root / EpisodeStore.INDEX).stat().st_size / count,
    }


def judge(root: Path) -> Figures:
    """Enter the verdicts of a detector on every episode, as a grader does; then of another one on a tenth."""
    config = settings(root)
    for version in (OTHER, VERSION):
        network = NetworkConfig(image_size=SIDE)
        tasks = len(ALL_TASKS)
        detector = Detector(version, ALL_TASKS, DetectorNetwork(network, tasks, VIEWS), config=network)
        config.detectors.mkdir(exist_ok=True)
        detector.save(path_of(config.detectors, version))
    choose(config.detectors, VERSION)
    before = (root / EpisodeStore.INDEX).stat().st_size
    with closing(EpisodeStore(root, config.storage)) as store:
        last = store.last()
        taken = _verdicts(store, VERSION, last)
        size = (root / EpisodeStore.INDEX).stat().st_size
        _verdicts(store, OTHER, last // 10)
    labels = last * len(MAIN_TASKS)
    bytes_each = (size - before) / last
    return {"seconds": taken, "labels_per_second": labels / taken, "index_bytes_per_episode": bytes_each}


def _verdicts(store: EpisodeStore, version: str, last: int) -> float:
    rng, start = np.random.default_rng(2), time.process_time()
    for first in range(1, last + 1, BATCH):
        numbers = range(first, min(first + BATCH, last + 1))
        values = rng.beta(0.3, 3.0, (len(numbers), len(MAIN_TASKS)))
        rows = zip(numbers, values.tolist(), strict=True)
        source = f"detector:{version}"
        store.add_labels(
            [Label(one, task, p, source) for one, row in rows for task, p in zip(MAIN_TASKS, row, strict=True)]
        )
    return time.process_time() - start
