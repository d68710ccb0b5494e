"""The table of commands: what each is for, which settings it takes, and where its code is.

The code is named, not imported: torch and MuJoCo are loaded only when a command runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from polytask.config.schema import (
    BenchConfig,
    CollectConfig,
    EvalConfig,
    GalleryConfig,
    ListConfig,
    RecordConfig,
    ReportConfig,
    SweepConfig,
    TrainConfig,
    VerifyConfig,
)
from polytask.mtopt.config import EvaluateConfig, ExportConfig, LabelConfig, RelabelConfig, RunConfig, StatusConfig


@dataclass(frozen=True)
class Command:
    """What follows `polytask`.

    Attributes:
        about: One line for `polytask --help`.
        schema: The class of its settings.
        run: Module and function, `module:function`, that takes the settings and returns a `Result`.
        examples: Command lines to show.
        saved: Function that returns the settings of the run that the command goes on with, if any.
        positional: Setting that the first word may give without its name.
    """

    about: str
    schema: type[Any]
    run: str
    examples: tuple[str, ...]
    saved: str | None = None
    positional: str | None = None


_CHECKPOINT = "polytask.runs.checkpoint:saved_settings"
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
        "print the settings that the words after it amount to, for train or another command",
        TrainConfig,
        "polytask.cli.show:show",
        ("polytask show preset=mtbench/mt10_rand/ppo_vanilla algo.lr=1e-3", "polytask show mtopt run preset=tiny"),
        saved=_CHECKPOINT,
    ),
    "sweep": Command(
        "train every preset of a table with several seeds, skipping what is done",
        SweepConfig,
        "polytask.runs.sweep:sweep",
        (
            "polytask sweep preset='mtbench/mt10_rand/ppo_*' seeds=10 dry_run=true",
            "polytask sweep preset=ptsl/mt10_200k/care,ptsl/mt10_200k/care_ptsl_2hidden seeds=10 device=cuda",
        ),
    ),
    "eval": Command(
        "measure a trained, scripted or random policy",
        EvalConfig,
        "polytask.runs.evaluate:evaluate",
        ("polytask eval checkpoint=runs/my-run episodes=50", "polytask eval policy=scripted episode_length=500"),
        saved=_CHECKPOINT,
    ),
    "list": Command(
        "list tasks, suites, algos, nets, grads, robots or presets",
        ListConfig,
        "polytask.cli.listing:listing",
        ("polytask list tasks", "polytask list nets params=true suite=mt50"),
        positional="kind",
    ),
    "bench": Command(
        "measure speed and memory",
        BenchConfig,
        "polytask.tools.bench:bench",
        (
            "polytask bench what=env num_envs=64",
            "polytask bench what=train preset=mt10_gpu format=json",
            "polytask bench what=grads device=cuda num_tasks=[10,50]",
        ),
        saved=_CHECKPOINT,
    ),
    "record": Command(
        "film a policy",
        RecordConfig,
        "polytask.tools.video:record",
        ("polytask record policy=scripted task=reach", "polytask record checkpoint=runs/my-run output=all.mp4"),
        saved=_CHECKPOINT,
    ),
    "collect": Command(
        "write episodes of a policy to a data set, for distillation and offline learning",
        CollectConfig,
        "polytask.datasets.collect:collect",
        (
            "polytask collect policy=scripted suite=mt10 episodes=20 output=episodes",
            "polytask collect checkpoint=runs/my-run episodes=100 output=episodes export=minari",
        ),
        saved=_CHECKPOINT,
    ),
    "verify": Command(
        "compare observations, rewards and success with Meta-World's own",
        VerifyConfig,
        "polytask.tools.verify:verify",
        ("polytask verify oracle=tests/golden",),
    ),
    "report": Command(
        "compare runs, with intervals over seeds",
        ReportConfig,
        "polytask.runs.report:report",
        ("polytask report runs=[runs/a,runs/b] output=report",),
    ),
    "gallery": Command(
        "draw the tasks and measure their scripted experts",
        GalleryConfig,
        "polytask.tools.gallery:gallery",
        ("polytask gallery output=docs/gallery",),
    ),
    "mtopt collect": Command(
        "collect episodes by scripts, or by what was learned",
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
        "learn many tasks from images: collect, label, train, in rounds",
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
        "measure what was learned: truth beside the detector's verdict",
        EvaluateConfig,
        "polytask.mtopt.commands:evaluate",
        ("polytask mtopt eval run_dir=runs/bins episodes=100", "polytask mtopt eval run_dir=runs/bins scripted=true"),
    ),
    "mtopt relabel": Command(
        "let a detector label all episodes of a run, or add a task to learn from them",
        RelabelConfig,
        "polytask.mtopt.commands:relabel",
        (
            "polytask mtopt relabel run_dir=runs/bins",
            "polytask mtopt relabel run_dir=runs/bins add=[lift-red-thing] train=true",
        ),
    ),
    "mtopt status": Command(
        "show what a run holds and how far it is",
        StatusConfig,
        "polytask.mtopt.commands:status",
        ("polytask mtopt status run_dir=runs/bins",),
    ),
    "mtopt export": Command(
        "write the episodes of a run as a LeRobot or Minari data set",
        ExportConfig,
        "polytask.datasets.mtopt_export:export",
        ("polytask mtopt export run_dir=runs/bins to=lerobot output=bins_lerobot",),
    ),
    "label": Command(
        "open a page on which a person says what success looks like",
        LabelConfig,
        "polytask.mtopt.commands:label",
        ("polytask label run_dir=runs/bins", "polytask label run_dir=runs/bins tasks=[lift-red-thing] port=8010"),
    ),
}
FAMILIES = ("mtopt",)  # first words of commands of two words
