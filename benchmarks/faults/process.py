"""Run polytask's command line in forked processes, and judge how each one ended.

A fork of a process that has imported everything starts in milliseconds. It can crash, hang or be killed like any
other process, and the others go on.
"""

from __future__ import annotations

import gc
import os
import pkgutil
import resource
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

import polytask
from faults.rights import give_up_root, is_safe
from polytask.cli.commands import COMMANDS
from polytask.cli.main import main
from polytask.config.compose import compose
from polytask.errors import UserError

SECONDS = 40.0  # after this time a command gets SIGINT, as if the user had pressed Ctrl-C
GRACE = 20.0  # after this time more it is killed
MEMORY = 12 * 2**30  # bytes of data of a process; a larger request fails as on a machine whose memory is full
STDERR, STDOUT = "stderr.txt", "stdout.txt"
LATE = ("torch._dynamo", "torch._refs", "matplotlib.pyplot", "PIL.Image")
# Ends of names: Warp and Triton look for a GPU, and adapters import other libraries; no case needs one of them.
NEVER = ("__main__", "warp", "kernels", "adapters.rsl_rl", "adapters.skrl", "adapters.sb3", "adapters.torchrl")

# Words of the libraries inside polytask and of Python. The user has written none of them.
JARGON = (
    *("ListConfig", "DictConfig", "omegaconf", "OmegaConf", "hydra", "Hydra", "no viable alternative"),
    *("mandatory value", "NoneType", "PosixPath", "<class", "object at 0x", "[Errno", "int64", "float32"),
    *("token recognition error", "mismatched input", "<EOF>", "Optional", "subclass", "Interpolation"),
)
CHECK = ("mtopt", "check")  # exits with code 1 if it finds damage
LONGEST = 400  # characters of a message
GOOD = ("ok", "refused", "stopped", "found")
STOPS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True)
class Case:
    """One command line to run.

    Attributes:
        words: The command line, without `polytask`.
        folder: An empty or absent folder, in which the command runs.
        about: What the case tries, for the result.
        seconds: Time after which the command gets SIGINT.
        setup: Called in the new process, in the folder, before the command.
        check: Called in the new process after the command.
    """

    words: tuple[str, ...]
    folder: Path
    about: dict[str, Any] = field(default_factory=dict)
    seconds: float = SECONDS
    setup: Callable[[], None] = lambda: None
    check: Callable[[], None] = lambda: None


@dataclass(frozen=True)
class Outcome:
    """How a process ended. The code is the exit code, or minus the number of the signal that ended it."""

    case: Case
    code: int
    stderr: str
    stdout: str
    seconds: float
    has_hung: bool = False

    @property
    def last_line(self) -> str:
        """Return the last line on stderr that is not empty."""
        return next((line for line in reversed(self.stderr.splitlines()) if line.strip()), "")

    @property
    def verdict(self) -> str:
        """Judge the end: `ok`, `refused`, `stopped`, `found`, or what is wrong with it, in capitals."""
        if self.has_hung:
            return "TIMEOUT"
        if self.code < 0:
            return "CRASH"
        if "Traceback" in self.stderr or self.code not in (
            0,
            2,
            130,
            143,
            *([1] if self.case.words[:2] == CHECK else []),
        ):
            return "TRACEBACK"
        if self.code == 1:
            return "found"
        if self.code != 2:
            return "ok" if self.code == 0 else "stopped"
        messages = [line for line in self.stderr.splitlines() if line.startswith("polytask:")]
        jargon = [word for word in JARGON if word in self.last_line and word not in " ".join(self.case.words)]
        is_plain = len(self.last_line) <= LONGEST and not jargon
        return "refused" if messages == [self.last_line] and is_plain else "SLOPPY"


@cache
def warm_up() -> None:
    """Import all of polytask, and what it imports late, so that forks need not and do not see changes of its files."""
    torch.set_num_threads(1)  # threads do not survive a fork
    found = [module.name for module in pkgutil.walk_packages(polytask.__path__, "polytask.")]
    for name in (*found, *LATE):
        if not name.endswith(NEVER):
            import_module(name)
    for command in COMMANDS.values():
        with suppress(UserError):  # some commands need words
            compose(command.schema, [])  # fills Hydra's caches
    is_safe()  # finds out, once, what the system permits
    gc.collect()
    gc.freeze()  # a collection in a fork would copy the memory


def copy_links(source: Path, target: Path) -> None:
    """Copy a folder. Files of tensors, which are only ever replaced as a whole, are linked."""

    def copy(one: str, other: str) -> None:
        if one.endswith(".pt"):
            os.link(one, other)
        else:
            shutil.copy2(one, other)

    shutil.copytree(source, target, copy_function=copy)


class Running:
    """A command in a process of its own."""

    def __init__(self, case: Case) -> None:
        warm_up()
        case.folder.mkdir(parents=True, exist_ok=True)
        self.case = case
        self.start = time.monotonic()
        self._is_interrupted = False
        self._status: int | None = None
        sys.stdout.flush()
        sys.stderr.flush()
        # Until the new process is in `main`, an interrupt would end in this file and look like a mistake of polytask.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
        try:
            self.pid = os.fork()
            if self.pid == 0:
                _child(case)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process and those that it has started, as a terminal does."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def poll(self) -> Outcome | None:
        """Return the outcome if the process has ended. Stop it if it takes too long."""
        if self._status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._status = status
        seconds = time.monotonic() - self.start
        if self._status is not None:
            self.send(signal.SIGKILL)  # what it has left behind
            has_hung = self._is_interrupted and seconds > self.case.seconds + GRACE
            code = os.waitstatus_to_exitcode(self._status)
            return Outcome(self.case, code, self._text(STDERR), self._text(STDOUT), seconds, has_hung)
        if seconds > self.case.seconds + GRACE:
            self.send(signal.SIGKILL)
        elif seconds > self.case.seconds and not self._is_interrupted:
            self._is_interrupted = True
            self.send(signal.SIGINT)
        return None

    def wait(self) -> Outcome:
        """Wait for the end."""
        while (outcome := self.poll()) is None:
            time.sleep(0.002)
        return outcome

    def _text(self, name: str) -> str:
        path = self.case.folder / name
        return path.read_text(errors="replace") if path.is_file() else ""


def run(case: Case) -> Outcome:
    """Run one case."""
    return Running(case).wait()


def run_all(cases: Iterable[Case], jobs: int = 1) -> Iterator[Outcome]:
    """Run cases, some side by side, and remove the folder of each after its outcome has been used."""
    waiting, running = iter(cases), list[Running]()
    while True:
        while len(running) < jobs and (case := next(waiting, None)) is not None:
            running.append(Running(case))
        if not running:
            return
        for one in list(running):
            if (outcome := one.poll()) is not None:
                running.remove(one)
                yield outcome
                remove(one.case.folder)
        time.sleep(0.002)


def remove(folder: Path) -> None:
    """Remove a folder, also if it contains read-only folders."""
    for path in [folder, *folder.rglob("*")]:
        if path.is_dir() and not path.is_symlink():
            with suppress(OSError):
                path.chmod(0o755)
    shutil.rmtree(folder, ignore_errors=True)


def describe(outcome: Outcome, root: Path) -> dict[str, Any]:
    """Return the row of a case for a result file, without names of this machine's folders."""
    case = outcome.case
    line = outcome.last_line.replace(str(case.folder), "FOLDER").replace(str(root), "ROOT")
    return {
        "command": " ".join(["polytask", *(_shown(word) for word in case.words)]).replace(str(root), "ROOT"),
        **case.about,
        "exit_code": outcome.code,
        "last_line": line if len(line) <= LONGEST else f"{line[:LONGEST]}... ({len(line)} characters)",
        "verdict": outcome.verdict,
    }


def count_verdicts(rows: Sequence[dict[str, Any]]) -> dict[str, int]:
    """Count the rows of each verdict."""
    return {name: sum(row["verdict"] == name for row in rows) for name in sorted({row["verdict"] for row in rows})}


def show(row: dict[str, Any], outcome: Outcome) -> None:
    """Print a case that went wrong."""
    about = "  ".join(str(value) for name, value in row.items() if name not in ("command", "last_line", "verdict"))
    print(f"{row['verdict']}  {about}  {row['command'][-160:]}  |  {row['last_line'][:200]}", flush=True)
    if row["verdict"] in ("TRACEBACK", "CRASH"):
        print("\n".join(f"    {line}" for line in outcome.stderr.splitlines()[-8:-1]), flush=True)


def _shown(word: str) -> str:
    return word if len(word) < 80 and word.isprintable() else f"{ascii(word)[1:60]}... ({len(word)} characters)"


def _main(words: tuple[str, ...]) -> int:
    """Run polytask with SIGINT and SIGTERM, which are blocked before and after it."""
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
    except KeyboardInterrupt:  # a SIGINT that has waited
        return 130
    try:
        return main(words)
    finally:
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)


def _child(case: Case) -> None:
    """Run a command in the new process, which this function ends."""
    code = 1
    try:
        os.setsid()
        os.chdir(case.folder)
        os.environ["HOME"] = str(case.folder)
        for name, number in ((STDOUT, 1), (STDERR, 2)):
            file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            os.dup2(file, number)
            os.close(file)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGINT, signal.default_int_handler)
        case.setup()
        give_up_root(case.folder.parent)
        code = _main(case.words)
        case.check()
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 1
    except BaseException:  # as the interpreter does at the end of an uncaught exception
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)
