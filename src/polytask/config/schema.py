"""The configuration of every command, and the one place that fills Hydra's ConfigStore from the tables.

A command's keys are the fields of its dataclass; a field's default and its help line stand here and nowhere else.
Group fields (`suite`, `robot`, `sim`, `algo`, `net`, `critic_net`, `grads`) hold the config dataclass of the chosen
table entry, extended by its `name`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, make_dataclass
from functools import cache
from typing import Any

from hydra.core.config_store import ConfigStore

from polytask.mtopt.config.keys import EvalKeys, LabelKeys, RelabelKeys, RunKeys, StatusKeys


def key(default: Any, text: str) -> Any:
    """Declare a field with a default and the line that `--help` prints for it."""
    return field(default=default, metadata={"help": text})


@dataclass
class CommonConfig:
    """What every command that builds an environment needs."""

    suite: Any = key(None, "task suite (polytask list suites)")
    tasks: list[str] | None = key(None, "task names such as [reach,push], instead of a suite")
    robot: Any = key(None, "robot (polytask list robots)")
    sim: Any = key(None, "physics backend: auto (warp on cuda, else cpu), cpu or warp")
    device: str = key("cpu", "torch device: cpu, cuda or cuda:<index>")
    episode_length: int | None = key(None, "control steps per episode (default: 150; parkour 2000; Meta-World: 500)")
    reward: str = key("dense", "dense or sparse")
    goals: str = key("random", "random: new every episode; fixed: drawn once per world")
    levels: str | None = key(None, "parkour terrain: flat, easy, hard or curriculum (default: the suite's, else hard)")
    seed: int = key(0, "seed of everything random")
    threads: int | None = key(None, "CPU threads for physics and torch (default: all cores)")
    format: str = key("table", "table or json (one object on stdout)")


@dataclass
class TrainConfig(CommonConfig):
    """`polytask train`."""

    num_envs: int | None = key(None, "worlds in all, spread over the tasks (default: 16 per task)")
    envs_per_task: list[int] | None = key(None, "worlds of each task, such as [512,256], instead of num_envs")
    stagger: bool = key(True, "start episodes at different steps, so that they do not end in lock-step")
    algo: Any = key(None, "algorithm and its settings (algo.lr=...)")
    net: Any = key(None, "network and its settings")
    critic_net: Any = key(None, "another network for the critic (default: as net)")
    grads: Any = key(None, "how per-task gradients are combined")
    max_frames: int | None = key(10_000_000, "stop after this many control steps over all worlds")
    max_iterations: int | None = key(None, "stop after this many iterations")
    max_minutes: float | None = key(None, "stop after this much time spent iterating")
    run_dir: str | None = key(None, "where the run writes (default: runs/<time>-<suite>-<algo>)")
    checkpoint: str | None = key(None, "checkpoint file or run directory to continue")
    init_from: str | None = key(None, "checkpoint file or run directory whose networks a new run starts with")
    save_every: int = key(50, "iterations between checkpoints (0: only at the end)")
    eval_every: int = key(0, "iterations between evaluations (0: only at the end)")
    eval_episodes: int = key(20, "noiseless episodes per task in an evaluation (0: never)")
    success_window: int = key(100, "episodes per task that the reported success rate looks back on")
    video: bool = key(True, "leave a video of the trained policy in the run directory")
    tensorboard: bool = key(False, "also write TensorBoard events (extra: tensorboard)")
    wandb: bool = key(False, "also log to Weights & Biases, offline unless WANDB_MODE says otherwise (extra: wandb)")


@dataclass
class SweepConfig:
    """`polytask sweep`."""

    experiments: list[str] | None = key(None, "presets or patterns: experiment=A,B or experiment='mtbench/mt10_rand/*'")
    seeds: int = key(1, "runs of every preset")
    first_seed: int = key(0, "seed of the first of them; the others follow")
    out: str = key("runs/sweep", "folder of the runs: <out>/<preset>[/<changes>]/seed-<n>")
    dry_run: bool = key(False, "print the commands of the runs that are not complete, instead of running them")
    changes: list[str] | None = key(None, "any key of `polytask train` goes to every run, written as it is there")
    format: str = key("table", "table or json (one object on stdout)")


@dataclass
class EvalConfig(CommonConfig):
    """`polytask eval`."""

    checkpoint: str | None = key(None, "checkpoint file or run directory to evaluate")
    policy: str | None = key(None, "scripted or random, instead of a checkpoint")
    episodes: int = key(50, "episodes per task")


@dataclass
class BenchConfig(TrainConfig):
    """`polytask bench`."""

    what: str = key("env", "sim: physics; env: with rewards and resets; train: with learning; grads: gradient methods")
    warmup: int = key(3, "iterations before the clock starts (an iteration of sim and env: one episode at most)")
    iterations: int = key(10, "timed iterations")
    steps: int = key(32, "control steps per iteration of sim and env; updates per iteration of grads")
    num_tasks: list[int] | None = key(None, "with grads: numbers of tasks to time all methods for (default: [10,50])")


@dataclass
class RecordConfig(CommonConfig):
    """`polytask record`."""

    checkpoint: str | None = key(None, "checkpoint file or run directory whose policy to film")
    policy: str | None = key(None, "scripted or random, instead of a checkpoint")
    task: str | None = key(None, "the one task to film (default: all tasks in a grid)")
    output: str = key("polytask.mp4", "video file to write")
    width: int = key(480, "pixels per task")
    height: int = key(360, "pixels per task")
    frames_per_second: int = key(40, "of the video")


@dataclass
class CollectConfig(EvalConfig):
    """`polytask collect`."""

    out: str | None = key(None, "folder to write the episodes to")
    worlds: int = key(16, "worlds per task that play at once; a shard holds one episode of each")
    export: str | None = key(None, "minari: also write Minari datasets to <out>/minari (extra: export)")


@dataclass
class GalleryConfig:
    """`polytask gallery`."""

    out: str = key("docs/gallery", "folder of the pictures; the page is written beside it, as <out>.md")
    tasks: list[str] | None = key(None, "only these tasks (default: those of mt50)")
    robot: Any = key(None, "robot (polytask list robots)")
    episodes: int = key(50, "goals per task that the expert is measured on")
    episode_length: int = key(500, "control steps per episode")
    width: int = key(320, "pixels of a picture")
    height: int = key(240, "pixels of a picture")
    seed: int = key(0, "seed of the goals")
    threads: int | None = key(None, "CPU threads for physics (default: all cores)")
    format: str = key("table", "table or json (one object on stdout)")


@dataclass
class VerifyConfig:
    """`polytask verify`."""

    oracle: str | None = key(None, "folder of recorded episodes, <task>-v3.npz")
    tasks: list[str] | None = key(None, "only these tasks (default: every file of a known task)")
    format: str = key("table", "table or json (one object on stdout)")


@dataclass
class ListConfig:
    """`polytask list`."""

    kind: str | None = key(None, "tasks, suites, algos, nets, grads, robots or presets")
    params: bool = key(False, "with nets: the parameter count of each")
    suite: Any = key(None, "with params: the suite to size the networks for")
    format: str = key("table", "table or json (one object on stdout)")


@dataclass
class ReportConfig:
    """`polytask report`."""

    runs: list[str] | None = key(None, "run directories, such as [runs/a,runs/b]; seeds of one setting are pooled")
    output: str | None = key(None, "folder to write report.md, .tex, .csv and the figures to (default: print only)")
    format: str = key("table", "table or json (one object on stdout)")


SCHEMAS: dict[str, type[Any]] = {
    "train": TrainConfig,
    "sweep": SweepConfig,
    "eval": EvalConfig,
    "list": ListConfig,
    "bench": BenchConfig,
    "record": RecordConfig,
    "collect": CollectConfig,
    "verify": VerifyConfig,
    "report": ReportConfig,
    "gallery": GalleryConfig,
    "mtopt collect": RunKeys,
    "mtopt train": RunKeys,
    "mtopt run": RunKeys,
    "mtopt eval": EvalKeys,
    "mtopt relabel": RelabelKeys,
    "mtopt status": StatusKeys,
    "label": LabelKeys,
}

# What each group holds unless told otherwise. None: nothing.
DEFAULTS: dict[str, str | None] = {
    "suite": "mt10",
    "robot": "sawyer",
    "sim": "auto",
    "algo": "ppo",
    "net": "mlp",
    "critic_net": None,
    "grads": "mean",
}

# The group that a command's presets lie in: files in the folder of this name.
PRESET_GROUPS: dict[type[Any], str] = {TrainConfig: "experiment", RunKeys: "preset"}

# The values that a plain string key takes; `train.py` and friends need not check them again.
CHOICES: dict[str, tuple[str, ...]] = {
    "reward": ("dense", "sparse"),
    "goals": ("random", "fixed"),
    "levels": ("flat", "easy", "hard", "curriculum"),
    "format": ("table", "json"),
    "policy": ("scripted", "random"),
    "what": ("sim", "env", "train", "grads"),
    "export": ("minari",),
    "kind": ("tasks", "suites", "algos", "nets", "grads", "robots", "presets"),
    "runtime": ("local", "ray"),
}

# Keys whose value is a path: quoted before Hydra's grammar sees them, so that any file name works.
PATHS = ("run_dir", "checkpoint", "init_from", "output", "out", "oracle", "store", "detectors")


@dataclass
class Choice:
    """A group option without settings: its name says it all."""


def names_of(command: str) -> list[str]:
    """Name the keys that a command takes."""
    return [each.name for each in fields(SCHEMAS[command])]


def groups_of(command: str) -> list[str]:
    """Name the groups that a command has."""
    return [group for group in DEFAULTS if group in names_of(command)]


def preset_group(command: str) -> str | None:
    """Name the group of a command's presets; None where it has none."""
    return next((group for base, group in PRESET_GROUPS.items() if issubclass(SCHEMAS[command], base)), None)


def entry_of(command: str) -> str:
    """Name a command's entry in the ConfigStore."""
    return command.replace(" ", "_")


@cache
def register_parts(command: str) -> None:
    """Give the parts of an MT-Opt command their dataclasses, which no other command has to import."""
    schema = SCHEMAS[command]
    if schema in (RunKeys, LabelKeys):
        from polytask.mtopt.config.label import LabelConfig
        from polytask.mtopt.config.run import RunConfig

        typed = RunConfig if schema is RunKeys else LabelConfig
        ConfigStore.instance().store(name=f"{entry_of(command)}_schema", node=typed)


@cache
def register() -> dict[str, list[str]]:
    """Walk the tables once, fill the ConfigStore, and return the option names of every group."""
    from polytask.algos import ALGOS
    from polytask.envs.tasks import SUITES
    from polytask.grads import GRADS
    from polytask.nets import NETS
    from polytask.robots import ROBOTS
    from polytask.sim import SimConfig

    nets = {name: config for name, (config, _) in NETS.items()}
    groups: dict[str, dict[str, type]] = {
        "suite": dict.fromkeys(SUITES, Choice),
        "robot": dict.fromkeys(ROBOTS, Choice),
        "sim": {"auto": SimConfig, "cpu": Choice, "warp": SimConfig},
        "algo": {name: config for name, (config, _) in ALGOS.items()},
        "net": nets,
        "critic_net": nets,
        "grads": {name: config for name, (config, _) in GRADS.items()},
    }
    store = ConfigStore.instance()
    for group, options in groups.items():
        for name, config in options.items():
            named = make_dataclass(config.__name__, [("name", str, field(default=name))], bases=(config,))
            store.store(group=group, name=name, node=named)
    for command, schema in SCHEMAS.items():
        store.store(name=f"{entry_of(command)}_schema", node=schema)
        defaults = [f"{entry_of(command)}_schema", *({group: DEFAULTS[group]} for group in groups_of(command))]
        presets = [{group: None} for group in (preset_group(command),) if group]
        store.store(name=entry_of(command), node={"defaults": [*defaults, *presets]})
    return {group: list(options) for group, options in groups.items()}
