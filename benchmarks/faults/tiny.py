"""Command lines that take a second, and the run folders that some of them read."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path

from faults.process import SECONDS, Case, copy_links, run
from polytask.config.groups import GROUPS

ROOT = Path(__file__).parents[2]
GOLDEN, EXAMPLES = ROOT / "tests/golden", ROOT / "examples"
WORLDS = ("tasks=[reach]", "threads=1")
RUN = (*WORLDS, "num_envs=2", "max_iterations=1", "eval_episodes=0", "video=false")
FILM = ("episode_length=2", "width=32", "height=32")
MTOPT = (
    *("tasks=[lift-any,lift-can,place-any]", "world.num_envs=2", "world.image_size=16", "world.outcome_size=16"),
    *(
        "world.assisted=true",
        "world.reach=0.14",
        "storage.fsync=false",
        "collector.episodes=8",
        "collector.max_steps=2",
    ),
    *("collector.round_episodes=4", "collector.hand_over=true", "labels.per_task=4", "labels.round_per_task=1"),
    "detector.least_tested=0",  # four labels a task test nothing
    *("detector.updates=2", "detector.batch=4", "learner.network.image_size=16", "learner.bellman.cem.samples=4"),
    *("learner.bellman.cem.elites=2", "replay.capacity=200", "updater.rows=16", "trainer.updates=2"),
    *("trainer.round_updates=2", "trainer.batch=4", "trainer.publish_every=2", "trainer.buffer=64", "trainer.keep=0"),
    *("evaluator.episodes=1", "controller.rounds=0"),
)
# Settings of algorithms, where they have them.
SMALL = {
    "horizon": "2",
    "minibatch": "4",
    "minibatches": "1",
    "epochs": "1",
    "batch": "4",
    "steps_per_iteration": "2",
    "learning_starts": "1",
    "updates_per_step": "1.0",
    "capacity": "64",
}
ALGO_WORDS = {"grpo": ("algo.horizon=0", "episode_length=2", "stagger=false")}
# Words that make a command short. Commands that are not listed read the MT-Opt run.
WORDS: dict[str, tuple[str, ...]] = {
    "train": (*RUN, "run_dir=new"),
    "show": RUN,
    "sweep": ("preset=cpu_demo", "dry_run=true", "output=new", *RUN),
    "reproduce": ("table=mtbench/pqn", "dry_run=true", "output=new", "budget=1e-6", *RUN),
    "eval": (*WORLDS, "policy=random", "episodes=1", "episode_length=2"),
    "list": ("nets",),
    "bench": (*RUN, "what=env", "warmup=1", "iterations=1", "steps=2"),
    "record": (*WORLDS, *FILM, "policy=random", "task=reach", "output=new.mp4"),
    "collect": (*WORLDS, "policy=random", "episodes=1", "episode_length=2", "num_envs=1", "output=new"),
    "verify": (f"oracle={GOLDEN}", "tasks=[reach]"),
    "report": ("runs=[run]", "output=new"),
    "gallery": (*WORLDS, *FILM, "episodes=1", "output=new"),
    "mtopt collect": (*MTOPT, "run_dir=new"),
    "mtopt run": (*MTOPT, "run_dir=new"),
    "mtopt train": ("run_dir=bins", "trainer.updates=4"),
    "mtopt import": ("data=robot", "run_dir=new", "fit=crop", "image_size=16", "outcome_size=16"),
    "mtopt act": ("run_dir=bins", "port=0"),
    "label": ("run_dir=bins", "port=0"),
}
LABEL_SECONDS = 4.0  # the labelling page, and the server of actions, run until they are stopped


def words_of(command: str, chosen: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the words of a short command line, in which the given entries of groups are chosen."""
    words = [*WORDS.get(command, ("run_dir=bins",)), *chosen]
    if command in ("train", "bench"):
        algo = next((word.removeprefix("algo=") for word in chosen if word.startswith("algo=")), "ppo")
        config = GROUPS["algo"].get(algo, GROUPS["algo"]["ppo"])
        names = {each.name for each in fields(config)}
        words += [f"algo.{name}={value}" for name, value in SMALL.items() if name in names]
        words += ALGO_WORDS.get(algo, ())
    return (*command.split(), *words)


def copy_runs(command: str, prepared: Path) -> None:
    """Copy the runs that a short command line reads to the present folder."""
    if command == "report":
        copy_links(prepared / "run", Path("run"))
    elif command == "mtopt import":
        copy_links(prepared / "robot", Path("robot"))
    elif "run_dir=bins" in words_of(command):
        copy_links(prepared / "bins", Path("bins"))


def prepare(root: Path, names: Iterable[str] = ("run", "bins")) -> Path:
    """Make tiny runs in a new folder: `run` of PPO, `sac` of SAC with its replay buffer, and `bins` of MT-Opt.

    Raises:
        RuntimeError: If one of them fails.
    """
    folder = root / "prepared"
    lines = {
        "run": (*words_of("train"), "max_iterations=3"),
        "sac": (*words_of("train", ("algo=sac",)), "algo.save_replay=true", "max_iterations=3"),
        "bins": ("mtopt", "run", *MTOPT),
    }
    for name in names:
        outcome = run(Case((*lines[name], f"run_dir={name}"), folder, seconds=300))
        if outcome.code:
            raise RuntimeError(f"polytask {' '.join(outcome.case.words)}: {outcome.stderr}")
    subprocess.run([sys.executable, str(EXAMPLES / "robot_episodes.py"), str(folder / "robot"), "2"], check=True)
    return folder


def limit_of(words: tuple[str, ...]) -> float:
    """Return the time after which a command is stopped, in seconds."""
    return LABEL_SECONDS if words[0] == "label" or words[:2] == ("mtopt", "act") else SECONDS
