"""What the numbers of observations and actions mean, in words, for those who use a policy without the simulator.

This module does not import MuJoCo.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_LEGS = ("front left", "front right", "rear left", "rear right")
_JOINTS = tuple(f"{leg} {joint}" for leg in _LEGS for joint in ("hip", "thigh", "calf"))


@dataclass(frozen=True)
class Layout:
    """The observation and the action of a domain.

    Attributes:
        robot: The robot unless another is chosen.
        parts: Name, number of entries, and unit of each part of an observation, in order.
        action: Name and meaning of each entry of an action.
        control_rate: Actions per second.
    """

    robot: str
    parts: tuple[tuple[str, int, str], ...]
    action: tuple[tuple[str, str], ...]
    control_rate: float

    @property
    def obs_dim(self) -> int:
        """Numbers in an observation."""
        return sum(size for _, size, _ in self.parts)

    def observation(self) -> list[dict[str, Any]]:
        """Return the parts of an observation with their places."""
        found, start = list[dict[str, Any]](), 0
        for name, size, unit in self.parts:
            found.append({"name": name, "start": start, "size": size, "unit": unit})
            start += size
        return found

    def entries(self) -> list[dict[str, Any]]:
        """Return the entries of an action."""
        return [{"name": name, "meaning": meaning} for name, meaning in self.action]


_FRAME = (
    ("hand position", 3, "m"),
    ("gripper openness", 1, "0 closed, 1 open"),
    ("first object position", 3, "m"),
    ("first object quaternion", 4, "as the task defines it; zeros if it has none"),
    ("second object position", 3, "m; zeros if there is none"),
    ("second object quaternion", 4, "as the task defines it; zeros if it has none"),
)
MANIPULATION = Layout(
    robot="sawyer",
    parts=(*_FRAME, *((f"previous {name}", size, unit) for name, size, unit in _FRAME), ("goal position", 3, "m")),
    action=(
        *((f"hand {axis}", f"moves the hand's target along {axis} by up to 1 cm") for axis in "xyz"),
        ("gripper", "effort of the fingers: 1 closes, -1 opens"),
    ),
    control_rate=80.0,
)
PARKOUR = Layout(
    robot="go1",
    parts=(
        ("angular velocity", 3, "0.25 rad/s, in the trunk's frame"),
        ("roll and pitch", 2, "rad"),
        ("bearing of the next two waypoints", 2, "rad"),
        ("commanded speed", 1, "m/s"),
        ("joint angles", 12, "rad, relative to the standing pose"),
        ("joint speeds", 12, "0.05 rad/s"),
        ("last action", 12, ""),
        ("foot contacts", 4, "0.5 touching, -0.5 not"),
        ("height scan", 132, "m, trunk height minus 0.3 minus ground"),
        ("velocity", 3, "2 m/s, in the trunk's frame"),
        ("load, shift of its centre and friction", 5, "kg, m, -"),
        ("motor stiffness and damping", 24, "share above the nominal value"),
    ),
    action=tuple((name, "joint target: the standing pose plus the action, in rad") for name in _JOINTS),
    control_rate=50.0,
)


def layout_of(obs_dim: int, action_dim: int) -> Layout | None:
    """Return the layout with these sizes; None for one that we do not know, such as that of a plug-in."""
    sizes = {(layout.obs_dim, len(layout.action)): layout for layout in (MANIPULATION, PARKOUR)}
    return sizes.get((obs_dim, action_dim))
