"""The keys of the MT-Opt commands with their defaults and help lines; imports no torch, so that help answers at once.

Parts with settings of their own (`world`, `learner`, ...) are declared here by name; `runtime.config` gives them their
dataclasses.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


def key(default: Any, text: str) -> Any:
    """Declare a field with a default and the line that `--help` prints for it."""
    return field(default=default, metadata={"help": text})


def names(text: str) -> Any:
    """Declare a list that is empty unless told otherwise."""
    return field(default_factory=list, metadata={"help": text})


@dataclass
class RunKeys:
    """`polytask mtopt run`, `collect` and `train`."""

    store: str = key("runs/mtopt", "folder of episodes, labels, detectors, weights and the run's state")
    runtime: str = key("local", "local: one process, deterministic; ray: workers side by side (extra: ray)")
    tasks: list[str] = names("tasks to learn (default: the twelve main ones)")
    seed: int = key(0, "seed of everything random")
    device: str = key("cpu", "torch device that learns: cpu, cuda or cuda:<index>")
    world: Any = key(None, "simulated bins (world.num_worlds=..., world.sim=warp, world.assisted=true)")
    script: Any = key(None, "how scripted policies err (script.noise=...)")
    storage: Any = key(None, "how episodes are written (storage.fsync=...)")
    collector: Any = key(None, "collection (collector.episodes=...)")
    labels: Any = key(None, "who labels and how much (labels.who=person, labels.per_task=...)")
    detector: Any = key(None, "training of the success detector (detector.updates=...)")
    sharing: Any = key(None, "whose episodes a task learns from (sharing.strategy=orig|all|skill)")
    replay: Any = key(None, "buffers and balance (replay.capacity=..., replay.success_ratio=...)")
    learner: Any = key(None, "Q-network, CEM and optimiser (learner.network.size=..., learner.lr=...)")
    updater: Any = key(None, "Bellman targets (updater.lower_bound=...)")
    trainer: Any = key(None, "training of the Q-network (trainer.updates=..., trainer.batch=...)")
    evaluator: Any = key(None, "evaluation (evaluator.episodes=...)")
    controller: Any = key(None, "rounds and switching (controller.rounds=...)")
    ray: Any = key(None, "workers of runtime=ray (ray.collectors=...)")
    format: str = key("table", "table or json (one object on stdout)")


@dataclass
class EvalKeys:
    """`polytask mtopt eval`."""

    store: str = key("runs/mtopt", "folder of the run")
    tasks: list[str] = names("tasks to measure (default: those of the run)")
    scripted: bool = key(False, "measure the scripts instead of what was learned")
    weights: int | None = key(None, "version of the weights (default: the newest)")
    episodes: int | None = key(None, "episodes per task (default: evaluator.episodes of the run)")
    seed: int = key(1000, "seed of the scenes")
    device: str | None = key(None, "torch device (default: that of the run)")
    format: str = key("table", "table or json (one object on stdout)")


@dataclass
class RelabelKeys:
    """`polytask mtopt relabel`."""

    store: str = key("runs/mtopt", "folder of the run")
    detector: str | None = key(None, "version of the detector that the run uses from now on (default: the newest)")
    add: list[str] = names("held-out tasks that the run learns from now on, such as [lift-red-thing]")
    train: bool = key(False, "first train a new detector from all labels, and use it")
    device: str | None = key(None, "torch device (default: that of the run)")
    format: str = key("table", "table or json (one object on stdout)")


@dataclass
class StatusKeys:
    """`polytask mtopt status`."""

    store: str = key("runs/mtopt", "folder of the run")
    format: str = key("table", "table or json (one object on stdout)")


@dataclass
class LabelKeys:
    """`polytask label`."""

    store: str = key("", "folder of the episode store")
    tasks: list[str] = names("names to label (default: all)")
    host: str = key("127.0.0.1", "where to listen; anything but this machine itself makes a token necessary")
    port: int = key(8008, "port to listen on")
    token: str = key("", "what a browser must show when the page listens elsewhere (default: a random one)")
    detectors: str = key("", "folder of the detector files (default: `detectors` in the store)")
    source: str = key("person", "who answers: person, or oracle for the stand-in that knows the simulator's truth")
    share: str = key("skill", "whose episodes a task is asked about: orig (its own), skill, all")
    goal: int = key(500, "labels per task that the progress bars count towards")
    reask: float = key(0.1, "share of the labels that are asked again, unannounced")
    reask_gap: int = key(20, "answers of a task that must lie between a label and its second question")
    pool: int = key(1000, "unlabelled episodes per task that a new detector ranks")
    held_out: float = key(0.2, "share of the episodes whose labels measure the detector and never train it")
    max_upload_bytes: int = key(5 * 1024 * 1024, "largest upload")
    max_upload_pixels: int = key(16 * 1024 * 1024, "largest upload, in pixels")
    outcome_size: int = key(96, "side of an uploaded example in a store that holds no episode yet")
    views: int = key(2, "views of an uploaded example in a store that holds no episode yet")
    seed: int = key(0, "seed of the detector's training")
    device: str = key("cpu", "torch device that trains and runs the detector")
    detector: Any = key(None, "training of the detector (detector.updates=...)")
    format: str = key("table", "table or json (one object on stdout), once the page is closed")
