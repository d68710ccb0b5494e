"""Walk through polytask as a new user would, and write docs/walkthrough.md.

Run `python tools/walkthrough.py PYTHON`, where PYTHON is an interpreter that has LeRobot. Every command runs for real,
in a new folder with an environment of its own into which the wheel is installed. The page has the commands, what they
print and their times. If one fails, the page is not written.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "walkthrough.md"
SHOWN = 24  # lines of a command's output, the last ones
LOAD = """lerobot-env/bin/python -c "
import importlib.metadata
from lerobot.datasets.lerobot_dataset import LeRobotDataset
data = LeRobotDataset('local/walk', root='data/lerobot')
print('LeRobot', importlib.metadata.version('lerobot'), '-', data.num_episodes, 'episodes,', len(data), 'frames')
for name, value in data[0].items():
    print(f'{name:30}', value if isinstance(value, str) else tuple(value.shape))"
"""


# What is in the folder before the walk. The variables name a clone of the repository and an environment with LeRobot.
PREPARATIONS = (
    'python -m pip wheel --quiet --no-deps --wheel-dir . "$POLYTASK"',
    'cp "$POLYTASK/constraints.txt" "$POLYTASK/examples/run_onnx.py" .',
    'cp -r "$POLYTASK/examples/plugin" plugin',
    'ln -s "$LEROBOT" lerobot-env',
)


@dataclass(frozen=True)
class Step:
    """A part of the walk: a heading, a sentence, and commands."""

    title: str
    about: str
    commands: tuple[str, ...]


STEPS = (
    Step(
        "Install",
        "An empty environment, and the wheel. torch comes first. On Linux, PyPI has the build for CUDA, which is "
        "large. For the CPU alone, type `pip install torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu` "
        "instead. This walk ran on the CPU: the index of its machine has that build.",
        (
            "python -m venv env && source env/bin/activate",
            "pip install --quiet torch==2.13.0",
            "pip install --quiet --constraint constraints.txt './{wheel}[video,report,export,viewer]'",
            "polytask --version",
        ),
    ),
    Step(
        "Play a trained policy",
        "Policies for MT10 and MT50 come with the package. This one solves ten tasks with one network.",
        (
            "polytask eval policy=pretrained suite=mt10 episodes=5",
            "timeout --preserve-status --signal=INT 20 polytask play policy=pretrained 2>&1  # Ctrl-C after 20 seconds",
            "polytask record policy=pretrained suite=mt10 task=door-open width=320 height=240 output=door.mp4",
        ),
    ),
    Step(
        "Take it elsewhere",
        "The export is compared with the original before it is written. `run_onnx.py` is in `examples/`; it imports "
        "neither polytask nor torch. `checkpoint=` takes the folder of a run, such as `checkpoint=runs/hover` below; "
        "`mt10` is the name of the pretrained policy that was just played, so that there is something to export before "
        "any training.",
        ("polytask export checkpoint=mt10 to=onnx output=mt10.onnx", "python run_onnx.py mt10.onnx door-open"),
    ),
    Step(
        "Add a task from a plug-in, and train it",
        "`plugin` is a copy of `examples/plugin`, a package of its own that adds the task `hover`.",
        (
            "pip install --quiet --no-deps ./plugin",
            "polytask list plugins",
            "polytask train tasks=[hover] num_envs=32 max_frames=100_000 eval_episodes=10 video=false "
            "run_dir=runs/hover",
            "polytask eval checkpoint=runs/hover episodes=20",
        ),
    ),
    Step(
        "Compare two methods over three seeds",
        "The budget is small, so the table shows how to compare, not which method is better.",
        (
            "polytask sweep tasks=[reach,drawer-close] net=mlp,multihead seeds=3 num_envs=32 max_frames=30_000 "
            "eval_episodes=5 video=false output=runs/compare",
            "polytask report runs=runs/compare output=report baseline=mlp",
        ),
    ),
    Step(
        "Collect a LeRobot data set, and load it",
        "The pretrained policy plays, and the episodes are written with pictures, states, actions and task sentences. "
        "LeRobot's own loader reads them. `lerobot-env` is an environment that has LeRobot already. LeRobot asks for "
        "an older torch than this walk has, so it was installed there without its dependencies, and those that the "
        "loader needs beside it. torchvision's compiled operators, which need CUDA and which the loader does not use, "
        "are left out.",
        (
            "polytask collect policy=pretrained tasks=[reach,door-open] episodes=2 num_envs=4 "
            "output=data export=lerobot",
            LOAD.strip(),
        ),
    ),
)


def prepare(folder: Path, lerobot_python: Path) -> str:
    """Put what the walk needs into the folder: the wheel, the examples, LeRobot. Return the name of the wheel."""
    variables = {"POLYTASK": str(ROOT), "LEROBOT": str(lerobot_python.absolute().parents[1])}
    for command in PREPARATIONS:
        run(command, folder, variables)
    return next(folder.glob("*.whl")).name


def run(command: str, folder: Path, more: Mapping[str, str] | None = None) -> tuple[str, float]:
    """Run one command in the folder's environment; return what it prints and the seconds it takes."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | dict(more or {})
    variables["PATH"] = f"{folder}/env/bin:{Path(sys.executable).parent}:{os.environ['PATH']}"
    start = time.perf_counter()
    shell = ["bash", "-c", command]
    done = subprocess.run(shell, cwd=folder, env=variables, capture_output=True, text=True)
    seconds = time.perf_counter() - start
    if done.returncode != 0:
        raise SystemExit(f"this step failed: {command}\n{done.stdout}{done.stderr}")
    print(f"{seconds:6.1f} s  {command.splitlines()[0]}", flush=True)
    return clean(done.stdout, folder), seconds


def clean(text: str, folder: Path) -> str:
    """Return the last lines of an output, without colours and the name of the temporary folder."""
    lines = re.sub(r"\x1b\[[0-9;]*m", "", text).replace(f"{folder}/", "").rstrip().splitlines()
    return "\n".join(line.rstrip() for line in (["..."] if len(lines) > SHOWN else []) + lines[-SHOWN:])


def section(number: int, step: Step, wheel: str, folder: Path) -> tuple[str, float]:
    """Walk one step; return its part of the page and the seconds it takes."""
    lines, total = [], 0.0
    for command in step.commands:
        output, seconds = run(command.replace("{wheel}", wheel), folder)
        total += seconds
        lines += [f"$ {command.replace('{wheel}', wheel)}", *([output] if output else []), f"# {seconds:.1f} s"]
    block = "\n".join(lines)
    return f"## {number}. {step.title}\n\n{step.about}\n\n```shell-session\n{block}\n```\n", total


def introduction(version: str, commit: str, day: str, python: str, cores: int) -> str:
    """Return the first paragraph: what the page shows, and what it was made with."""
    return (
        "Written by `python tools/walkthrough.py`, which runs every command below in a new folder and writes what it "
        f"prints: polytask {version}, commit {commit}, {day}, Python {python}, {cores} CPU cores that other programs "
        "used too.\n"
    )


def preparation() -> str:
    """Return the part of the page that says what was in the folder before the walk."""
    block = "\n".join(["mkdir walk && cd walk", *PREPARATIONS])
    return (
        "Before the walk, this put into the folder what it needs. To repeat it, let `POLYTASK` name a clone of the "
        "repository, and `LEROBOT` a virtual environment that has LeRobot; only the last step needs that one.\n\n"
        f"```bash\n{block}\n```\n"
    )


def commit_of(folder: Path) -> str:
    """Return the short name of a repository's commit, with the suffix "-dirty" if files differ from it."""
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--exclude=*"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def main() -> None:
    """Walk all steps and write the page."""
    if len(sys.argv) != 2:
        raise SystemExit("name an interpreter that has LeRobot")
    commit, day = commit_of(ROOT), f"{datetime.now(UTC):%Y-%m-%d}"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel = prepare(folder, Path(sys.argv[1]))
        parts = [section(number, step, wheel, folder) for number, step in enumerate(STEPS, 1)]
    rows = [f"| {number}. {step.title} | {parts[number - 1][1]:.0f} |" for number, step in enumerate(STEPS, 1)]
    page = [
        "# A new user's walk\n",
        introduction(wheel.split("-")[1], commit, day, platform.python_version(), os.cpu_count() or 1),
        "| step | seconds |\n|---|---|",
        *rows,
        f"| all | {sum(seconds for _, seconds in parts):.0f} |\n",
        preparation(),
        *(text for text, _ in parts),
    ]
    PAGE.write_text("\n".join(page))


if __name__ == "__main__":
    main()
