"""The command line: `polytask <command> [key=value ...]`.

A mistake of the user prints one line on stderr and gives exit code 2. Torch and MuJoCo are imported only when a command
runs, so that help texts and errors about misspelt keys appear at once.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from types import FrameType
from typing import Any

import polytask
from polytask.cli.commands import COMMANDS, FAMILIES
from polytask.cli.help import help_of, overview
from polytask.cli.rank import end_as_rank, join_others, leave_others, quiet_unless_first
from polytask.errors import UserError, require_known
from polytask.plugins.loading import load_installed, load_plugins

_HELP = ("-h", "--help")
COLLECTED = {"sweep": "grid", "reproduce": "changes"}  # command -> the key that collects the words for its runs


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    with _interrupts() as received:
        return _answer(words, received)


def _answer(words: list[str], received: list[int]) -> int:
    """Run a command; turn an error into one line and an exit code. `received` lists the interrupts so far."""
    try:
        with quiet_unless_first():
            code = _main(words)
            leave_others(code)
            return code
    except Exception as error:
        line, code = ("interrupted", 130) if received else _explain(error)
        if line is None or os.environ.get("POLYTASK_DEBUG"):
            end_as_rank(code, traceback.format_exc())
            raise
        return _fail(line, code)
    except KeyboardInterrupt:
        return _fail("interrupted", 130)


def _fail(line: str, code: int) -> int:
    """Print the line that explains an error, and return the exit code."""
    text = f"polytask: {line}\n"
    end_as_rank(code, text)
    sys.stderr.write(text)
    return code


def _explain(error: Exception) -> tuple[str | None, int]:
    """Return the line that explains an error to the user, and the exit code. There is no line for a bug."""
    if isinstance(error, UserError):
        return " ".join(str(error).split()), 2
    if _is_out_of_memory(error):
        return "not enough memory; use fewer worlds (num_envs=), smaller batches or networks", 2
    return None, 1


@contextlib.contextmanager
def _interrupts() -> Iterator[list[int]]:
    """Collect interrupts (Ctrl-C). A library can raise an error of its own instead of passing KeyboardInterrupt on."""
    received: list[int] = []

    def remember(number: int, frame: FrameType | None) -> None:
        received.append(number)
        signal.default_int_handler(number, frame)

    is_main = threading.current_thread() is threading.main_thread()  # only it may set handlers
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield received
        return
    signal.signal(signal.SIGINT, remember)
    try:
        yield received
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _is_out_of_memory(error: Exception) -> bool:
    """Return whether an error says that memory is exhausted. Torch has no error type of its own for the CPU."""
    texts = ("out of memory", "can't allocate memory", "Storage size calculation overflowed", "bad allocation")
    return isinstance(error, MemoryError) or any(text in str(error) for text in texts)


def _main(words: list[str]) -> int:
    if not words or words[0] in (*_HELP, "help"):
        sys.stdout.write(overview())
        return 0
    if words[0] == "--version":
        sys.stdout.write(f"polytask {polytask.__version__}\n")
        return 0
    if words[0] in FAMILIES and (len(words) == 1 or words[1] in _HELP):
        sys.stdout.write(overview(words[0]))
        return 0
    command, rest = split_command(words)
    target = command  # `polytask show` can show the settings of another command
    if command == "show" and rest and "=" not in rest[0] and rest[0] not in _HELP:
        target, rest = split_command(rest)
    load_installed()
    load_plugins(_plugins(rest))
    if any(word in _HELP for word in rest):
        sys.stdout.write(help_of(target, [word for word in rest if word not in _HELP]))
        return 0
    return _run(command, target, words_of(target, rest))


def _plugins(words: Sequence[str]) -> list[str]:
    """Return the plug-ins that a command line names. They are imported first, since they add options and settings."""
    texts = [word.partition("=")[2] for word in words if word.startswith("plugins=")]
    if not texts:
        return []
    from polytask.config.values import parse

    return parse("plugins", texts[-1], list[str] | None) or []


def split_command(words: Sequence[str]) -> tuple[str, list[str]]:
    """Split the words of a command line into the command, of one or two words, and the words after it."""
    length = 2 if words[0] in FAMILIES else 1
    command = " ".join(words[:length])
    return require_known("command", command, COMMANDS), list(words[length:])


def words_of(command: str, words: Sequence[str]) -> list[str]:
    """Return the `key=value` words of a command line: write out what the command lets users leave out."""
    positional = COMMANDS[command].positional
    if positional and words and "=" not in words[0]:
        return [f"{positional}={words[0]}", *words[1:]]
    return _collect(command, words, COLLECTED[command]) if command in COLLECTED else list(words)


def _collect(command: str, words: Sequence[str], key: str) -> list[str]:
    """Collect the words that are not keys of the command itself in one of its keys."""
    from polytask.config.compose import current_name, names_of
    from polytask.config.values import quote

    schema, own, others = COMMANDS[command].schema, list[str](), list[str]()
    for word in words:
        name, equals, value = word.partition("=")
        name = current_name(schema, name)
        (own if name in names_of(schema) else others).append(name + equals + value)
    return [*own, *([f"{key}=[{','.join(map(quote, others))}]"] if others else [])]


def _run(command: str, target: str, words: list[str]) -> int:
    """Compose the config of the target, run the command with it and print the result."""
    from polytask.config.compose import compose

    schema, saved = COMMANDS[target].schema, COMMANDS[target].saved
    # Words with a dot may go only with the settings of the run that the command continues or uses.
    config = compose(schema, [word for word in words if "." not in word.partition("=")[0]] if saved else words)
    join_others(command)
    if saved:
        config = compose(schema, words, saved=_function(saved)(config))
    from polytask.cli.console import show  # imports torch, so only after the words have been checked

    # With format=json, stdout contains only the object. Output of libraries goes to stderr.
    with contextlib.redirect_stdout(sys.stderr) if config.format == "json" else contextlib.nullcontext():
        result = _function(COMMANDS[command].run)(config)
    show(result, config.format)
    return result.exit_code


def _function(name: str) -> Callable[[Any], Any]:
    """Import the function that is named `module:function`."""
    module, _, attribute = name.partition(":")
    function: Callable[[Any], Any] = getattr(import_module(module), attribute)
    return function
