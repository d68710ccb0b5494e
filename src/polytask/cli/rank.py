"""A command in one of the processes that torchrun started: rank 0 speaks, and a rank that fails ends all of them."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout

from polytask.errors import UserError
from polytask.parallel.environment import is_parallel, number

COMMANDS = ("train",)  # that several processes can run together
PATIENCE = 10.0  # seconds that a rank gives another to report the error of both

_has_joined = False


@contextmanager
def quiet_unless_first() -> Iterator[None]:
    """Hide what ranks other than 0 print; their errors are reported after this context."""
    if not is_parallel() or number("RANK") == 0:
        yield
        return
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        yield


def join_others(command: str) -> None:
    """Connect this process to the other ranks, if there are any.

    Raises:
        UserError: If several processes cannot run this command together.
    """
    global _has_joined
    if not is_parallel():
        return
    if command not in COMMANDS:
        raise UserError(f"'{command}' runs in one process, but torchrun started {number('WORLD_SIZE')}; leave it out")
    from polytask.parallel.ranks import join

    join()
    _has_joined = True


def leave_others(code: int) -> None:
    """Part from the other ranks once all are done, and end this process; alone, do nothing."""
    if _has_joined:
        from polytask.parallel.ranks import join

        join().leave()
        _end(code)  # at once, because a thread of the connections that is still busy would abort the process


def end_as_rank(code: int, text: str) -> None:
    """After an error of a rank, print the reason unless another rank has, and end this process; alone, do nothing.

    The process does not end in the usual way, which would wait for an exchange with the other ranks that never comes.
    torchrun notices that it has ended, and ends the others.
    """
    if not is_parallel():
        return
    if not _is_first_to_fail():
        time.sleep(PATIENCE)  # torchrun would end the rank that speaks as soon as this one has ended
        if _has_joined:
            _end(code)
    sys.stderr.write(text)
    _end(code)


def _end(code: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _is_first_to_fail() -> bool:
    if not _has_joined:  # all ranks read the same words, so all find the same mistake
        return number("RANK") == 0
    from polytask.parallel.ranks import join

    return join().is_first_to_fail()
