"""The settings of `polytask completion`."""

from __future__ import annotations

from dataclasses import dataclass

from polytask.settings import CommandConfig, setting


@dataclass
class CompletionConfig(CommandConfig):
    """`polytask completion`."""

    shell: str | None = setting(None, "bash, zsh or fish", choices=("bash", "zsh", "fish"))
