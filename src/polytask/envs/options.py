"""The options of an environment: one list for `polytask.make` and for every command."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from polytask.envs.suites import LEVELS, SUITE_LEVELS, SUITES
from polytask.errors import UserError
from polytask.settings import MAX_SEED, require_order, setting

TILES, BODIES = ("trained", "held_out"), ("randomized", "nominal")  # of parkour
PRIVILEGED = ("all", "critic", "none")
REWARDS = ("dense", "shaped", "sparse")
ROBOT_NAMES = ["sawyer", "panda", "go1", "go1_real"]  # the table `polytask.robots.ROBOTS`, without importing torch


@dataclass
class CurriculumOptions:
    """Options of the parkour curriculum."""

    revisit: float = setting(
        0.0,
        "with levels=curriculum: share of episodes on a random easier level, which do not move a world's level",
        at_least=0.0,
        below=1.0,
    )


@dataclass
class ScanOptions:
    """Options of the height scan of parkour; the defaults are the benchmark's."""

    every: int = setting(5, "parkour: control steps from one height scan to the next", within=(1, 1_000))
    spacing: float = setting(
        0.15, "parkour: metres between the 12 x 11 points of the scan; less shows more of a smaller area", above=0.0
    )
    feet: bool = setting(
        False, "parkour: also show, in every control step, the ground at 3 x 3 points around each foot, 5 cm apart"
    )


@dataclass
class TuningOptions:
    """What a parkour run may add to the benchmark's training; evaluations are without."""

    waypoint_bonus: float = setting(0.0, "parkour: reward for each waypoint", at_least=0.0)
    pays_standing: bool = setting(
        True, "parkour: pay for facing the waypoint also without moving; else in proportion to the speed towards it"
    )
    edge_penalty: float = setting(
        0.0, "parkour: weight per second of each foot that stands above an edge, within 5 cm of it", at_least=0.0
    )
    stall_seconds: float = setting(
        0.0,
        "parkour: end an episode this long after its last waypoint, as `terminated`, but not as a fall (0: do not)",
        at_least=0.0,
    )
    mirror: bool = setting(False, "parkour: half of the episodes are seen in a mirror that swaps left and right")


@dataclass
class RealityOptions:
    """What makes robot=go1_real real: every episode has another robot, with errors and pushes.

    Numbers are drawn evenly between plus and minus the value, or from zero to it.
    """

    load: float = setting(3.0, "go1_real: most kilograms that the trunk carries", within=(0.0, 20.0))
    shift: float = setting(
        0.025, "go1_real: most metres by which the trunk's centre of mass is off along each axis", within=(0.0, 0.2)
    )
    motors: float = setting(
        0.1, "go1_real: share by which stiffness and damping of each motor differ", at_least=0.0, below=1.0
    )
    joint_friction: float = setting(
        0.5, "go1_real: share by which the friction of each joint differs", at_least=0.0, below=1.0
    )
    min_friction: float = setting(0.4, "go1_real: least friction of the feet on the ground", above=0.0, at_most=10.0)
    max_friction: float = setting(1.25, "go1_real: most friction of the feet on the ground", above=0.0, at_most=10.0)

    delay: float = setting(
        20.0, "go1_real: most milliseconds until motors follow a new target, in steps of 5", within=(0.0, 20.0)
    )
    encoder_bias: float = setting(
        0.015, "go1_real: error of each joint angle that stays for an episode, rad", within=(0.0, 1.0)
    )
    imu_tilt: float = setting(
        0.02, "go1_real: rotation of the IMU against the trunk about each axis, rad", within=(0.0, 0.5)
    )
    spin_noise: float = setting(0.2, "go1_real: error of the angular velocity, rad/s", within=(0.0, 100.0))
    tilt_noise: float = setting(0.05, "go1_real: error of roll and pitch, rad", within=(0.0, 3.0))
    heading_noise: float = setting(0.05, "go1_real: error of the bearing of waypoints, rad", within=(0.0, 3.0))
    joint_noise: float = setting(0.01, "go1_real: error of joint angles, rad", within=(0.0, 3.0))
    speed_noise: float = setting(1.5, "go1_real: error of joint speeds, rad/s", within=(0.0, 100.0))
    scan_noise: float = setting(0.1, "go1_real: error of the height scan, m", within=(0.0, 2.0))
    push: float = setting(0.5, "go1_real: most speed that a push adds along x and y, m/s", within=(0.0, 10.0))
    min_push_pause: float = setting(1.0, "go1_real: least seconds between pushes", within=(0.02, 10**6))
    max_push_pause: float = setting(3.0, "go1_real: most seconds between pushes", within=(0.02, 10**6))
    history: int = setting(
        3, "go1_real: earlier control steps in the observation, of joints, trunk and actions", within=(0, 100)
    )

    def check_together(self, prefix: str) -> None:
        """Check the order of bounds."""
        require_order(self, prefix, "min_friction", "max_friction")
        require_order(self, prefix, "min_push_pause", "max_push_pause")


@dataclass
class WorldOptions:
    """Options of the worlds: tasks, robot, physics and episodes."""

    suite: str = setting("mt10", "task suite (polytask list suites)", choices=SUITES)
    tasks: list[str] | None = setting(None, "task names such as [reach,push], instead of a suite", min_length=1)
    robot: str | None = setting(
        None, "robot (polytask list robots; default: sawyer, in parkour go1)", choices=ROBOT_NAMES
    )
    sim: Any = setting("auto", "physics backend: auto (warp on cuda, else cpu), cpu or warp", group="sim")
    device: str = setting("cpu", "torch device: cpu, cuda or cuda:<index>")
    episode_length: int | None = setting(
        None, "control steps per episode (default: 150; parkour 2000; Meta-World: 500)", within=(1, 10**6)
    )
    reward: str = setting(
        "dense",
        "dense (Meta-World's), shaped (manipulation: stages, one rule for all tasks) or sparse (1 on success, else 0)",
        choices=REWARDS,
    )
    reward_scale: float | None = setting(
        None,
        "manipulation: factor of the reward of steps without success (default: 1); 0.01 makes the dense reward almost "
        "sparse, as in MTBench's FastTD3",
        at_least=0.0,
    )
    termination_on_success: bool | None = setting(
        None, "manipulation: a success ends the episode, as a true end (default: false: episodes go on to their end)"
    )
    goals: str | None = setting(
        None,
        "manipulation goals: random (default; new in every episode) or fixed (drawn once per world)",
        choices=("random", "fixed"),
    )
    levels: str | None = setting(
        None, "parkour terrain: flat, easy, hard or curriculum (default: the suite's, else hard)", choices=LEVELS
    )
    level: int | None = setting(
        None, "parkour: all worlds on this level, 0 to 9 (default: spread over all levels)", within=(0, 9)
    )
    tiles: str | None = setting(
        None,
        "parkour: trained tiles (default), or held_out ones, which have the same difficulties and another seed",
        choices=TILES,
    )
    body: str | None = setting(
        None,
        "parkour: robots with randomized (default) load, centre of mass, friction and motors, or the nominal one",
        choices=BODIES,
    )
    privileged: str | None = setting(
        None,
        "parkour: who sees what a robot cannot measure, such as its velocity: all (default), critic (the policy sees "
        "what a robot measures; algo=ppo), or none",
        choices=PRIVILEGED,
    )
    curriculum: CurriculumOptions = setting(CurriculumOptions, "settings of the parkour curriculum")
    scan: ScanOptions = setting(ScanOptions, "settings of the height scan of parkour")
    tuning: TuningOptions = setting(TuningOptions, "what a parkour run adds to the benchmark's training")
    reality: RealityOptions = setting(RealityOptions, "what makes robot=go1_real real")
    seed: int = setting(0, "seed of all random numbers", within=(0, MAX_SEED))
    threads: int | None = setting(None, "CPU threads for physics and torch (default: all cores)", within=(1, 1_024))

    @property
    def task_names(self) -> tuple[str, ...]:
        """Names of the tasks."""
        return tuple(SUITES[self.suite] if self.tasks is None else self.tasks)

    @property
    def chosen_levels(self) -> str | None:
        """Parkour terrain: `levels` if given, else that of the suite; None for tasks outside a parkour suite."""
        return self.levels or (SUITE_LEVELS.get(self.suite) if self.tasks is None else None)


@dataclass
class EnvOptions(WorldOptions):
    """Options of the worlds, their number, and the start of their first episodes."""

    num_envs: int | None = setting(
        None,
        "total number of worlds, spread over the tasks (default: 16 per task in commands, 1 per task in polytask.make)",
        within=(1, 10**7),
    )
    envs_per_task: list[int] | None = setting(
        None, "worlds per task, such as [512,256], instead of num_envs", within=(1, 10**7)
    )
    stagger: bool | None = setting(
        None,
        "start at random steps of the first episode, so that episodes do not all end at once (default: true; "
        "false for algo=grpo, which needs whole episodes)",
    )
    exempted_tasks: list[str] | None = setting(
        None, "tasks whose first episodes start at their first step, despite stagger (default: none)", min_length=1
    )

    def check_together(self, prefix: str) -> None:
        """Check that the number of worlds is given once."""
        if self.num_envs is not None and self.envs_per_task is not None:
            line = f"{prefix}num_envs and {prefix}envs_per_task both give the number of worlds; give only one of them"
            raise UserError(line)
