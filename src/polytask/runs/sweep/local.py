"""Start runs as processes of this machine, and what every launcher has in common."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import polytask
from polytask.files import can_write, make_folder


@dataclass(frozen=True)
class Job:
    """A run to start.

    Attributes:
        words: The words after `polytask train`.
        log: The file to which its output is appended.
        variables: Environment variables that differ from this process's.
        folder: The folder that relative paths start from, on whichever machine the run is.
    """

    words: tuple[str, ...]
    log: Path
    variables: Mapping[str, str] = field(default_factory=dict)
    folder: Path = field(default_factory=Path.cwd)

    @property
    def header(self) -> str:
        """The line that begins the output of the run in its log."""
        return f"$ polytask train {' '.join(self.words)}"


class Process(Protocol):
    """A run that was started."""

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""

    def stop(self, number: int) -> None:
        """Ask it to save and end, as the signal with this number does."""

    def kill(self) -> None:
        """End it at once."""


class Launcher(Protocol):
    """Starts runs somewhere."""

    def start(self, job: Job) -> Process:
        """Start a run."""

    def close(self) -> None:
        """Disconnect."""


class LocalProcess:
    """A process of this machine."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        """Watch a process that leads a group of its own."""
        self._process = process

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""
        return self._process.poll()

    def stop(self, number: int) -> None:
        """Send the signal, unless it has ended."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it and all processes that it started, and wait for its end."""
        with suppress(ProcessLookupError):
            if self._process.poll() is None:
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        self._process.wait()


class LocalLauncher:
    """Starts processes on this machine."""

    def start(self, job: Job) -> LocalProcess:
        """Start a run. It does not get the terminal's Ctrl-C; the sweep passes signals on."""
        return LocalProcess(spawn(job))

    def close(self) -> None:
        """Do nothing: there is no connection."""


def spawn(job: Job) -> subprocess.Popen[bytes]:
    """Start the process of a run, whose output goes to its log.

    Raises:
        UserError: If the log cannot be written.
    """
    root = str(Path(polytask.__file__).parents[1])  # this polytask, also where another one is installed
    paths = [root, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    environment = {**os.environ, **job.variables, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}
    path = job.folder / job.log
    make_folder(path.parent)
    with can_write(path), path.open("ab") as log:
        log.write(f"{job.header}\n".encode())
        log.flush()
        return subprocess.Popen(
            [sys.executable, "-m", "polytask.runs.sweep.child", "train", *job.words],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=job.folder,
            start_new_session=True,
        )


def reason_of(job: Job, code: int) -> str:
    """Return one line that says why a run failed: its last error, or the signal that ended it."""
    if code < 0:
        return f"ended by signal {signal.Signals(-code).name}"
    try:
        text = job.log.read_text(errors="replace")
    except OSError:
        return f"exit code {code}, and no log"
    lines = [line.strip() for line in text.rpartition("$ polytask train ")[2].splitlines()[1:] if line.strip()]
    told = [line.removeprefix("polytask: ") for line in lines if line.startswith("polytask: ")]
    return (told or lines or [f"exit code {code}"])[-1]
