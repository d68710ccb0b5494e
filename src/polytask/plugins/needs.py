"""Which plug-ins a run or a policy needs: saved with it, and checked when it is loaded."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from polytask.errors import UserError

# The plug-in that each entry came from: (kind, name) -> module. Kinds: task, suite, robot, net, grads, algo, world.
ORIGINS: dict[tuple[str, str], str] = {}
WORLDS = ("task", "suite", "robot")  # kinds that a policy alone does not need


def used_plugins(config: Any, tasks: Sequence[str]) -> dict[str, str]:
    """Return the entries of plug-ins that a training config uses: "net gated" -> module."""
    groups = {"algo": config.algo, "net": config.net, "grads": config.grads}
    used = [(kind, chosen.name) for kind, chosen in groups.items()]
    used += [("net", config.critic_net.name)] if config.critic_net is not None else []
    used += [("robot", str(config.robot)), ("suite", config.suite), *(("task", task) for task in tasks)]
    return {f"{kind} {name}": ORIGINS[kind, name] for kind, name in used if (kind, name) in ORIGINS}


def require_plugins(needs: Mapping[str, str], path: Path, without: Collection[str] = ()) -> None:
    """Check that all plug-ins that a file needs are loaded. They are never loaded from here: a file must run no code.

    Args:
        needs: What `used_plugins` returned when the file was written.
        path: The file, for messages.
        without: Kinds that are not needed now.

    Raises:
        UserError: If one is missing. The line names it.
    """
    for what, origin in needs.items():
        kind, _, name = what.partition(" ")
        if kind not in without and (kind, name) not in ORIGINS:
            how = "import it first" if origin == "__main__" else f"add plugins=[{origin}], or import it first"
            raise UserError(f"'{path}' needs the {kind} '{name}' of the plug-in '{origin}', which is not loaded: {how}")
