"""The table of commands: the purpose of each, its settings, and the name of the function that runs it.

The functions are named, not imported, so that torch and MuJoCo are loaded only when a command runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from polytask.config.completion import CompletionConfig
from polytask.config.launching import ReproduceConfig, SweepConfig
from polytask.config.schema import (
    BenchConfig,
    CollectConfig,
    EvalConfig,
    ExportPolicyConfig,
    GalleryConfig,
    ListConfig,
    ReportConfig,
    TrainConfig,
    VerifyConfig,
    WarmupConfig,
)
from polytask.config.watching import PlayConfig, RecordConfig
from polytask.mtopt.config import (
    ActConfig,
    CheckConfig,
    EvaluateConfig,
    ExportConfig,
    ImportConfig,
    LabelConfig,
    RelabelConfig,
    RunConfig,
    StatusConfig,
    TaskConfig,
)


@dataclass(frozen=True)
class Command:
    """A command of `polytask`.

    Attributes:
        about: One line for `polytask --help`.
        schema: The class of its settings.
        run: The function that runs it, as `module:function`. It receives the settings and returns a `Result`.
        examples: Command lines to show in the help.
        saved: The function that returns the settings of the run that the command continues or uses, if any.
        positional: The setting whose value may be the first argument, without its name.
    """

    about: str
    schema: type[Any]
    run: str
    examples: tuple[str, ...]
    saved: str | None = None
    positional: str | None = None


_CHECKPOINT = "polytask.runs.checkpoint:saved_settings"
_POLICY = "polytask.runs.policy:saved_settings"
_MTOPT_RUN = "polytask.mtopt.runtime.folder:saved_settings"

COMMANDS: dict[str, Command] = {
    "train": Command(
        "train a policy on many tasks at once",
        TrainConfig,
        "polytask.runs.train:train",
        (
            "polytask train preset=cpu_demo",
            "polytask train suite=mt10 num_envs=24576 sim=warp device=cuda",
            "polytask train tasks=[reach,push] envs_per_task=[16,48] algo.lr=3e-4 seed=1",
            "polytask train checkpoint=runs/my-run max_frames=20_000_000",
            "polytask train init_from=runs/my-run suite=mt50",
        ),
        saved=_CHECKPOINT,
    ),
    "show": Command(
        "print the settings that train, or another command, would run with",
        TrainConfig,
        "polytask.cli.show:show",
        ("polytask show preset=mtbench/mt10_rand/ppo_vanilla algo.lr=1e-3", "polytask show mtopt run preset=tiny"),
        saved=_CHECKPOINT,
    ),
    "sweep": Command(
        "train a grid of settings with several seeds, several runs at once, and compare them",
        SweepConfig,
        "polytask.runs.sweep.command:sweep",
        (
            "polytask sweep tasks=[reach,push] grads=mean,pcgrad net=mlp,moore seeds=3 jobs=4",
            "polytask sweep preset='mtbench/mt10_rand/ppo_*' seeds=10 devices=[0,1] output=runs/mt10",
            "polytask sweep preset=mt10_gpu algo.lr=5e-4,1e-3 dry_run=true",
        ),
    ),
    "reproduce": Command(
        "run a published table or figure, and show it beside the published numbers; alone: list them",
        ReproduceConfig,
        "polytask.runs.reproduce.command:reproduce",
        (
            "polytask reproduce",
            "polytask reproduce table=mtbench/mt10_rand seeds=3 budget=0.05 jobs=6",
            "polytask reproduce table=mtbench/critic_scaling rows=[mlp_te_1m,mlp_te_4m] device=cuda",
            "polytask reproduce table=mtbench/mt10_rand seeds=3 budget=0.05 train=false",
        ),
    ),
    "eval": Command(
        "measure a trained, scripted or random policy",
        EvalConfig,
        "polytask.runs.eval_command:run_eval",
        (
            "polytask eval checkpoint=runs/my-run episodes=50",
            "polytask eval policy=scripted episode_length=500",
            "polytask eval policy=pretrained suite=mt50",
            "polytask eval checkpoint=runs/my-run env=metaworld metaworld_python=mw/bin/python",
        ),
        saved=_POLICY,
    ),
    "list": Command(
        "list tasks, suites, algos, nets, grads, robots, presets, policies or plugins",
        ListConfig,
        "polytask.cli.listing:listing",
        ("polytask list tasks", "polytask list nets params=true suite=mt50"),
        positional="kind",
    ),
    "completion": Command(
        "print a script that lets bash, zsh or fish complete commands, keys and values",
        CompletionConfig,
        "polytask.cli.completion:completion",
        (
            "polytask completion bash > ~/.local/share/bash-completion/completions/polytask",
            "polytask completion fish > ~/.config/fish/completions/polytask.fish",
        ),
        positional="shell",
    ),
    "bench": Command(
        "measure speed and memory",
        BenchConfig,
        "polytask.tools.bench:bench",
        (
            "polytask bench what=env num_envs=64",
            "polytask bench what=env policy=pretrained suite=mt10 num_envs=64",
            "polytask bench what=train preset=mt10_gpu format=json",
            "polytask bench what=grads device=cuda num_tasks=[10,50]",
        ),
        saved=_POLICY,
    ),
    "warmup": Command(
        "compile the physics kernels of a suite for a GPU ahead of time, on all cores",
        WarmupConfig,
        "polytask.tools.warmup:warmup",
        (
            "polytask warmup suite=mt50 device=cuda",
            "polytask warmup tasks=[reach,push] robot=panda device=cuda format=json",
        ),
    ),
    "record": Command(
        "film a policy",
        RecordConfig,
        "polytask.tools.video:record",
        ("polytask record policy=scripted task=reach", "polytask record checkpoint=runs/my-run output=all.mp4"),
        saved=_POLICY,
    ),
    "play": Command(
        "watch a policy in many worlds, in a web browser",
        PlayConfig,
        "polytask.viewer.command:play",
        (
            "polytask play policy=pretrained",
            "polytask play checkpoint=runs/my-run task=reach worlds=4 speed=0.25",
            "polytask play run=runs/my-run",
        ),
        saved="polytask.viewer.source:saved_settings",
    ),
    "collect": Command(
        "write episodes of a policy to a data set, for distillation and offline learning",
        CollectConfig,
        "polytask.datasets.collect:collect",
        (
            "polytask collect policy=scripted suite=mt10 episodes=20 output=episodes",
            "polytask collect checkpoint=runs/my-run episodes=100 output=episodes export=minari",
            "polytask collect policy=scripted suite=mt10 output=episodes export=lerobot cameras=[scene,hand]",
        ),
        saved=_POLICY,
    ),
    "export": Command(
        "write a trained policy to a file for other programs: ONNX, torch or safetensors",
        ExportPolicyConfig,
        "polytask.tools.export:export",
        (
            "polytask export checkpoint=runs/my-run to=onnx output=policy.onnx",
            "polytask export checkpoint=runs/my-run to=safetensors half=true output=mt10.safetensors card=true",
        ),
    ),
    "verify": Command(
        "compare observations, rewards and success with those of Meta-World",
        VerifyConfig,
        "polytask.tools.verify:verify",
        ("polytask verify oracle=tests/golden",),
    ),
    "report": Command(
        "compare runs, with confidence intervals over seeds",
        ReportConfig,
        "polytask.runs.report:report",
        (
            "polytask report runs=[runs/a,runs/b] output=report",
            "polytask report runs=runs/sweep output=report baseline=mean paper=true",
        ),
    ),
    "gallery": Command(
        "draw the tasks and measure their scripted experts",
        GalleryConfig,
        "polytask.tools.gallery:gallery",
        ("polytask gallery output=docs/gallery",),
    ),
    "mtopt collect": Command(
        "collect episodes with scripted policies or the learned policy",
        RunConfig,
        "polytask.mtopt.commands:collect",
        ("polytask mtopt collect preset=tiny run_dir=runs/bins collector.episodes=500",),
        saved=_MTOPT_RUN,
    ),
    "mtopt train": Command(
        "learn from the episodes of a run, without collecting",
        RunConfig,
        "polytask.mtopt.commands:train",
        ("polytask mtopt train run_dir=runs/bins trainer.updates=1000",),
        saved=_MTOPT_RUN,
    ),
    "mtopt run": Command(
        "learn many tasks from images, in rounds of collecting, labelling and training",
        RunConfig,
        "polytask.mtopt.commands:run",
        (
            "polytask mtopt run preset=tiny",
            "polytask mtopt run preset=gpu run_dir=runs/bins seed=0",
            "polytask mtopt run preset=small labels.who=person run_dir=runs/bins",
        ),
        saved=_MTOPT_RUN,
    ),
    "mtopt eval": Command(
        "measure the learned policy: true success beside the detector's verdict",
        EvaluateConfig,
        "polytask.mtopt.commands:evaluate",
        ("polytask mtopt eval run_dir=runs/bins episodes=100", "polytask mtopt eval run_dir=runs/bins scripted=true"),
    ),
    "mtopt relabel": Command(
        "label all episodes of a run with a detector, or add a task to learn from them",
        RelabelConfig,
        "polytask.mtopt.commands:relabel",
        (
            "polytask mtopt relabel run_dir=runs/bins",
            "polytask mtopt relabel run_dir=runs/bins add=[lift-red-thing] train=true",
        ),
    ),
    "mtopt task": Command(
        "list the tasks of a run, add one with its examples, or let the run learn one from now on",
        TaskConfig,
        "polytask.mtopt.task_commands:task",
        (
            "polytask mtopt task list run_dir=runs/bins",
            "polytask mtopt task add run_dir=runs/bins name=lift-yellow skill=lift "
            "sentence='The hand holds the banana or something else that is yellow up.'",
            "polytask mtopt task learn run_dir=runs/bins name=cover-object",
        ),
        positional="action",
    ),
    "mtopt status": Command(
        "show the content and the progress of a run",
        StatusConfig,
        "polytask.mtopt.commands:status",
        ("polytask mtopt status run_dir=runs/bins",),
    ),
    "mtopt check": Command(
        "look for damage in the folder of a run, and mend it",
        CheckConfig,
        "polytask.mtopt.commands:check",
        ("polytask mtopt check run_dir=runs/bins", "polytask mtopt check run_dir=runs/bins repair=true"),
    ),
    "mtopt export": Command(
        "write the episodes of a run as a LeRobot or Minari data set",
        ExportConfig,
        "polytask.datasets.mtopt_export:export",
        ("polytask mtopt export run_dir=runs/bins to=lerobot output=bins_lerobot",),
    ),
    "mtopt import": Command(
        "add episodes of another robot to a run, from a LeRobot or Minari data set or a folder of pictures",
        ImportConfig,
        "polytask.datasets.mtopt_import:import_episodes",
        (
            "polytask mtopt import from=folder data=my_robot run_dir=runs/robot fit=crop labels=true",
            "polytask mtopt import from=lerobot data=bins_lerobot run_dir=runs/robot",
            "polytask mtopt import from=minari data=bins_minari run_dir=runs/robot",
        ),
    ),
    "mtopt act": Command(
        "serve the learned policy: images and task in, action out, over HTTP",
        ActConfig,
        "polytask.mtopt.commands:act",
        ("polytask mtopt act run_dir=runs/robot", "polytask mtopt act run_dir=runs/robot host=0.0.0.0 port=8010"),
    ),
    "label": Command(
        "open a web page on which a person labels episodes as success or failure",
        LabelConfig,
        "polytask.mtopt.commands:label",
        ("polytask label run_dir=runs/bins", "polytask label run_dir=runs/bins tasks=[lift-red-thing] port=8010"),
        saved="polytask.mtopt.runtime.folder:label_settings",
    ),
}
FAMILIES = ("mtopt",)  # first words of the commands that have two words
