"""The one exception that the command line turns into a single line; it needs no torch, so such errors are quick."""

from __future__ import annotations


class UserError(Exception):
    """A mistake of the user's that one clear line explains; the command line prints it and exits with code 2."""
