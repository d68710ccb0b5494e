"""What the numbers of observations and actions mean, in words, for those who use a policy without the simulator.

This module does not import MuJoCo.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

_LEGS = ("front left", "front right", "rear left", "rear right")
_JOINTS = tuple(f"{leg} {joint}" for leg in _LEGS for joint in ("hip", "thigh", "calf"))


class Part(NamedTuple):
    """A part of an observation."""

    name: str
    size: int  # number of entries
    unit: str
    kind: str = ""  # name of the part that this one repeats, from earlier or without errors


@dataclass(frozen=True)
class Layout:
    """The observation and the action of a domain.

    Attributes:
        robot: The robot unless another is chosen.
        parts: The parts of an observation, in order.
        action: Name and meaning of each entry of an action.
        control_rate: Actions per second.
        offsets: What to add to each entry of an action to get the target of a joint, in rad; empty without joints.
        measured: Number of leading entries that a robot can measure.
    """

    robot: str
    parts: tuple[Part, ...]
    action: tuple[tuple[str, str], ...]
    control_rate: float
    offsets: tuple[float, ...] = ()
    measured: int = 0

    @property
    def obs_dim(self) -> int:
        """Numbers in an observation."""
        return sum(part.size for part in self.parts)

    def observation(self) -> list[dict[str, Any]]:
        """Return the parts of an observation with their places."""
        found, start = list[dict[str, Any]](), 0
        for part in self.parts:
            found.append({"name": part.name, "start": start, "size": part.size, "unit": part.unit})
            start += part.size
        return found

    def entries(self) -> list[dict[str, Any]]:
        """Return the entries of an action."""
        entries: list[dict[str, Any]] = [{"name": name, "meaning": meaning} for name, meaning in self.action]
        for entry, offset in zip(entries, self.offsets, strict=False):
            entry["offset"] = offset
        return entries


_FRAME = (
    Part("hand position", 3, "m"),
    Part("gripper openness", 1, "0 closed, 1 open"),
    Part("first object position", 3, "m"),
    Part("first object quaternion", 4, "as the task defines it; zeros if it has none"),
    Part("second object position", 3, "m; zeros if there is none"),
    Part("second object quaternion", 4, "as the task defines it; zeros if it has none"),
)
MANIPULATION = Layout(
    robot="sawyer",
    parts=(
        *_FRAME,
        *(Part(f"previous {part.name}", part.size, part.unit) for part in _FRAME),
        Part("goal position", 3, "m"),
    ),
    action=(
        *((f"hand {axis}", f"moves the hand's target along {axis} by up to 1 cm") for axis in "xyz"),
        ("gripper", "effort of the fingers: 1 closes, -1 opens"),
    ),
    control_rate=80.0,
)

# What a walking robot measures, and what only a simulator knows. A robot multiplies what it measures by the factors.
_ABOVE_GROUND = "m, trunk height minus 0.3 minus ground, within -1 to 1"
_POINTS = "rows from behind to ahead, in a row from right to left"
_MEASURED = (
    Part("angular velocity", 3, "rad/s times 0.25, in the trunk's frame"),
    Part("roll and pitch", 2, "rad"),
    Part("bearing of the next two waypoints", 2, "rad"),
    Part("commanded speed", 1, "m/s"),
    Part("joint angles", 12, "rad, relative to the standing pose"),
    Part("joint speeds", 12, "rad/s times 0.05"),
    Part("last action", 12, "rad, relative to the standing pose"),
    Part("foot contacts", 4, "0.5 touching, -0.5 not"),
    Part("height scan", 132, f"{_ABOVE_GROUND}; {_POINTS}, -3 to 8 by -5 to 5 times scan.spacing from the trunk"),
)
_FOOT_SCAN = Part("foot scan", 36, f"{_ABOVE_GROUND}; {_POINTS}, -5, 0 and 5 cm from each foot")
_PRIVILEGED = (
    Part("velocity", 3, "m/s times 2, in the trunk's frame"),
    Part("load, shift of its centre and friction", 5, "kg, m, -"),
    Part("motor stiffness and damping", 24, "share above the nominal value"),
)
_INDIVIDUAL = (  # of a robot with errors
    Part("friction of the joints", 12, "share above the nominal value"),
    Part("delay of the motors", 1, "share of a control step"),
    Part("bias of the joint angles", 12, "rad"),
    Part("tilt of the IMU's mount", 3, "rad"),
)
REMEMBERED = ("angular velocity", "roll and pitch", "joint angles", "joint speeds", "last action")  # in a history
WITH_ERRORS = (  # what a robot measures inexactly
    "angular velocity",
    "roll and pitch",
    "bearing of the next two waypoints",
    "joint angles",
    "joint speeds",
    "height scan",
    "foot scan",
)


def parkour_layout(
    *, is_real: bool = False, is_privileged: bool = True, history: int = 0, has_foot_scan: bool = False
) -> Layout:
    """Return the layout of parkour.

    Args:
        is_real: The robot has errors, and a memory of what it measured.
        is_privileged: Also show what a robot cannot measure.
        history: Earlier control steps that a real robot remembers.
        has_foot_scan: Also show the ground around the feet.
    """
    measured = [*_MEASURED, _FOOT_SCAN] if has_foot_scan else list(_MEASURED)
    kinds = {part.name: part for part in measured}
    for ago in range(1, history + 1) if is_real else ():
        measured += [kinds[kind]._replace(name=f"{kind}, {ago} ago", kind=kind) for kind in REMEMBERED]
    hidden = list(_PRIVILEGED)
    if is_real:
        true = [kinds[kind]._replace(name=f"true {kind}", kind=kind) for kind in WITH_ERRORS if kind in kinds]
        hidden = [*true, *_PRIVILEGED, *_INDIVIDUAL]
    meaning = "joint target: the standing pose (offset) plus the action, in rad; servo of 50 N m/rad and 3 N m s/rad"
    return Layout(
        robot="go1_real" if is_real else "go1",
        parts=(*measured, *(hidden if is_privileged else ())),
        action=tuple((name, meaning) for name in _JOINTS),
        control_rate=50.0,
        offsets=(0.1, 0.8, -1.5, -0.1, 0.8, -1.5, 0.1, 1.0, -1.5, -0.1, 1.0, -1.5),
        measured=sum(part.size for part in measured),
    )


PARKOUR = parkour_layout()


def layout_of(obs_dim: int, action_dim: int, history: int = 0, *, has_foot_scan: bool = False) -> Layout | None:
    """Return the layout with these sizes; None for one that we do not know, such as that of a plug-in.

    Args:
        obs_dim: Numbers in an observation.
        action_dim: Numbers in an action.
        history: Earlier control steps in an observation of a real robot.
        has_foot_scan: Whether worlds of parkour show the ground around the feet.
    """
    known = [
        parkour_layout(is_real=is_real, is_privileged=is_privileged, history=history, has_foot_scan=has_foot_scan)
        for is_real in (True, False)
        for is_privileged in (True, False)
    ]
    sizes = {(layout.obs_dim, len(layout.action)): layout for layout in (MANIPULATION, *known)}
    return sizes.get((obs_dim, action_dim))
