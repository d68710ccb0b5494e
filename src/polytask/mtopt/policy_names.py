"""Names of policies, as episodes carry them.

A policy is named after the weights it used: `q:12`, or `q:12:lift-any` where it acted for another task than the
commanded one. Scripts have names of their own and count as version 0.
"""

from __future__ import annotations

import re

SCRIPTED = "scripted"  # how names of scripts begin
_POLICY = re.compile(r"q:(\d+)(?::([a-z0-9-]+))?")


def policy_name(version: int, acts_as: str | None = None) -> str:
    """Name a policy by its weights and, where it does not act for its own task, the task it acts for."""
    return f"q:{version}" if acts_as is None else f"q:{version}:{acts_as}"


def version_of(policy: str) -> int:
    """Return the version of the weights that a policy used; 0 for scripts and people."""
    found = _POLICY.fullmatch(policy)
    return int(found[1]) if found else 0


def acts_as(policy: str) -> str | None:
    """Return the task that a policy acted for, where that is not the commanded one."""
    found = _POLICY.fullmatch(policy)
    return found[2] if found else None
