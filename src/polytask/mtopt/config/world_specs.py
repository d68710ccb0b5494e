"""What worlds declare about themselves, and the registry of worlds. Nothing here builds one (`world.make_world`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from polytask.errors import UserError, require_known, shown, suggest
from polytask.mtopt import tasks as bins
from polytask.mtopt.config.action import ActionConfig
from polytask.mtopt.records import TaskInfo
from polytask.mtopt.task_table import require_tasks


@dataclass(frozen=True)
class WorldSpec:
    """A kind of world.

    Attributes:
        name: For `world.kind`.
        about: One line.
        build: Makes the world from a `WorldConfig`: a class or function, or its place as `module:name`, which is
            imported when a world is built. The result is a `world.protocol.World`. None: nothing can be simulated.
        tasks: Those that the world knows, in the order of their places; it has the truth of all of them or of none.
        captions: What the pictures of an outcome show, one of each view, for people who label; empty: any number.
        main: Tasks that a run learns unless it names its own; empty: all.
        action: Layout of an action; None: that of `learner.network.action`.
        broad: Skill -> the task whose policy helps the others of the skill at first.
        chains: Pairs of a task and of a skill that continues from its outcome, which evaluation plays.
        image_aspect: Width of the policy's pictures by their height; several square views may lie side by side.
        outcome_aspect: The same of each view of an outcome.
        has_camera: `learner.network.camera` describes its camera, so that a network can merge actions by place.
        has_truth: It can say whether a task succeeded. A robot cannot: there, people and the detector do.
    """

    name: str
    about: str
    build: str | Callable[[Any], Any] | None
    tasks: tuple[TaskInfo, ...]
    captions: tuple[str, ...]
    main: tuple[str, ...] = ()
    action: ActionConfig | None = field(default_factory=ActionConfig)
    broad: Mapping[str, str] = field(default_factory=dict)
    chains: tuple[tuple[str, str], ...] = ()
    image_aspect: float = 1.0
    outcome_aspect: float = 1.0
    has_camera: bool = False
    has_truth: bool = True

    @property
    def skills(self) -> tuple[str, ...]:
        """Return the skills in the order of a sequence: that of the tasks."""
        return tuple(dict.fromkeys(one.skill for one in self.tasks))

    @property
    def learned(self) -> tuple[str, ...]:
        """Return the tasks that a run learns unless it names its own."""
        return self.main or tuple(one.name for one in self.tasks)

    @property
    def graded(self) -> tuple[str, ...]:
        """Return the tasks whose truth the world knows."""
        return tuple(one.name for one in self.tasks) if self.has_truth else ()

    def check(self) -> None:
        """Check that the parts fit together.

        Raises:
            UserError: If they do not.
        """
        where = f"world '{self.name}'"
        if not self.tasks or not self.captions or self.action is None or self.build is None:
            raise UserError(f"{where} needs at least one task, one view of an outcome, an action, and what builds it")
        self.action.check_together(f"{where}: action.")
        known = [one.name for one in self.tasks]
        named = (*self.main, *self.broad.values(), *(task for task, _ in self.chains))
        require_tasks(named, known)
        for skill in (*self.broad, *(skill for _, skill in self.chains)):
            require_known(f"skill of {where}", skill, self.skills)
        if min(self.image_aspect, self.outcome_aspect) <= 0:
            raise UserError(f"{where}: the aspect of a picture must be more than 0")


BINS = WorldSpec(
    name="bins",
    about="two bins with seven objects, a plate and a Panda, as in MT-Opt",
    build="polytask.mtopt.world.bin_world:BinWorld",
    tasks=tuple(bins.TASKS.values()),
    captions=("hand, front", "hand, side", "plate, above"),
    main=bins.MAIN_TASKS,
    broad=bins.BROAD,
    chains=((bins.BROAD["lift"], "place"),),
    has_camera=True,
)

DRAWER = WorldSpec(
    name="drawer",
    about="a drawer that a Sawyer pulls open and pushes shut, seen by two cameras side by side",
    build="polytask.mtopt.world.drawer_world:DrawerWorld",
    tasks=(
        TaskInfo("drawer-open", "open", "The drawer is wide open."),
        TaskInfo("drawer-close", "close", "The drawer is shut."),
        TaskInfo("drawer-half", "open", "The drawer is about half open."),
    ),
    captions=("from the side", "from above"),
    main=("drawer-open", "drawer-close"),
    action=ActionConfig(axes=["x", "y", "z"], turns=[], commands=["terminate"], shares=[0.8, 0.2]),
    chains=(("drawer-open", "close"),),
    image_aspect=2.0,
    outcome_aspect=1.5,
)

# A robot of one's own. It begins with the names of the bins' tasks; people add theirs.
ROBOT = WorldSpec(
    name="robot",
    about="no simulation: the episodes of a real robot, which `polytask mtopt import` adds",
    build=None,
    tasks=BINS.tasks,
    captions=(),
    main=BINS.main,
    action=None,
    broad=BINS.broad,
    has_camera=True,  # people may set it
    has_truth=False,
)

WORLDS: dict[str, WorldSpec] = {spec.name: spec for spec in (BINS, DRAWER, ROBOT)}


def world_spec(name: str) -> WorldSpec:
    """Return what a world declares.

    Raises:
        UserError: If there is no such world.
    """
    if name not in WORLDS:
        hint = "one of a plug-in needs plugins=[MODULE]"
        raise UserError(f"unknown world '{shown(name)}'; {suggest(name, WORLDS)}; {hint}")
    return WORLDS[name]
