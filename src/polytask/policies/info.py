"""What a policy file says about its policy: enough to rebuild the network, and what a user of the policy must know."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from polytask.errors import UserError
from polytask.files import Fields, check_fields, parse_json

FORMAT = 1  # increased when the fields change their meaning
KEY = "polytask"  # name of the description in the metadata of a file
FIELDS: Fields = {
    "tasks": [str],
    "obs_dim": int,
    "action_dim": int,
    "out_dim": int,
    "net": {"name": str},
    "decode": str,
    "obs_clip": float,
    "algo": str,
    "robot": str | None,
    "observation": [{"name": str, "start": int, "size": int}],
    "action": [{"name": str}],
    "control_rate": float | None,
    "worlds": dict,
    "run": dict,
    "plugins": dict,
}


@dataclass(frozen=True)
class PolicyInfo:
    """The description of a policy. Plain values only, so that any file format can hold it as JSON.

    Attributes:
        tasks: Names of the tasks, in the order of their numbers.
        obs_dim: Numbers in an observation.
        action_dim: Numbers in an action; all lie in [-1, 1].
        out_dim: Outputs of the network.
        net: Settings of the network.
        decode: How outputs become actions, see `algos.shared.actor_layout`.
        obs_clip: Bound on normalized observations.
        algo: Name of the algorithm that trained it.
        robot: Name of the robot.
        observation: Parts of an observation: name, start, size, unit.
        action: Entries of an action: name and meaning.
        control_rate: Actions per second.
        worlds: Options of the worlds that differ from the defaults, such as `episode_length`.
        run: Name, seed, frames, version and commit of the run that trained it.
        plugins: The plug-in that the network needs, if any: "net gated" -> module.
    """

    tasks: tuple[str, ...]
    obs_dim: int
    action_dim: int
    out_dim: int
    net: dict[str, Any]
    decode: str
    obs_clip: float
    algo: str
    robot: str | None = None
    observation: list[dict[str, Any]] = field(default_factory=list)
    action: list[dict[str, Any]] = field(default_factory=list)
    control_rate: float | None = None
    worlds: dict[str, Any] = field(default_factory=dict)
    run: dict[str, Any] = field(default_factory=dict)
    plugins: dict[str, str] = field(default_factory=dict)

    @property
    def parts(self) -> int:
        """Parts of the output that have heads of their own: means and spreads, or 1.

        Networks of an earlier version, which do not say so, have one head.
        """
        return self.out_dim // self.action_dim if self.decode == "squash" and self.net.get("two_heads") else 1

    @property
    def joint_offsets(self) -> list[float] | None:
        """What each entry of an action is added to for a joint angle in rad; None if actions are no such offsets."""
        offsets = [float(entry["offset"]) for entry in self.action if "offset" in entry]
        return offsets if offsets and len(offsets) == len(self.action) else None

    def to_json(self) -> str:
        """Write the description as JSON."""
        return json.dumps({"format": FORMAT, **asdict(self)})


def read_info(text: str, path: Path) -> PolicyInfo:
    """Read a description.

    Raises:
        UserError: If it is damaged or of a newer version.
    """
    found = parse_json(text)
    if found is None:
        raise UserError(f"'{path}' is damaged: its description is not JSON")
    if not isinstance(found, Mapping) or found.get("format") != FORMAT:
        raise UserError(f"'{path}' is not a policy of this version of polytask")
    plain = dict(found)
    check_fields(plain, FIELDS, path)
    check_fields(plain["plugins"], dict.fromkeys(plain["plugins"], str), path, "plugins.")
    known = {each.name: plain[each.name] for each in fields(PolicyInfo)}
    sizes = {name: plain[name] for name in ("obs_dim", "action_dim", "out_dim")} | {"tasks": len(plain["tasks"])}
    if wrong := [name for name, size in sizes.items() if size < 1]:
        raise UserError(f"'{path}' is damaged: field '{wrong[0]}' must be positive")
    return PolicyInfo(**{**known, "tasks": tuple(plain["tasks"])})
