"""The trained policies that come with the package, one file per suite, each with its card.

`<folder>/<suite>.safetensors` is a policy file, `<suite>.json` its card; a hyphen in the name of a suite is an
underscore there. The environment variable POLYTASK_PRETRAINED names another folder.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from polytask.errors import UserError
from polytask.files import Fields, read_json
from polytask.policies.files import SUFFIX, open_info

VARIABLE = "POLYTASK_PRETRAINED"
CARD_FIELDS: Fields = {
    "name": str,
    "licence": str,
    "command": str,
    "run": dict,
    "episodes": int,
    "seed": int,
    "reward": str,
    "episode_length": int,
    "mean_success": float,
    "tasks": dict,
}


def folder() -> Path:
    """Return the folder of the policies."""
    named = os.environ.get(VARIABLE)
    return Path(named).expanduser() if named else Path(__file__).resolve().parents[1] / "pretrained"


def pretrained() -> dict[str, Path]:
    """Return the policy files by the names of their suites."""
    return {path.stem.replace("_", "-"): path for path in sorted(folder().glob(f"*{SUFFIX}"))}


def find_pretrained(suite: str, tasks: Sequence[str] | None = None) -> Path:
    """Return the file of the policy of a suite or, if tasks are given instead, of one that was trained on all of them.

    Raises:
        UserError: If there is none.
    """
    known = pretrained()
    if tasks is None:
        if suite not in known:
            raise UserError(f"there is no pretrained policy of {suite}; {_list(known)}")
        return known[suite]
    for path in sorted(known.values(), key=lambda path: path != known.get(suite)):  # that of the suite first
        if set(tasks) <= set(open_info(path).tasks):
            return path
    raise UserError(f"no pretrained policy was trained on {', '.join(tasks)}; {_list(known)}")


def read_card(path: Path) -> dict[str, Any]:
    """Read the card beside a policy file."""
    return read_json(path.with_suffix(".json"), "card", CARD_FIELDS)


def _list(known: dict[str, Path]) -> str:
    return f"there are policies of {', '.join(known)}" if known else f"there are none in '{folder()}'"
