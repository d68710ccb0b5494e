"""All settings of a run: collection, labels, learning and evaluation."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from polytask.errors import UserError
from polytask.mtopt.config.commands import FolderCommandConfig
from polytask.mtopt.config.learning import DetectorConfig, LearnerConfig, ReplayConfig, SharingConfig
from polytask.mtopt.config.store import StoreConfig
from polytask.mtopt.config.world import ScriptConfig, WorldConfig
from polytask.mtopt.config.world_specs import world_spec
from polytask.settings import MAX_SEED, require_order, setting

LEAST_MEMORY = 80  # MB of shared memory that Ray needs


@dataclass
class CollectorConfig:
    """Settings of collection."""

    episodes: int = setting(2000, "episodes by scripts, before learning starts", at_least=0)
    round_episodes: int = setting(2000, "episodes in each later round", at_least=0)
    max_steps: int = setting(12, "most actions of an episode", within=(1, 10_000))
    epsilon: float = setting(0.1, "chance that a learned policy takes a random action", within=(0.0, 1.0))
    noise: float = setting(0.1, "standard deviation of the noise on a learned policy's translation", at_least=0.0)
    hand_over: bool = setting(False, "where a pick failed, put an object into the hand to place")


@dataclass
class TeacherConfig:
    """Settings of the labels that train the success detector."""

    who: str = setting(
        "stand-in",
        "stand-in: answers from the simulator's truth, through the page's API; or person",
        choices=("stand-in", "person"),
    )
    per_task: int = setting(
        500, "labels per task that the stand-in makes before the first detector is trained", at_least=0
    )
    passes: int = setting(
        1,
        "parts in which these labels are given, with a detector after each: the first at random, the others among "
        "outcomes that the detector finds likely or uncertain",
        within=(1, 100),
    )
    round_per_task: int = setting(
        100, "labels per task in each later round, some at random, others where the detector is uncertain", at_least=0
    )
    error_rate: float = setting(0.0, "share of the stand-in's answers that are wrong", within=(0.0, 1.0))


@dataclass
class UpdaterConfig:
    """Settings of the Bellman updaters."""

    lower_bound: bool = setting(False, "no target lies below the return of its episode")
    rows: int = setting(1024, "transitions whose targets are computed at once", within=(1, 10**7))


@dataclass
class TrainerConfig:
    """Settings of the Q-network's training and of its published weights."""

    updates: int = setting(20_000, "updates after the scripts' episodes", at_least=0)
    round_updates: int = setting(10_000, "updates after each later round", at_least=0)
    batch: int = setting(256, "examples per update", within=(2, 10**7))
    publish_every: int = setting(
        500, "updates between versions of the weights; the state is saved as often", at_least=1
    )
    buffer: int = setting(20_000, "examples that the train buffer holds", within=(2, 10**9))
    reuse: float = setting(1.0, "times that an example is drawn, on average, before it is replaced", above=0.0)
    keep: int = setting(5, "versions of the weights that stay on disk, at least 2; 0 for all", at_least=0)

    def check_together(self, prefix: str = "") -> None:
        """Check that the buffer holds a batch, and that enough versions stay.

        Raises:
            UserError: If a value is not valid.
        """
        require_order(self, prefix, "batch", "buffer")
        if self.keep == 1:
            # A run that is killed between publishing a version and saving its state continues from the version before.
            raise UserError(
                f"{prefix}keep=1 is not valid; 0 keeps all versions of the weights, else it must be at least 2"
            )


@dataclass
class EvaluatorConfig:
    """Settings of the evaluation of a policy."""

    episodes: int = setting(50, "episodes per task", within=(1, 10**6))
    seed: int = setting(1_000, "seed of the scenes", within=(0, MAX_SEED))
    max_steps: int | None = setting(
        None, "most actions of an episode (default: collector.max_steps)", within=(1, 10_000)
    )
    simple: bool = setting(
        True, "also play constant commands, random actions and scripts, and the policy itself with one action"
    )
    chains: bool = setting(True, "also play whole chains: lift something, then place what was lifted")


@dataclass
class ControllerConfig:
    """Settings of the rounds, and of when a task switches to its own policy."""

    rounds: int = setting(2, "rounds of collection with the learned policies", at_least=0)
    parity_episodes: int = setting(
        20, "attempts that a task's own policy needs before it can replace its helper", at_least=1
    )


@dataclass
class RayConfig:
    """Settings of the workers of `runtime=ray`."""

    address: str = setting("", "address of a cluster, HOST:PORT or auto (default: this machine alone)")
    collectors: int = setting(2, "processes that collect", within=(1, 10_000))
    updaters: int = setting(1, "processes that compute targets", within=(1, 10_000))
    graders: int = setting(1, "processes on the driver's machine that grade the stored episodes", within=(1, 1_024))
    continuous: bool = setting(True, "collect for the next round while this one is graded, trained on and evaluated")
    worker_cpus: float | None = setting(
        None, "CPUs of each collector and updater (default: 1, or an equal share)", within=(0.0, 10_000.0)
    )
    worker_gpus: float | None = setting(
        None,
        "GPUs of each collector and updater that computes on one (default: 1, or an equal share)",
        within=(0.0, 1_000.0),
    )
    cpus: int = setting(0, "CPUs of this machine that Ray may use (0: all)", within=(0, 10_000))
    max_seconds: float = setting(0.0, "stop after this much time (0: never)", at_least=0.0)
    object_store: int = setting(
        256,
        "shared memory, MB; episodes on their way to the store take a third of it, and batches of training as much",
        within=(LEAST_MEMORY, 10**9),
    )
    max_deaths: int = setting(20, "deaths of one worker after which the run fails", at_least=0)


@dataclass
class RunConfig(FolderCommandConfig):
    """`polytask mtopt run`, `collect` and `train`. It holds plain values, so other processes can receive it."""

    preset_folder: ClassVar[str] = "mtopt_preset"

    run_dir: str | None = setting(
        None,
        "folder of episodes, labels, detectors, weights and the run's state (default: runs/<time>-mtopt-seed<seed>)",
        is_path=True,
        is_transient=True,
    )
    runtime: str = setting(
        "local", "local: one process, deterministic; ray: workers side by side (extra: ray)", choices=("local", "ray")
    )
    tasks: list[str] = setting([], "tasks to learn (default: the world's main ones, of the bins twelve)")
    task_slots: int | None = setting(
        None,
        "places for tasks in the networks of a new run (default: those of the world's tasks, and 8 spare ones)",
        within=(1, 10_000),
        is_transient=True,
    )
    seed: int = setting(0, "seed of everything random but the first weights (learner.seed)", within=(0, MAX_SEED))
    device: str = setting("cpu", "torch device that learns: cpu, cuda or cuda:<index>")
    world: WorldConfig = setting(
        WorldConfig, "worlds (world.kind=drawer, world.num_envs=..., world.sim=warp, world.assisted=true)"
    )
    script: ScriptConfig = setting(ScriptConfig, "how scripted policies err (script.noise=...)")
    storage: StoreConfig = setting(StoreConfig, "how episodes are written (storage.fsync=...)")
    collector: CollectorConfig = setting(CollectorConfig, "collection (collector.episodes=...)")
    labels: TeacherConfig = setting(TeacherConfig, "who labels and how much (labels.who=person, labels.per_task=...)")
    detector: DetectorConfig = setting(DetectorConfig, "training of the success detector (detector.updates=...)")
    sharing: SharingConfig = setting(SharingConfig, "whose episodes a task learns from (sharing.strategy=...)")
    replay: ReplayConfig = setting(ReplayConfig, "buffers and balance (replay.capacity=..., replay.success_ratio=...)")
    learner: LearnerConfig = setting(LearnerConfig, "Q-network, CEM and optimizer (learner.network.size=...)")
    updater: UpdaterConfig = setting(UpdaterConfig, "Bellman targets (updater.lower_bound=...)")
    trainer: TrainerConfig = setting(
        TrainerConfig, "training of the Q-network (trainer.updates=..., trainer.batch=...)"
    )
    evaluator: EvaluatorConfig = setting(EvaluatorConfig, "evaluation (evaluator.episodes=...)")
    controller: ControllerConfig = setting(ControllerConfig, "rounds and switching (controller.rounds=...)")
    ray: RayConfig = setting(RayConfig, "workers of runtime=ray (ray.collectors=...)")

    @property
    def learned(self) -> tuple[str, ...]:
        """Return the names of the tasks that are learned."""
        return tuple(self.tasks) or world_spec(self.world.kind).learned

    @property
    def weights(self) -> Path:
        """Return the folder of the published weights."""
        return self.root / "weights"

    @property
    def detectors(self) -> Path:
        """Return the folder of the detectors, which the labelling page uses too."""
        return self.root / "detectors"
