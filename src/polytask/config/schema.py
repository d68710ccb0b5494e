"""The settings of every command except those of MT-Opt. Each command has a dataclass whose fields are its keys.

This module does not import torch or MuJoCo, so that help texts and errors about misspelt keys appear at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from polytask.envs.options import ROBOT_NAMES, EnvOptions, WorldOptions
from polytask.envs.suites import SUITES
from polytask.settings import CommandConfig, setting


@dataclass
class TrainConfig(EnvOptions, CommandConfig):
    """`polytask train`."""

    preset_folder: ClassVar[str] = "preset"
    renamed: ClassVar[dict[str, str]] = {"experiment": "preset"}

    algo: Any = setting("ppo", "algorithm and its settings (algo.lr=...)", group="algo")
    net: Any = setting("mlp", "network and its settings", group="net")
    critic_net: Any = setting(None, "another network for the critic (default: same as net)", group="net")
    grads: Any = setting("mean", "method that combines the tasks' gradients", group="grads")
    max_frames: int | None = setting(10_000_000, "stop after this many control steps, summed over all worlds")
    max_iterations: int | None = setting(None, "stop after this many iterations")
    max_minutes: float | None = setting(None, "stop after this many minutes of training, not counting evaluations")
    run_dir: str | None = setting(
        None, "folder of the run (default: runs/<time>-<suite>-<algo>)", is_path=True, is_transient=True
    )
    checkpoint: str | None = setting(
        None, "checkpoint file or run directory to continue", is_path=True, is_transient=True
    )
    init_from: str | None = setting(
        None, "checkpoint file or run directory whose networks initialize a new run", is_path=True, is_transient=True
    )
    save_every: int = setting(50, "iterations between checkpoints (0: only at the end)")
    eval_every: int = setting(0, "iterations between evaluations (0: only at the end)")
    eval_episodes: int = setting(20, "episodes without exploration noise per task in an evaluation (0: no evaluation)")
    success_window: int = setting(100, "number of last episodes per task in the reported success rate")
    video: bool = setting(True, "write a video of the trained policy to the run directory")
    tensorboard: bool = setting(False, "also write TensorBoard events (extra: tensorboard)")
    wandb: bool = setting(
        False, "also log to Weights & Biases, in the mode WANDB_MODE (default: offline; extra: wandb)"
    )


@dataclass
class BenchConfig(TrainConfig):
    """`polytask bench`."""

    what: str = setting(
        "env",
        "sim: physics; env: physics, rewards and resets; train: env and learning; grads: gradient methods",
        choices=("sim", "env", "train", "grads"),
    )
    warmup: int = setting(3, "iterations before the timed ones")
    iterations: int = setting(10, "timed iterations")
    steps: int = setting(32, "control steps per iteration of sim and env; updates per iteration of grads")
    num_tasks: list[int] | None = setting(
        None, "with what=grads: time all methods for each of these numbers of tasks (default: [10,50])"
    )


@dataclass
class SweepConfig(CommandConfig):
    """`polytask sweep`."""

    renamed: ClassVar[dict[str, str]] = {"experiment": "presets", "experiments": "presets", "out": "output"}

    presets: list[str] | None = setting(None, "names or patterns: preset=A,B or preset='mtbench/mt10_rand/*'")
    seeds: int = setting(1, "runs per preset, each with another seed")
    first_seed: int = setting(0, "seed of the first run of each preset; the next runs add 1, 2, ...")
    output: str = setting(
        "runs/sweep",
        "folder of the runs: <output>/<preset>[/<changes>]/seed-<n>",
        is_path=True,
    )
    dry_run: bool = setting(False, "only print the commands of the runs that are not complete")
    changes: list[str] | None = setting(None, "keys of `polytask train` for every run; write them without changes=")


@dataclass
class EvalConfig(WorldOptions, CommandConfig):
    """`polytask eval`."""

    checkpoint: str | None = setting(
        None, "checkpoint file or run directory to evaluate", is_path=True, is_transient=True
    )
    policy: str | None = setting(None, "scripted or random, instead of a checkpoint", choices=("scripted", "random"))
    episodes: int = setting(50, "episodes per task")


@dataclass
class CollectConfig(EvalConfig):
    """`polytask collect`."""

    checkpoint: str | None = setting(
        None, "checkpoint file or run directory whose policy collects", is_path=True, is_transient=True
    )
    output: str | None = setting(None, "folder to write the episodes to", is_path=True)
    num_envs: int | None = setting(
        None, "total number of worlds, the same number for each task (default: 16 per task)", is_transient=True
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
    output: str = setting("polytask.mp4", "video file to write", is_path=True)
    width: int = setting(480, "width of the picture of each task, in pixels")
    height: int = setting(360, "height of the picture of each task, in pixels")
    frames_per_second: int = setting(40, "frames per second of the video")


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
    episodes: int = setting(50, "episodes of the expert per task, each with another goal")
    episode_length: int = setting(500, "control steps per episode")
    width: int = setting(320, "width of a picture, in pixels")
    height: int = setting(240, "height of a picture, in pixels")
    seed: int = setting(0, "seed of the goals")
    threads: int | None = setting(None, "CPU threads for physics (default: all cores)")


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
    suite: str = setting("mt10", "with params=true: suite that the networks are built for", choices=SUITES)


@dataclass
class ReportConfig(CommandConfig):
    """`polytask report`."""

    runs: list[str] | None = setting(None, "run directories, such as [runs/a,runs/b]; seeds of one setting are pooled")
    output: str | None = setting(
        None, "folder to write report.md, .tex, .csv and the figures to (default: print only)", is_path=True
    )
