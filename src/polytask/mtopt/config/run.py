"""Settings of a run, whichever way its roles are run."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

from polytask.errors import UserError
from polytask.mtopt.config.keys import RunKeys
from polytask.mtopt.detector import DetectorConfig
from polytask.mtopt.learning.buffers import ReplayConfig
from polytask.mtopt.learning.learner import LearnerConfig
from polytask.mtopt.learning.log_replay import LogReplayConfig
from polytask.mtopt.store import StoreConfig
from polytask.mtopt.tasks import MAIN_TASKS, TASKS
from polytask.mtopt.world import ScriptConfig, WorldConfig


@dataclass
class CollectorConfig:
    """How much is collected, and how."""

    episodes: int = 2000  # by scripts, before anything is learned
    round_episodes: int = 2000  # in each later round
    max_steps: int = 12  # actions, at most, of an episode
    epsilon: float = 0.1  # chance that a learned policy takes a random action
    noise: float = 0.1  # standard deviation of what is added to a learned policy's translation
    hand_over: bool = False  # where a pick failed, put an object into the hand to place; else only what was lifted


@dataclass
class LabelsConfig:
    """Where the labels of the success detector come from."""

    who: str = "stand-in"  # a stand-in that knows the simulator's truth, through the page's API; or a person
    per_task: int = 500  # labels that the stand-in makes before the first detector is trained
    round_per_task: int = 100  # in each later round, where the detector is least certain
    error_rate: float = 0.0  # share of the stand-in's answers that are wrong


@dataclass
class UpdaterConfig:
    """How targets are made."""

    lower_bound: bool = False  # no target below the return, discounted and less cost, that its episode had
    rows: int = 1024  # transitions whose targets are computed at once


@dataclass
class TrainerConfig:
    """How long the Q-network is trained, and how often its weights are published."""

    updates: int = 20_000  # after the scripts' episodes
    round_updates: int = 10_000  # after each later round
    batch: int = 256  # examples an update
    publish_every: int = 500  # updates between versions of the weights; state is saved as often
    buffer: int = 20_000  # examples that the train buffer holds
    reuse: float = 1.0  # times that an example is drawn on average before the updaters have replaced it
    keep: int = 5  # versions of the weights that stay on disk, at least 2; 0 for all


@dataclass
class EvaluatorConfig:
    """How a policy is measured."""

    episodes: int = 50  # per task
    seed: int = 1_000  # of the scenes


@dataclass
class ControllerConfig:
    """What follows what."""

    rounds: int = 2  # of collection with the learned policies
    parity_episodes: int = 20  # tries that a task's own policy needs before it can replace the one that helps out


@dataclass
class RayConfig:
    """Workers of `runtime=ray`."""

    address: str = ""  # of a cluster; empty: this machine alone
    collectors: int = 2
    updaters: int = 1
    cpus: int = 0  # that Ray may use of this machine; 0: all
    max_seconds: float = 0.0  # stop after this much time; 0: never
    object_store: int = 256  # MB of shared memory in which data waits to be passed on
    max_deaths: int = 20  # of one worker that are made up for


@dataclass
class RunConfig(RunKeys):
    """All settings of a run; plain values, so that it can travel to other processes."""

    world: WorldConfig = field(default_factory=WorldConfig)
    script: ScriptConfig = field(default_factory=ScriptConfig)
    storage: StoreConfig = field(default_factory=StoreConfig)
    collector: CollectorConfig = field(default_factory=CollectorConfig)
    labels: LabelsConfig = field(default_factory=LabelsConfig)
    detector: DetectorConfig = field(default_factory=DetectorConfig)
    sharing: LogReplayConfig = field(default_factory=LogReplayConfig)
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    learner: LearnerConfig = field(default_factory=LearnerConfig)
    updater: UpdaterConfig = field(default_factory=UpdaterConfig)
    trainer: TrainerConfig = field(default_factory=TrainerConfig)
    evaluator: EvaluatorConfig = field(default_factory=EvaluatorConfig)
    controller: ControllerConfig = field(default_factory=ControllerConfig)
    ray: RayConfig = field(default_factory=RayConfig)

    @property
    def learned(self) -> tuple[str, ...]:
        """Name the tasks that are learned."""
        return tuple(self.tasks) or MAIN_TASKS

    @property
    def root(self) -> Path:
        """Return the run's folder."""
        return Path(self.store).expanduser()

    @property
    def weights(self) -> Path:
        """Return the folder of the published weights."""
        return self.root / "weights"

    @property
    def detectors(self) -> Path:
        """Return the folder of the detectors, which the labelling page uses too."""
        return self.root / "detectors"


def check(config: RunConfig) -> RunConfig:
    """Refuse settings that cannot work, before anything slow happens, and tell the network of the world it acts in."""
    unknown = [name for name in config.tasks if name not in TASKS]
    if unknown:
        raise UserError(f"unknown task '{unknown[0]}'; known: {', '.join(TASKS)}")
    if config.labels.who not in ("stand-in", "person"):
        raise UserError(f"labels.who={config.labels.who}: stand-in or person")
    least = {
        "collector.max_steps": (config.collector.max_steps, 1),
        "trainer.batch": (config.trainer.batch, 2),
        "trainer.publish_every": (config.trainer.publish_every, 1),
        "trainer.buffer": (config.trainer.buffer, config.trainer.batch),
        "updater.rows": (config.updater.rows, 1),
        "world.num_worlds": (config.world.num_worlds, 1),
        "controller.rounds": (config.controller.rounds, 0),
        "ray.collectors": (config.ray.collectors, 1),
        "ray.updaters": (config.ray.updaters, 1),
    }
    for name, (value, bound) in least.items():
        if value < bound:
            raise UserError(f"{name}={value}: at least {bound} is needed")
    if config.trainer.keep < 0 or config.trainer.keep == 1:
        # A run that is killed between publishing a version and saving its state goes on from the version before.
        raise UserError(f"trainer.keep={config.trainer.keep}: 0 keeps all weights, else at least 2 versions are needed")
    if config.trainer.reuse <= 0:
        raise UserError(f"trainer.reuse={config.trainer.reuse}: must be above zero")
    network = config.learner.network
    network.camera.reach = config.world.reach
    if network.side > config.world.image_size or (network.is_located and network.side != config.world.image_size):
        raise UserError(
            f"the network looks at {network.side} pixels, pictures have {config.world.image_size}; "
            f"set world.image_size or learner.network.image_size"
        )
    return config


def derive(seed: int, *words: str | int) -> int:
    """Make a seed for one purpose out of the run's seed, such that no two purposes share theirs."""
    text = "/".join(str(word) for word in (seed, *words))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big")


def from_plain(kind: type[Any], plain: Mapping[str, Any]) -> Any:
    """Build a dataclass, and those inside it, from plain values; what is missing has its default."""
    hints = get_type_hints(kind)
    values = {}
    for each in fields(kind):
        if each.name in plain:
            value, inner = plain[each.name], hints[each.name]
            is_nested = isinstance(inner, type) and is_dataclass(inner) and isinstance(value, Mapping)
            values[each.name] = from_plain(inner, value) if is_nested else value
    return kind(**values)
