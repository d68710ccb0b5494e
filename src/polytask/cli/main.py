"""The command line: `polytask <command> [key=value ...]`.

A user's mistake ends in one line on stderr and exit code 2. Torch and MuJoCo are imported only when a command runs, so
help and misspelt keys answer at once.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polytask
from polytask.config.schema import DEFAULTS, SCHEMAS, preset_group
from polytask.errors import UserError
from polytask.mtopt.config.keys import RunKeys

if TYPE_CHECKING:
    from polytask.cli.console import Result


def _train(config: Any) -> Result:
    from polytask.runs.train import train

    return train(config)


def _sweep(config: Any) -> Result:
    from polytask.runs.sweep import sweep

    return sweep(config)


def _eval(config: Any) -> Result:
    from polytask.runs.evaluate import evaluate

    return evaluate(config)


def _list(config: Any) -> Result:
    from polytask.cli.listing import listing

    return listing(config)


def _bench(config: Any) -> Result:
    from polytask.tools.bench import bench

    return bench(config)


def _record(config: Any) -> Result:
    from polytask.tools.video import record

    return record(config)


def _collect(config: Any) -> Result:
    from polytask.datasets.collect import collect

    return collect(config)


def _gallery(config: Any) -> Result:
    from polytask.tools.gallery import gallery

    return gallery(config)


def _verify(config: Any) -> Result:
    """Compare with recorded episodes; exit code 1 when a task is off by more than the tolerances."""
    if config.oracle is None:
        raise UserError("name the folder of recorded episodes: oracle=DIR")
    from polytask.cli.console import Result, table
    from polytask.envs.manipulation.tasks import TASKS
    from polytask.tools.verify import compare, recordings

    files = recordings(Path(config.oracle).expanduser())
    wanted = [task for task in files if task in TASKS] if config.tasks is None else config.tasks
    for task in wanted:
        if task not in files or task not in TASKS:
            raise UserError(f"there is no recording of '{task}' in '{config.oracle}', or no such task")
    found = {task: compare(TASKS[task], files[task]) for task in wanted}
    payload = {"tasks": {task: asdict(one) for task, one in found.items()}}
    columns = ("task", "steps", "obs max", "obs mean", "reward max", "reward mean", "success agreement", "verdict")
    rows = []
    for task, one in found.items():
        errors = (one.obs_max, one.obs_mean, one.reward_max, one.reward_mean)
        rows.append((task, one.steps, *errors, f"{one.success_agreement:.4f}", "ok" if one.passed else "off"))
    is_off = not all(one.passed for one in found.values())
    return Result(payload, [table("recorded against recomputed", columns, rows)], exit_code=int(is_off))


def _report(config: Any) -> Result:
    from polytask.runs.report import report

    return report(config)


def _mtopt(name: str) -> Callable[[Any], Result]:
    """Make the function that runs one of the commands of MT-Opt."""

    def run(config: Any) -> Result:
        from polytask.mtopt.commands import COMMANDS

        return COMMANDS[name](config)

    return run


@dataclass(frozen=True)
class Command:
    """One word after `polytask`."""

    about: str
    run: Callable[[Any], Result]
    examples: tuple[str, ...]


COMMANDS: dict[str, Command] = {
    "train": Command(
        "train a policy on many tasks at once",
        _train,
        (
            "polytask train experiment=cpu_demo",
            "polytask train suite=mt10 num_envs=24576 sim=warp device=cuda",
            "polytask train tasks=[reach,push] envs_per_task=[16,48] algo.lr=3e-4 seed=1",
            "polytask train checkpoint=runs/my-run max_frames=20_000_000",
            "polytask train init_from=runs/my-run suite=mt50",
        ),
    ),
    "sweep": Command(
        "train every preset of a table with several seeds, skipping what is done",
        _sweep,
        (
            "polytask sweep experiment='mtbench/mt10_rand/ppo_*' seeds=10 dry_run=true",
            "polytask sweep experiment=ptsl/mt10_200k/care,ptsl/mt10_200k/care_ptsl_2hidden seeds=10 device=cuda",
        ),
    ),
    "eval": Command(
        "measure a trained, scripted or random policy",
        _eval,
        ("polytask eval checkpoint=runs/my-run episodes=50", "polytask eval policy=scripted episode_length=500"),
    ),
    "list": Command(
        "list tasks, suites, algos, nets, grads, robots or presets",
        _list,
        ("polytask list tasks", "polytask list nets params=true suite=mt10"),
    ),
    "bench": Command(
        "measure speed and memory",
        _bench,
        (
            "polytask bench what=env num_envs=64",
            "polytask bench what=train experiment=mt10_gpu format=json",
            "polytask bench what=grads device=cuda num_tasks=[10,50]",
        ),
    ),
    "record": Command(
        "film a policy",
        _record,
        ("polytask record policy=scripted task=reach", "polytask record checkpoint=runs/my-run output=all.mp4"),
    ),
    "collect": Command(
        "record episodes of a policy, for distillation and offline learning",
        _collect,
        (
            "polytask collect policy=scripted suite=mt10 episodes=20 out=episodes",
            "polytask collect checkpoint=runs/my-run episodes=100 out=episodes export=minari",
        ),
    ),
    "verify": Command(
        "compare observations, rewards and success with recorded episodes",
        _verify,
        ("polytask verify oracle=recordings",),
    ),
    "report": Command(
        "compare runs, with intervals over seeds",
        _report,
        ("polytask report runs=[runs/a,runs/b] output=report",),
    ),
    "gallery": Command(
        "draw the tasks and measure their scripted experts",
        _gallery,
        ("polytask gallery out=docs/gallery",),
    ),
    "mtopt collect": Command(
        "fill a store with episodes of scripts, or of what was learned there",
        _mtopt("collect"),
        ("polytask mtopt collect preset=tiny store=runs/bins collector.episodes=500",),
    ),
    "mtopt train": Command(
        "learn from the episodes of a store, without collecting",
        _mtopt("train"),
        ("polytask mtopt train store=runs/bins trainer.updates=1000",),
    ),
    "mtopt run": Command(
        "learn many tasks from images: collect, label, train, in rounds",
        _mtopt("run"),
        (
            "polytask mtopt run preset=tiny",
            "polytask mtopt run preset=gpu store=runs/bins seed=0",
            "polytask mtopt run preset=small labels.who=person store=runs/bins",
        ),
    ),
    "mtopt eval": Command(
        "measure what was learned: truth beside the detector's verdict",
        _mtopt("eval"),
        ("polytask mtopt eval store=runs/bins episodes=100", "polytask mtopt eval store=runs/bins scripted=true"),
    ),
    "mtopt relabel": Command(
        "let a detector label all episodes of a store, or add a task to learn from them",
        _mtopt("relabel"),
        (
            "polytask mtopt relabel store=runs/bins",
            "polytask mtopt relabel store=runs/bins add=[lift-red-thing] train=true",
        ),
    ),
    "mtopt status": Command(
        "show what a store holds and how its run goes",
        _mtopt("status"),
        ("polytask mtopt status store=runs/bins",),
    ),
    "label": Command(
        "open a page on which a person says what success looks like",
        _mtopt("label"),
        ("polytask label store=runs/bins", "polytask label store=runs/bins tasks=[lift-red-thing] port=8010"),
    ),
}
FAMILIES = ("mtopt",)  # first words of commands of two words


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _main(words)
    except UserError as error:
        if os.environ.get("POLYTASK_DEBUG"):
            raise
        sys.stderr.write(f"polytask: {' '.join(str(error).split())}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("polytask: interrupted\n")
        return 130


def _main(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        sys.stdout.write(overview())
        return 0
    if words[0] == "--version":
        sys.stdout.write(f"polytask {polytask.__version__}\n")
        return 0
    command, *rest = words
    if command in FAMILIES:
        if not rest or rest[0] in ("-h", "--help"):
            sys.stdout.write(overview(command))
            return 0
        command, rest = f"{command} {rest[0]}", rest[1:]
    if command not in COMMANDS:
        from polytask.config.compose import suggest

        raise UserError(f"unknown command '{command}'; {suggest(command, COMMANDS)}")
    if "-h" in rest or "--help" in rest:
        sys.stdout.write(help_of(command))
        return 0
    if command == "list" and rest and "=" not in rest[0]:
        rest[0] = f"kind={rest[0]}"
    return _run(command, _sweep_words(rest) if command == "sweep" else rest)


def _sweep_words(words: list[str]) -> list[str]:
    """Write `experiment=A,B` as a list, and gather the keys of `polytask train`, which go to every run."""
    from polytask.config.compose import quote

    own: list[str] = []
    changes: list[str] = []
    for word in words:
        name, _, value = word.partition("=")
        if name in ("experiment", "experiments"):
            own.append(f"experiments=[{','.join(quote(each) for each in value.strip('[]').split(','))}]")
        else:
            is_own = name in (each.name for each in fields(SCHEMAS["sweep"]))
            (own if is_own else changes).append(word)
    return [*own, *([f"changes=[{','.join(map(quote, changes))}]"] if changes else [])]


def _run(command: str, words: list[str]) -> int:
    """Compose the config, run the command and show its result."""
    from polytask.config.compose import compose

    config = compose(command, words)
    saved = _saved(command, config)
    if saved is not None:
        config = compose(command, words, saved=saved)
    from polytask.cli.console import show

    # With format=json stdout is the object alone: whatever a library prints on the way goes to stderr.
    with contextlib.redirect_stdout(sys.stderr) if config.format == "json" else contextlib.nullcontext():
        result = COMMANDS[command].run(config)
    show(result, config.format)
    return result.exit_code


def _saved(command: str, config: Any) -> dict[str, Any] | None:
    """Read the settings of the run that a command goes on with, if any."""
    checkpoint = getattr(config, "checkpoint", None)
    if checkpoint is not None:
        from polytask.runs.checkpoint import load

        settings: dict[str, Any] = load(checkpoint)["config"]
        return settings
    if SCHEMAS[command] is RunKeys:
        from polytask.mtopt.runtime.folder import RunFolder

        state = RunFolder(config.store).read()
        return None if state is None else {**state["config"], "store": config.store}
    return None


def overview(family: str | None = None) -> str:
    """Write the help of `polytask --help`, or of a family of commands."""
    shown = {name: each for name, each in COMMANDS.items() if family is None or name.startswith(f"{family} ")}
    first = f"{family} <command>" if family else "<command>"
    lines = ["Multi-task reinforcement learning for robots.", "", f"usage: polytask {first} [key=value ...]", ""]
    lines += [f"  {name:14} {command.about}" for name, command in shown.items()]
    lines += ["", "examples:", *(f"  {command.examples[0]}" for command in shown.values())]
    lines += ["", "`polytask <command> --help` lists a command's keys. POLYTASK_DEBUG=1 shows tracebacks."]
    return "\n".join(lines) + "\n"


def help_of(command: str) -> str:
    """Write the help of one command from its dataclass."""
    kind = "tasks|suites|... " if command == "list" else ""
    lines = [f"{COMMANDS[command].about}.", "", f"usage: polytask {command} {kind}[key=value ...]", "", "keys:"]
    for each in fields(SCHEMAS[command]):
        default = DEFAULTS.get(each.name, each.default)
        shown = "-" if default in (None, MISSING, "") else str(default).lower()
        lines.append(f"  {each.name:18} {shown:10} {each.metadata['help']}")
    if group := preset_group(command):
        lines.append(f"  {group:18} {'-':10} preset of tuned values (polytask list presets)")
    return "\n".join([*lines, "", "examples:", *(f"  {each}" for each in COMMANDS[command].examples)]) + "\n"


if __name__ == "__main__":
    sys.exit(main())
