"""The error that the command line prints as one line, and the suggestions at the end of such lines.

This module does not import torch, so that the error for a misspelt word appears at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(Exception):
    """A mistake of the user, explained in one line. The command line prints the line and exits with code 2."""


def suggest(word: object, known: Iterable[object]) -> str:
    """Return a hint that names the known word nearest to a misspelt one, or all known words if none is near."""
    names = [str(name) for name in known]
    near = get_close_matches(str(word), names, n=1)
    return f"did you mean '{near[0]}'?" if near else f"known: {', '.join(names)}"


def require_known(kind: str, word: str, known: Iterable[str]) -> str:
    """Return the word if it is known.

    Raises:
        UserError: If it is not known. The message names the nearest known word, or all known words.
    """
    names = list(known)
    if word not in names:
        raise UserError(f"unknown {kind} '{word}'; {suggest(word, names)}")
    return word
