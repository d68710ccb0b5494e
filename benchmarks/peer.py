"""Start Meta-World, the peer, in a separate virtual environment, because it needs another version of MuJoCo.

The virtual environment is built once, in the user's cache folder. `--peer-python` selects an existing one.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import venv
from pathlib import Path

from polytask.config.schema import METAWORLD_PACKAGES
from polytask.runs.metaworld.process import WORKER as PACKAGE_WORKER
from polytask.runs.metaworld.process import Process

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
    folder = cache / "polytask" / METAWORLD_PACKAGES[0].replace("==", "-")
    python, ready = folder / "bin" / "python", folder / ".ready"
    if not ready.exists():
        print(f"building {folder}", file=sys.stderr)
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *METAWORLD_PACKAGES], check=True, stdout=sys.stderr)
        ready.touch()
    return str(python)


def start_worker(python: str) -> Process:
    """Start `peer_worker.py` in the peer's virtual environment. It extends the worker of `polytask eval`."""
    return Process(python, str(PACKAGE_WORKER.parent), script=WORKER)
