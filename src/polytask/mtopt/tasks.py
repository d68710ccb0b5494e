"""The tasks of the bins by name. What counts as success is learned from labelled pictures; people read the sentences.

A run has these and those that people add to it (`run_tasks`).
"""

from __future__ import annotations

from polytask.mtopt.records import TaskInfo

KINDS = ("banana", "bottle", "sausage", "milk", "box", "can", "carrot")  # objects, in the scene's order
# Sections of the plate, and the words for them in sentences.
SECTIONS = {
    "bottom": "the large beige section",
    "top-left": "the pink section",
    "top-right": "the turquoise section",
}
BROAD = {"lift": "lift-any", "place": "place-any"}  # skill -> the task that succeeds with any object and section

MAIN_TASKS = (
    "lift-any",
    *(f"lift-{kind}" for kind in KINDS),
    "place-any",
    *(f"place-{section}" for section in SECTIONS),
)
HELD_OUT = ("lift-red-thing", "lift-any-two", "place-banana")  # learned by relabelling old episodes alone

TASKS: dict[str, TaskInfo] = {
    task.name: task
    for task in (
        TaskInfo("lift-any", "lift", "The hand holds any object up."),
        *(TaskInfo(f"lift-{kind}", "lift", f"The hand holds the {kind} up.") for kind in KINDS),
        TaskInfo("place-any", "place", "An object lies on the plate and the hand is empty."),
        *(
            TaskInfo(f"place-{name}", "place", f"An object lies with its middle on {words} of the plate.")
            for name, words in SECTIONS.items()
        ),
        TaskInfo("lift-red-thing", "lift", "The hand holds something red up: the can or the sausage."),
        TaskInfo("lift-any-two", "lift", "The hand holds two or more objects up at once."),
        TaskInfo("place-banana", "place", "The banana lies on the plate."),
        TaskInfo("cover-object", "cover", "The black lid lies on top of an object."),
    )
}
# In the order of their places in networks and detectors. They include tasks that a run does not learn yet, so that a
# new task needs new data and no new network.
ALL_TASKS = tuple(TASKS)
