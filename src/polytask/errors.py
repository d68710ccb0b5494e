"""The error that the command line prints as one line, and the suggestions at the end of such lines.

This module does not import torch, so that the error for a misspelt word appears at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

MOST_LISTED = 25  # largest number of known words that a hint lists


class UserError(Exception):
    """A mistake of the user, explained in one line. The command line prints the line and exits with code 2."""


def shown(value: Any, length: int = 60) -> str:
    """Return a value as one short printable line, for a message."""
    text = str(value)
    text = text if text.isprintable() else ascii(text)[1:-1]
    return text if len(text) <= length else f"{text[:length]}... ({len(text)} characters)"


def suggest(word: object, known: Iterable[object], hints: int = 1, prefix: str = "") -> str:
    """Return a hint for a misspelt word: the nearest known words, at most `hints`, or all known words if none is near.

    If there are too many known words for one line, the three nearest are named, however far they are. The
    hint has them with the prefix.
    """
    names = [str(name) for name in known]
    near = get_close_matches(str(word), names, n=hints)
    if not near and len(names) > MOST_LISTED:
        near = get_close_matches(str(word), names, n=3, cutoff=0.0)
    if not near:
        return f"known: {', '.join(prefix + name for name in names)}"
    *most, last = [f"'{prefix}{name}'" for name in near]
    return f"did you mean {', '.join(most)} or {last}?" if most else f"did you mean {last}?"


def require_known(kind: str, word: str, known: Iterable[str], hints: int = 1) -> str:
    """Return the word if it is known.

    Raises:
        UserError: If it is not known. The message ends in a hint, see `suggest`.
    """
    names = list(known)
    if word not in names:
        raise UserError(f"unknown {kind} '{shown(word)}'; {suggest(word, names, hints)}")
    return word
