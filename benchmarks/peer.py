"""Meta-World in a virtual environment of its own, since it needs another MuJoCo than polytask does.

The environment is built once, under the user's cache folder; `--peer-python` names one that exists already.
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
# gymnasium's MuJoCo part imports packaging without asking for it.
REQUIREMENTS = (f"metaworld=={VERSION}", "mujoco==3.3.0", "packaging")
WORKER = Path(__file__).with_name("peer_worker.py")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what every comparison with the peer takes."""
    parser.add_argument("--peer-python", help="Python of an environment with Meta-World (default: build one)")
    parser.add_argument("--out", type=Path, help="also write the JSON to this file")


def peer_python(given: str | None) -> str:
    """Return the peer's Python, building its virtual environment on the first call."""
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
    """Start `peer_worker.py` in the peer's environment, to be talked to over its stdin and stdout."""
    # The worker must not find our packages, nor this folder's modules.
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [python, str(WORKER), *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=variables)


def ask(worker: subprocess.Popen[bytes], question: dict[str, Any]) -> dict[str, Any]:
    """Send one JSON line and read the JSON line that answers it."""
    assert worker.stdin is not None and worker.stdout is not None
    worker.stdin.write(json.dumps(question).encode() + b"\n")
    worker.stdin.flush()
    line = worker.stdout.readline()
    if not line:
        raise SystemExit("the peer's process ended; its error stands above")
    answer: dict[str, Any] = json.loads(line)
    return answer
