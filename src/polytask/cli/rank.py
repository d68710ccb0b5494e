"""A command in one of the processes that torchrun started: rank 0 speaks, and a rank that fails ends all of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout

from polytask.errors import UserError
from polytask.parallel.environment import is_parallel, number

COMMANDS = ("train",)  # that several processes can run together

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


def leave_others() -> None:
    """Part from the other ranks in an orderly way, once all are done."""
    if _has_joined:
        from polytask.parallel.ranks import join

        join().leave()


def end_as_rank(code: int, text: str) -> None:
    """After an error of a rank, print the reason unless another rank has, and end this process; alone, do nothing.

    The process ends at once, because an orderly end would wait for an exchange with the other ranks that never comes.
    torchrun notices that it has ended, and ends the others.
    """
    if not is_parallel():
        return
    if _is_first_to_fail():
        sys.stderr.write(text)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _is_first_to_fail() -> bool:
    if not _has_joined:  # all ranks read the same words, so all find the same mistake
        return number("RANK") == 0
    from polytask.parallel.ranks import join

    return join().is_first_to_fail()
