"""`polytask show`: print the settings that a command would run with."""

from __future__ import annotations

from typing import Any

from polytask.config.compose import to_plain, to_yaml
from polytask.result import Result


def show(config: Any) -> Result:
    """Run `polytask show`."""
    plain = to_plain(config)
    return Result(plain, lines=to_yaml(plain).splitlines())
