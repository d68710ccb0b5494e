"""The settings of every command but MT-Opt's: one dataclass each, whose fields are the command's keys.

Nothing here imports torch or MuJoCo, so that `--help` and misspelt keys are answered at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from polytask.envs.options import EnvOptions, WorldOptions
from polytask.envs.suites import SUITES
from polytask.settings import CommandConfig, setting


@dataclass
class TrainConfig(EnvOptions, CommandConfig):
    """`polytask train`."""

    preset_folder: ClassVar[str] = "preset"

    algo: Any = setting("ppo", "algorithm and its settings (algo.lr=...)", group="algo")
    net: Any = setting("mlp", "network and its settings", group="net")
    critic_net: Any = setting(None, "another network for the critic (default: as net)", group="net")
    grads: Any = setting("mean", "how the tasks' gradients are combined", group="grads")
    max_frames: int | None = setting(10_000_000, "stop after this many control steps over all worlds")
    max_iterations: int | None = setting(None, "stop after this many iterations")
    max_minutes: float | None = setting(None, "stop after this much time spent iterating")
    run_dir: str | None = setting(None, "where the run writes (default: runs/<time>-<suite>-<algo>)", is_path=True)
    checkpoint: str | None = setting(None, "checkpoint file or run directory to continue", is_path=True)
    init_from: str | None = setting(
        None, "checkpoint file or run directory whose networks a new run starts with", is_path=True
    )
    save_every: int = setting(50, "iterations between checkpoints (0: only at the end)")
    eval_every: int = setting(0, "iterations between evaluations (0: only at the end)")
    eval_episodes: int = setting(20, "noiseless episodes per task in an evaluation (0: never)")
    success_window: int = setting(100, "episodes per task that the reported success rate looks back on")
    video: bool = setting(True, "write a video of the trained policy to the run directory")
    tensorboard: bool = setting(False, "also write TensorBoard events (extra: tensorboard)")
    wandb: bool = setting(
        False, "also log to Weights & Biases, offline unless WANDB_MODE says otherwise (extra: wandb)"
    )


@dataclass
class BenchConfig(TrainConfig):
    """`polytask bench`."""

    what: str = setting(
        "env",
        "sim: physics; env: with rewards and resets; train: with learning; grads: gradient methods",
        choices=("sim", "env", "train", "grads"),
    )
    warmup: int = setting(3, "iterations before the clock starts")
    iterations: int = setting(10, "timed iterations")
    steps: int = setting(32, "control steps per iteration of sim and env; updates per iteration of grads")
    num_tasks: list[int] | None = setting(
        None, "with grads: numbers of tasks to time all methods for (default: [10,50])"
    )


@dataclass
class SweepConfig(CommandConfig):
    """`polytask sweep`."""

    presets: list[str] | None = setting(None, "names or patterns: preset=A,B or preset='mtbench/mt10_rand/*'")
    seeds: int = setting(1, "runs of every preset")
    first_seed: int = setting(0, "seed of the first of them; the others follow")
    output: str = setting("runs/sweep", "folder of the runs: <output>/<preset>[/<changes>]/seed-<n>", is_path=True)
    dry_run: bool = setting(False, "print the commands of the runs that are not complete, instead of running them")
    changes: list[str] | None = setting(None, "any key of `polytask train`, written as it is there: goes to every run")


@dataclass
class EvalConfig(WorldOptions, CommandConfig):
    """`polytask eval`."""

    checkpoint: str | None = setting(None, "checkpoint file or run directory to evaluate", is_path=True)
    policy: str | None = setting(None, "scripted or random, instead of a checkpoint", choices=("scripted", "random"))
    episodes: int = setting(50, "episodes per task")


@dataclass
class CollectConfig(EvalConfig):
    """`polytask collect`."""

    output: str | None = setting(None, "folder to write the episodes to", is_path=True)
    num_envs: int | None = setting(None, "worlds in all, equally many per task (default: 16 per task)")
    export: str | None = setting(
        None, "minari: also write Minari data sets to <output>/minari (extra: export)", choices=("minari",)
    )


@dataclass
class RecordConfig(WorldOptions, CommandConfig):
    """`polytask record`."""

    checkpoint: str | None = setting(None, "checkpoint file or run directory whose policy to film", is_path=True)
    policy: str | None = setting(None, "scripted or random, instead of a checkpoint", choices=("scripted", "random"))
    task: str | None = setting(None, "the one task to film (default: all tasks in a grid)")
    output: str = setting("polytask.mp4", "video file to write", is_path=True)
    width: int = setting(480, "pixels per task")
    height: int = setting(360, "pixels per task")
    frames_per_second: int = setting(40, "of the video")


@dataclass
class GalleryConfig(CommandConfig):
    """`polytask gallery`."""

    output: str = setting(
        "docs/gallery", "folder of the pictures; the page is written beside it, as <output>.md", is_path=True
    )
    tasks: list[str] | None = setting(None, "only these tasks (default: those of mt50)")
    robot: str | None = setting(None, "robot (polytask list robots; default: sawyer)")
    episodes: int = setting(50, "goals per task that the expert is measured on")
    episode_length: int = setting(500, "control steps per episode")
    width: int = setting(320, "pixels of a picture")
    height: int = setting(240, "pixels of a picture")
    seed: int = setting(0, "seed of the goals")
    threads: int | None = setting(None, "CPU threads for physics (default: all cores)")


@dataclass
class VerifyConfig(CommandConfig):
    """`polytask verify`."""

    oracle: str | None = setting(None, "folder of Meta-World's episodes, <task>-v3.npz", is_path=True)
    tasks: list[str] | None = setting(None, "only these tasks (default: every file of a known task)")


@dataclass
class ListConfig(CommandConfig):
    """`polytask list`."""

    kinds: ClassVar[tuple[str, ...]] = ("tasks", "suites", "algos", "nets", "grads", "robots", "presets")

    kind: str | None = setting(None, "tasks, suites, algos, nets, grads, robots or presets", choices=kinds)
    params: bool = setting(False, "with nets: the parameter count of each")
    suite: str = setting("mt10", "with params: the suite to size the networks for", choices=SUITES)


@dataclass
class ReportConfig(CommandConfig):
    """`polytask report`."""

    runs: list[str] | None = setting(None, "run directories, such as [runs/a,runs/b]; seeds of one setting are pooled")
    output: str | None = setting(
        None, "folder to write report.md, .tex, .csv and the figures to (default: print only)", is_path=True
    )
