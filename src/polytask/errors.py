"""The error that the command line prints as one line, and the suggestions that such lines end in.

Needs no torch, so that a misspelt word is answered at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(Exception):
    """A mistake of the user that one clear line explains; the command line prints it and exits with code 2."""


def suggest(word: object, known: Iterable[object]) -> str:
    """Name the known word that is nearest to a misspelt one, or all known words if none is near."""
    names = [str(name) for name in known]
    near = get_close_matches(str(word), names, n=1)
    return f"did you mean '{near[0]}'?" if near else f"known: {', '.join(names)}"


def require_known(kind: str, word: str, known: Iterable[str]) -> str:
    """Return the word if it is known.

    Raises:
        UserError: If it is not; the message names the nearest known word, or all of them.
    """
    names = list(known)
    if word not in names:
        raise UserError(f"unknown {kind} '{word}'; {suggest(word, names)}")
    return word
