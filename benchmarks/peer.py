"""Start Meta-World, the peer, in a separate virtual environment, because it needs another version of MuJoCo.

The virtual environment is built once, in the user's cache folder. `--peer-python` selects an existing one.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

VERSION = "3.1.1"
# The MuJoCo part of gymnasium imports packaging but does not list it as a dependency.
REQUIREMENTS = (f"metaworld=={VERSION}", "mujoco==3.3.0", "packaging")
WORKER = Path(__file__).with_name("peer_worker.py")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of every comparison with the peer."""
    parser.add_argument("--peer-python", help="Python of a virtual environment with Meta-World (default: build one)")
    parser.add_argument("--out", type=Path, help="also write the JSON to this file")


def peer_python(given: str | None) -> str:
    """Return the path of the peer's Python. The first call builds its virtual environment."""
    if given is not None:
        return given
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    folder = cache / "polytask" / f"metaworld-{VERSION}"
    python, ready = folder / "bin" / "python", folder / ".ready"
    if not ready.exists():
        print(f"building {folder}", file=sys.stderr)
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *REQUIREMENTS], check=True, stdout=sys.stderr)
        ready.touch()
    return str(python)


def start_worker(python: str, *arguments: str) -> subprocess.Popen[bytes]:
    """Start `peer_worker.py` in the peer's virtual environment, with pipes for its stdin and stdout."""
    # The worker must not find our packages or the modules of this folder.
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [python, str(WORKER), *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=variables)


def ask(worker: subprocess.Popen[bytes], question: dict[str, Any]) -> dict[str, Any]:
    """Send one JSON line, and read and return the JSON line of the answer."""
    assert worker.stdin is not None and worker.stdout is not None
    worker.stdin.write(json.dumps(question).encode() + b"\n")
    worker.stdin.flush()
    line = worker.stdout.readline()
    if not line:
        raise SystemExit("the process of Meta-World ended; its error is printed above")
    answer: dict[str, Any] = json.loads(line)
    return answer
