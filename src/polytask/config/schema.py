"""The settings of most commands. Each command has a dataclass whose fields are its keys.

`launching.py` has those of `sweep` and `reproduce`, `watching.py` those of `record` and `play`; MT-Opt has its own.

This module does not import torch or MuJoCo, so that help texts and errors about misspelt keys appear at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from polytask.config.history import HistoryKey
from polytask.config.pictures import PictureOptions
from polytask.envs.options import BODIES, ROBOT_NAMES, TILES, EnvOptions, WorldOptions
from polytask.envs.suites import SUITES
from polytask.errors import UserError
from polytask.settings import MAX_SEED, CommandConfig, setting

POLICIES = ("scripted", "random", "pretrained")  # what may act instead of a checkpoint
POLICIES_HELP = "scripted, random or pretrained (comes with polytask, by suite), instead of a checkpoint"

# Meta-World pins a MuJoCo that is not ours, so it needs an environment of its own. Gymnasium's part for MuJoCo imports
# packaging but does not list it as a dependency.
METAWORLD_PACKAGES = ("metaworld==3.1.1", "packaging")
METAWORLD_HINT = (
    f"python -m venv mw && mw/bin/pip install {' '.join(METAWORLD_PACKAGES)}, then metaworld_python=mw/bin/python"
)

REPORT_FIGURES = (  # the table `polytask.runs.report.catalog.FIGURES`, without importing NumPy
    "curves", "minutes", "evaluations", "reward", "bars", "tasks", "difference", "improvement", "critic_size",
    "batch_size", "cosines", "weights",
)  # fmt: skip

BOTH = "both"  # of two choices, one after the other


@dataclass
class TrainConfig(EnvOptions, HistoryKey, CommandConfig):
    """`polytask train`."""

    preset_folder: ClassVar[str] = "preset"
    renamed: ClassVar[dict[str, str]] = {"experiment": "preset"}

    algo: Any = setting("ppo", "algorithm and its settings (algo.lr=...)", group="algo")
    net: Any = setting("mlp", "network and its settings", group="net")
    critic_net: Any = setting(None, "another network for the critic (default: same as net)", group="net")
    grads: Any = setting("mean", "method that combines the tasks' gradients", group="grads")
    max_frames: int | None = setting(
        10_000_000, "stop after this many control steps, summed over all worlds", at_least=1, is_in_frames=True
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
        None,
        "run directory, checkpoint or policy file whose networks initialize a new run, or the name of a suite, whose "
        "policy comes with the package",
        is_path=True,
        is_transient=True,
    )
    init_rows: int = setting(
        10_000,
        "rows per task for which running statistics that init_from brings count at most; a small number lets them "
        "adapt quickly, a large one keeps a policy's inputs as they were",
        within=(1, 10**15),
    )
    demos: str | None = setting(
        None,
        "folder of a data set of `polytask collect`, whose successful episodes are imitated in tasks that fail; needs "
        "algo.imitation_coef (algo=ppo, algo=grpo)",
        is_path=True,
        is_transient=True,
    )
    save_every: int = setting(50, "iterations between checkpoints (0: only at the start and at the end)", at_least=0)
    save_minutes: float = setting(
        10.0,
        "also write a checkpoint when the last one is this many minutes of training old (inf: do not)",
        above=0.0,
        at_most=math.inf,
    )
    eval_every: int = setting(0, "iterations between evaluations (0: only at the end)", at_least=0)
    eval_episodes: int = setting(
        20, "episodes without exploration noise per task in an evaluation (0: no evaluation)", within=(0, 10**5)
    )
    success_window: int = setting(
        100, "number of last episodes per task in the reported success rate", within=(1, 10**6)
    )
    video: bool = setting(True, "write a video of the trained policy to the run directory; a very short run has none")
    video_every: int = setting(
        0,
        "iterations between films of the policy, to <run>/videos, TensorBoard and Weights & Biases (0: none)",
        at_least=0,
    )
    tensorboard: bool = setting(False, "also write TensorBoard events (extra: tensorboard)")
    wandb: bool = setting(
        False, "also log to Weights & Biases, in the mode WANDB_MODE (default: offline; extra: wandb)"
    )
    wandb_project: str = setting("polytask", "Weights & Biases: project of the run")
    wandb_entity: str | None = setting(None, "Weights & Biases: user or team of the project (default: yours)")
    wandb_group: str | None = setting(None, "Weights & Biases: group of the run, such as the name of a sweep")
    wandb_name: str | None = setting(None, "Weights & Biases: name of the run (default: that of its folder)")

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
        "with what=env: whose recorded actions are timed, scripted, random or pretrained (default: random)",
        choices=POLICIES,
    )
    checkpoint: str | None = setting(
        None,
        "with what=env: run directory, checkpoint or policy file whose recorded actions are timed",
        is_path=True,
        is_transient=True,
    )
    demos: str | None = setting(
        None, "as in training; not read, because it makes no difference to the speed", is_path=True, is_transient=True
    )
    warmup: int = setting(3, "iterations before the timed ones", at_least=0)
    iterations: int = setting(10, "timed iterations", at_least=1)
    steps: int = setting(32, "control steps per iteration of sim and env; updates per iteration of grads", at_least=1)
    num_tasks: list[int] | None = setting(
        None,
        "with what=grads: time all methods for each of these numbers of tasks (default: [10,50])",
        within=(1, 10_000),
    )

    def check_together(self, prefix: str) -> None:
        """Check that a policy is named only where it acts."""
        super().check_together(prefix)
        if self.checkpoint is not None and self.policy is not None:
            raise UserError(f"name one policy: {prefix}checkpoint=PATH or {prefix}policy={self.policy}, not both")
        if self.what != "env" and (self.checkpoint is not None or self.policy not in (None, "random")):
            raise UserError(f"a policy acts only with {prefix}what=env; what={self.what} does not use one")
        if self.what != "train" and self.init_from is not None:
            raise UserError(f"{prefix}init_from needs {prefix}what=train; what={self.what} trains no networks")


@dataclass
class WarmupConfig(WorldOptions, CommandConfig):
    """`polytask warmup`."""


@dataclass
class PolicyConfig(WorldOptions, CommandConfig):
    """The settings of the commands in which a policy acts."""

    checkpoint: str | None = setting(None, "run directory, checkpoint or policy file", is_path=True, is_transient=True)
    policy: str | None = setting(None, POLICIES_HELP, choices=POLICIES)


@dataclass
class EpisodesConfig(PolicyConfig):
    """The settings of the commands that play a number of episodes."""

    checkpoint: str | None = setting(
        None, "run directory, checkpoint or policy file to evaluate", is_path=True, is_transient=True
    )
    episodes: int = setting(50, "episodes per task", within=(1, 10**5))


@dataclass
class EvalConfig(EpisodesConfig):
    """`polytask eval`."""

    tiles: str | None = setting(
        None,
        "parkour: trained tiles (default), held_out ones of the same difficulties and another seed, or both",
        choices=(*TILES, BOTH),
    )
    body: str | None = setting(
        None,
        "parkour: robots with randomized (default) load, centre of mass, friction and motors, the nominal one, or both",
        choices=(*BODIES, BOTH),
    )
    explore: bool = setting(
        False,
        "act with the policy's exploration noise, drawn anew in every step by the checkpoint's generator, whatever "
        "`seed` is: not correlated, and with FastTD3 of the mean size in all worlds (default: without noise)",
    )
    env: str = setting(
        "polytask",
        "polytask: our worlds; metaworld: also the original Meta-World, on the same goals",
        choices=("polytask", "metaworld"),
    )
    metaworld_python: str | None = setting(
        None, "with env=metaworld: a Python interpreter that has metaworld", is_path=True
    )
    metaworld_workers: int | None = setting(
        None, "with env=metaworld: processes of Meta-World (default: all cores)", within=(1, 1_024)
    )

    def check_together(self, prefix: str) -> None:
        """Check that there is an interpreter for Meta-World, and no setting of it without it."""
        if self.env == "metaworld" and self.metaworld_python is None:
            raise UserError(f"env=metaworld needs an interpreter that has Meta-World: {METAWORLD_HINT}")
        for name in ("metaworld_python", "metaworld_workers"):
            if self.env != "metaworld" and getattr(self, name) is not None:
                raise UserError(f"{prefix}{name} applies only with {prefix}env=metaworld")


@dataclass
class CollectConfig(EpisodesConfig, PictureOptions):
    """`polytask collect`."""

    checkpoint: str | None = setting(
        None, "run directory, checkpoint or policy file whose policy collects", is_path=True, is_transient=True
    )
    output: str | None = setting(None, "folder to write the episodes to", is_path=True)
    num_envs: int | None = setting(
        None,
        "total number of worlds, the same number for each task (default: 16 per task)",
        is_transient=True,
        within=(1, 10**7),
    )


@dataclass
class ExportPolicyConfig(CommandConfig):
    """`polytask export`."""

    renamed: ClassVar[dict[str, str]] = {"out": "output"}

    checkpoint: str | None = setting(
        None, "run, checkpoint, policy file, or suite of a pretrained policy to export", is_path=True, is_transient=True
    )
    to: str = setting(
        "safetensors",
        "safetensors (for polytask.load_policy), onnx (for onnxruntime; extra: export), torch (for torch.export.load)",
        choices=("safetensors", "onnx", "torch"),
    )
    output: str | None = setting(
        None, "file to write (default: policy.safetensors, .onnx or .pt2 in this folder)", is_path=True
    )
    half: bool = setting(False, "with to=safetensors: store the weights in half precision")
    tolerance: float | None = setting(
        None,
        "largest difference of an action from the original, of -1 to 1 (default: 1e-4; 0.05 with half=true)",
        within=(0.0, 2.0),
    )
    card: bool = setting(
        False, "with to=safetensors: evaluate the file and write <output>.json: run, command, success per task, licence"
    )
    episodes: int = setting(50, "with card=true: episodes per task", within=(1, 10**5))
    device: str = setting("cpu", "with card=true: torch device of the evaluation: cpu, cuda or cuda:<index>")

    def check_together(self, prefix: str) -> None:
        """Check that the format has what is asked for."""
        for name in ("half", "card"):
            if getattr(self, name) and self.to != "safetensors":
                raise UserError(f"{prefix}{name}=true applies only to {prefix}to=safetensors")


@dataclass
class GalleryConfig(CommandConfig):
    """`polytask gallery`."""

    renamed: ClassVar[dict[str, str]] = {"out": "output"}

    output: str = setting("docs/gallery", "folder of the pictures; the page is written to <output>.md", is_path=True)
    tasks: list[str] | None = setting(None, "only these tasks (default: those of mt50)")
    robot: str | None = setting(None, "robot (polytask list robots; default: sawyer)", choices=ROBOT_NAMES)
    episodes: int = setting(50, "episodes of the expert per task, each with another goal", within=(1, 10**6))
    episode_length: int = setting(500, "control steps per episode", within=(1, 10**6))
    width: int = setting(320, "width of a picture, in pixels", within=(16, 640))
    height: int = setting(240, "height of a picture, in pixels", within=(16, 480))
    seed: int = setting(0, "seed of the goals", within=(0, MAX_SEED))
    threads: int | None = setting(None, "CPU threads for physics (default: all cores)", within=(1, 1_024))


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
        "tasks, suites, algos, nets, grads, robots, presets, policies or plugins",
        choices=("tasks", "suites", "algos", "nets", "grads", "robots", "presets", "policies", "plugins"),
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

    runs: list[str] | None = setting(
        None,
        "folders of runs, folders that contain runs, or patterns, such as [runs/sweep,'runs/2026-*']",
        is_path=True,
    )
    output: str | None = setting(
        None, "folder to write the tables, the figures and the page index.html to (default: print only)", is_path=True
    )
    figures: list[str] | None = setting(
        None, "with output: the figures to draw (default: all that the runs have numbers for)", choices=REPORT_FIGURES
    )
    baseline: str | None = setting(None, "name of the setting that `difference` and `improvement` compare with")
    band: str = setting(
        "range", "band of curves: range (lowest to highest seed) or interval (95 %)", choices=("range", "interval")
    )
    paper: bool = setting(False, "put the published figures of presets beside ours")

    def check_together(self, prefix: str) -> None:
        """Check that figures have a folder."""
        if self.figures is not None and self.output is None:
            raise UserError(f"{prefix}figures need {prefix}output=FOLDER, where they are written")
