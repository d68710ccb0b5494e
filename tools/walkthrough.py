"""Walk through polytask as a new user would, and write docs/walkthrough.md.

Run `python tools/walkthrough.py PYTHON`, where PYTHON is an interpreter that has LeRobot. Every command runs for real,
in an empty folder with an environment of its own into which the wheel is installed. The page has the commands, what
they print and their times. If one fails, the page is not written.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Step:
    """A part of the walk: a heading, a sentence, and commands."""

    title: str
    about: str
    commands: tuple[str, ...]


STEPS = (
    Step(
        "Install",
        "An empty environment, with the wheel that `pip wheel --no-deps .` built. torch comes first, here for the CPU.",
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
        "neither polytask nor torch.",
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
    """Put what a new user has into the folder: the wheel, the examples, LeRobot. Return the name of the wheel."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(command, check=True)
    shutil.copy(ROOT / "constraints.txt", folder)
    shutil.copy(ROOT / "examples" / "run_onnx.py", folder)
    shutil.copytree(ROOT / "examples" / "plugin", folder / "plugin")
    (folder / "lerobot-env").symlink_to(lerobot_python.absolute().parents[1])
    return next(folder.glob("*.whl")).name


def run(command: str, folder: Path) -> tuple[str, float]:
    """Run one command in the folder's environment; return what it prints and the seconds it takes."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
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


def main() -> None:
    """Walk all steps and write the page."""
    if len(sys.argv) != 2:
        raise SystemExit("name an interpreter that has LeRobot")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel = prepare(folder, Path(sys.argv[1]))
        parts = [section(number, step, wheel, folder) for number, step in enumerate(STEPS, 1)]
    rows = [f"| {number}. {step.title} | {parts[number - 1][1]:.0f} |" for number, step in enumerate(STEPS, 1)]
    page = [
        "# A new user's walk\n",
        "Written by `python tools/walkthrough.py`, which runs every command below in an empty folder and writes what "
        f"it prints: Python {platform.python_version()}, {os.cpu_count()} CPU cores that other programs used too.\n",
        "| step | seconds |\n|---|---|",
        *rows,
        f"| all | {sum(seconds for _, seconds in parts):.0f} |\n",
        *(text for text, _ in parts),
    ]
    PAGE.write_text("\n".join(page))


if __name__ == "__main__":
    main()
