"""The settings of every command except those of MT-Opt. Each command has a dataclass whose fields are its keys.

This module does not import torch or MuJoCo, so that help texts and errors about misspelt keys appear at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from polytask.envs.options import ROBOT_NAMES, EnvOptions, WorldOptions
from polytask.envs.suites import SUITES
from polytask.errors import UserError
from polytask.settings import MAX_SEED, CommandConfig, setting

# Meta-World pins a MuJoCo that is not ours, so it needs an environment of its own. Gymnasium's part for MuJoCo imports
# packaging but does not list it as a dependency.
METAWORLD_PACKAGES = ("metaworld==3.1.1", "packaging")
METAWORLD_HINT = (
    f"python -m venv mw && mw/bin/pip install {' '.join(METAWORLD_PACKAGES)}, then metaworld_python=mw/bin/python"
)


@dataclass
class TrainConfig(EnvOptions, CommandConfig):
    """`polytask train`."""

    preset_folder: ClassVar[str] = "preset"
    renamed: ClassVar[dict[str, str]] = {"experiment": "preset"}

    algo: Any = setting("ppo", "algorithm and its settings (algo.lr=...)", group="algo")
    net: Any = setting("mlp", "network and its settings", group="net")
    critic_net: Any = setting(None, "another network for the critic (default: same as net)", group="net")
    grads: Any = setting("mean", "method that combines the tasks' gradients", group="grads")
    max_frames: int | None = setting(
        10_000_000, "stop after this many control steps, summed over all worlds", at_least=1
    )
    max_iterations: int | None = setting(None, "stop after this many iterations", at_least=1)
    max_minutes: float | None = setting(
        None, "stop after this many minutes of training, not counting evaluations", above=0.0
    )
    run_dir: str | None = setting(
        None,
        "folder of the run (default: runs/<time>-<tasks>-<algo>-<net>-seed<seed>)",
        is_path=True,
        is_transient=True,
    )
    checkpoint: str | None = setting(
        None, "checkpoint file or run directory to continue", is_path=True, is_transient=True
    )
    init_from: str | None = setting(
        None, "checkpoint file or run directory whose networks initialize a new run", is_path=True, is_transient=True
    )
    save_every: int = setting(50, "iterations between checkpoints (0: only at the start and at the end)", at_least=0)
    eval_every: int = setting(0, "iterations between evaluations (0: only at the end)", at_least=0)
    eval_episodes: int = setting(
        20, "episodes without exploration noise per task in an evaluation (0: no evaluation)", at_least=0, at_most=10**5
    )
    success_window: int = setting(
        100, "number of last episodes per task in the reported success rate", at_least=1, at_most=10**6
    )
    video: bool = setting(True, "write a video of the trained policy to the run directory")
    tensorboard: bool = setting(False, "also write TensorBoard events (extra: tensorboard)")
    wandb: bool = setting(
        False, "also log to Weights & Biases, in the mode WANDB_MODE (default: offline; extra: wandb)"
    )

    def check_together(self, prefix: str) -> None:
        """Check that episodes start together if the algorithm needs it."""
        super().check_together(prefix)
        if self.stagger and getattr(self.algo, "needs_whole_episodes", False):
            raise UserError(f"algo={self.algo.name} needs whole episodes, which start together: use stagger=false")


@dataclass
class BenchConfig(TrainConfig):
    """`polytask bench`."""

    what: str = setting(
        "env",
        "sim: physics; env: physics, rewards and resets; train: env and learning; grads: gradient methods",
        choices=("sim", "env", "train", "grads"),
    )
    policy: str | None = setting(
        None,
        "with what=env: whose recorded actions are timed, scripted or random (default: random)",
        choices=("scripted", "random"),
    )
    checkpoint: str | None = setting(
        None,
        "with what=env: checkpoint file or run directory of the policy whose recorded actions are timed",
        is_path=True,
        is_transient=True,
    )
    warmup: int = setting(3, "iterations before the timed ones", at_least=0)
    iterations: int = setting(10, "timed iterations", at_least=1)
    steps: int = setting(32, "control steps per iteration of sim and env; updates per iteration of grads", at_least=1)
    num_tasks: list[int] | None = setting(
        None,
        "with what=grads: time all methods for each of these numbers of tasks (default: [10,50])",
        at_least=1,
        at_most=10_000,
    )

    def check_together(self, prefix: str) -> None:
        """Check that a policy is named only where it acts."""
        super().check_together(prefix)
        if self.checkpoint is not None and self.policy is not None:
            raise UserError(f"name one policy: {prefix}checkpoint=PATH or {prefix}policy={self.policy}, not both")
        if self.what != "env" and (self.checkpoint is not None or self.policy == "scripted"):
            raise UserError(f"a policy acts only with {prefix}what=env; what={self.what} does not use one")


@dataclass
class WarmupConfig(WorldOptions, CommandConfig):
    """`polytask warmup`."""


@dataclass
class SweepConfig(CommandConfig):
    """`polytask sweep`."""

    renamed: ClassVar[dict[str, str]] = {"experiment": "presets", "experiments": "presets", "out": "output"}

    presets: list[str] | None = setting(None, "names or patterns: preset=A,B or preset='mtbench/mt10_rand/*'")
    seeds: int = setting(1, "runs per preset, each with another seed", at_least=1, at_most=10**6)
    first_seed: int = setting(
        0, "seed of the first run of each preset; the next runs add 1, 2, ...", at_least=0, at_most=MAX_SEED
    )
    output: str = setting(
        "runs/sweep",
        "folder of the runs: <output>/<preset>[/<changes>]/seed-<n>",
        is_path=True,
    )
    dry_run: bool = setting(False, "only print the commands of the runs that are not complete")
    changes: list[str] | None = setting(None, "keys of `polytask train` for every run; write them without changes=")

    def check_together(self, prefix: str) -> None:
        """Check that all seeds are valid."""
        if self.first_seed + self.seeds - 1 > MAX_SEED:
            raise UserError(f"{prefix}first_seed={self.first_seed} is too large for {self.seeds} seeds")


@dataclass
class EpisodesConfig(WorldOptions, CommandConfig):
    """The settings of the commands that play a number of episodes."""

    checkpoint: str | None = setting(
        None, "checkpoint file or run directory to evaluate", is_path=True, is_transient=True
    )
    policy: str | None = setting(None, "scripted or random, instead of a checkpoint", choices=("scripted", "random"))
    episodes: int = setting(50, "episodes per task", at_least=1, at_most=10**5)


@dataclass
class EvalConfig(EpisodesConfig):
    """`polytask eval`."""

    env: str = setting(
        "polytask",
        "polytask: our worlds; metaworld: also the original Meta-World, on the same goals",
        choices=("polytask", "metaworld"),
    )
    metaworld_python: str | None = setting(
        None, "with env=metaworld: a Python interpreter that has metaworld", is_path=True
    )
    metaworld_workers: int | None = setting(
        None, "with env=metaworld: processes of Meta-World (default: all cores)", at_least=1, at_most=1_024
    )

    def check_together(self, prefix: str) -> None:
        """Check that there is an interpreter for Meta-World, and no setting of it without it."""
        if self.env == "metaworld" and self.metaworld_python is None:
            raise UserError(f"env=metaworld needs an interpreter that has Meta-World: {METAWORLD_HINT}")
        for name in ("metaworld_python", "metaworld_workers"):
            if self.env != "metaworld" and getattr(self, name) is not None:
                raise UserError(f"{prefix}{name} applies only with {prefix}env=metaworld")


@dataclass
class CollectConfig(EpisodesConfig):
    """`polytask collect`."""

    checkpoint: str | None = setting(
        None, "checkpoint file or run directory whose policy collects", is_path=True, is_transient=True
    )
    output: str | None = setting(None, "folder to write the episodes to", is_path=True)
    num_envs: int | None = setting(
        None,
        "total number of worlds, the same number for each task (default: 16 per task)",
        is_transient=True,
        at_least=1,
        at_most=10**7,
    )
    export: str | None = setting(
        None, "minari: also write Minari data sets to <output>/minari (extra: export)", choices=("minari",)
    )


@dataclass
class RecordConfig(WorldOptions, CommandConfig):
    """`polytask record`."""

    checkpoint: str | None = setting(
        None, "checkpoint file or run directory whose policy to film", is_path=True, is_transient=True
    )
    policy: str | None = setting(None, "scripted or random, instead of a checkpoint", choices=("scripted", "random"))
    task: str | None = setting(None, "task to film (default: all tasks, in a grid)")
    output: str = setting("polytask.mp4", "video to write: a name that ends in .mp4 or .gif", is_path=True)
    width: int = setting(480, "width of the picture of each task, in pixels", at_least=16, at_most=1_280)
    height: int = setting(360, "height of the picture of each task, in pixels", at_least=16, at_most=960)
    frames_per_second: int | None = setting(
        None,
        "control steps per second of the video; fewer than the control rate is slow motion (default: the control rate, "
        "80, in parkour 50)",
        at_least=1,
        at_most=240,
    )


@dataclass
class GalleryConfig(CommandConfig):
    """`polytask gallery`."""

    renamed: ClassVar[dict[str, str]] = {"out": "output"}

    output: str = setting(
        "docs/gallery",
        "folder of the pictures; the page is written to <output>.md",
        is_path=True,
    )
    tasks: list[str] | None = setting(None, "only these tasks (default: those of mt50)")
    robot: str | None = setting(None, "robot (polytask list robots; default: sawyer)", choices=ROBOT_NAMES)
    episodes: int = setting(50, "episodes of the expert per task, each with another goal", at_least=1, at_most=10**6)
    episode_length: int = setting(500, "control steps per episode", at_least=1, at_most=10**6)
    width: int = setting(320, "width of a picture, in pixels", at_least=16, at_most=640)
    height: int = setting(240, "height of a picture, in pixels", at_least=16, at_most=480)
    seed: int = setting(0, "seed of the goals", at_least=0, at_most=MAX_SEED)
    threads: int | None = setting(None, "CPU threads for physics (default: all cores)", at_least=1, at_most=1_024)


@dataclass
class VerifyConfig(CommandConfig):
    """`polytask verify`."""

    oracle: str | None = setting(None, "folder of reference episodes of Meta-World, <task>-v3.npz", is_path=True)
    tasks: list[str] | None = setting(None, "only these tasks (default: all known tasks that have a file)")


@dataclass
class ListConfig(CommandConfig):
    """`polytask list`."""

    kind: str | None = setting(
        None,
        "tasks, suites, algos, nets, grads, robots or presets",
        choices=("tasks", "suites", "algos", "nets", "grads", "robots", "presets"),
    )
    params: bool = setting(False, "with nets: print the number of parameters of each network")
    suite: str | None = setting(
        None,
        "with tasks: only those of a suite; with params=true: suite that the networks are built for (default: mt10)",
        choices=SUITES,
    )


@dataclass
class ReportConfig(CommandConfig):
    """`polytask report`."""

    runs: list[str] | None = setting(None, "run directories, such as [runs/a,runs/b]; seeds of one setting are pooled")
    output: str | None = setting(
        None, "folder to write report.md, .tex, .csv and the figures to (default: print only)", is_path=True
    )
