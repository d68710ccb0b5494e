"""The layout of an action, which a world declares: motions, angles and commands."""

from __future__ import annotations

import re
from dataclasses import dataclass

from polytask.errors import UserError
from polytask.settings import setting

MOVE, END = "move", "terminate"  # the mode without a command, and the command that ends an episode
# Commands that do nothing, and the state of the gripper's command in which they do nothing: closed or not. A learner
# must not search them: their values are those of moving, and the data hardly show them.
NO_EFFECT = {"close": True, "open": False}
_NAME = re.compile(r"[a-z][a-z0-9_-]*")


@dataclass
class ActionConfig:
    """The numbers of an action, in this order; set from the world. The defaults are those of QT-Opt's arm."""

    axes: list[str] = setting(["x", "y", "z"], "motions, each a number in [-1, 1]; set from the world")
    # An arm's angle is doubled: a gripper looks the same after half a turn.
    turns: list[str] = setting(["yaw"], "angles, each as sine and cosine; set from the world")
    commands: list[str] = setting(
        ["close", "open", "terminate"],
        "commands, of which an action gives at most one, by a number above one half; set from the world",
    )
    shares: list[float] = setting(
        [0.4, 0.25, 0.25, 0.1],
        "shares of moving alone and of each command in a search; set from the world",
        at_least=0.0,
    )

    @property
    def motion(self) -> int:
        """Return the count of numbers before the commands."""
        return len(self.axes) + 2 * len(self.turns)

    @property
    def size(self) -> int:
        """Return the count of all numbers."""
        return self.motion + len(self.commands)

    @property
    def modes(self) -> tuple[str, ...]:
        """Return the modes of an action: moving alone, or one of the commands."""
        return (MOVE, *self.commands)

    @property
    def names(self) -> tuple[str, ...]:
        """Name all numbers."""
        turns = (f"{part}_{name}" for name in self.turns for part in ("sin", "cos"))
        return (*(f"d{name}" for name in self.axes), *turns, *self.commands)

    def entry(self, command: str) -> int:
        """Return the index of a command's number."""
        return self.motion + self.commands.index(command)

    def turn(self, name: str) -> int:
        """Return the index of the sine of an angle; its cosine is the next number."""
        return len(self.axes) + 2 * self.turns.index(name)

    def describe(self) -> str:
        """Say what the numbers are, for messages."""
        return f"an action of this run has {self.size}: {', '.join(self.names)}"

    def check_together(self, prefix: str = "") -> None:
        """Check that there is a motion, that all names differ, and that every mode has a share.

        Raises:
            UserError: If a value is not valid.
        """
        names = [*self.axes, *self.turns, *self.commands]
        if not self.axes and not self.turns:
            raise UserError(f"{prefix}axes=[] is not valid; an action needs a motion or an angle")
        wrong = [name for name in names if not _NAME.fullmatch(name)]
        if wrong or len(set(names)) < len(names):
            raise UserError(f"{prefix}axes, turns and commands must be different names of small letters, not {names}")
        if len(self.shares) != len(self.modes) or sum(self.shares) <= 0:
            modes = ", ".join(self.modes)
            raise UserError(
                f"{prefix}shares={list(self.shares)} is not valid; give {len(self.modes)} numbers, not all 0: {modes}"
            )
