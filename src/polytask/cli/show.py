"""`polytask show`: print the settings that a command would run with."""

from __future__ import annotations

from typing import Any

from omegaconf import OmegaConf

from polytask.config.compose import to_plain
from polytask.result import Result


def show(config: Any) -> Result:
    """Run `polytask show`."""
    plain = to_plain(config)
    return Result(plain, lines=OmegaConf.to_yaml(OmegaConf.create(plain)).splitlines())
