"""The table of tasks."""

from polytask.mtopt.tasks import ALL_TASKS, HELD_OUT, MAIN_TASKS, TASKS


def test_main_tasks_are_eight_lifts_and_four_places():
    skills = [TASKS[task].skill for task in MAIN_TASKS]
    assert (skills.count("lift"), skills.count("place"), len(skills)) == (8, 4, 12)
    assert MAIN_TASKS[0] == "lift-any"
    assert not set(HELD_OUT) & set(MAIN_TASKS)
    assert all(name == task.name and task.sentence.endswith(".") for name, task in TASKS.items())


def test_the_order_of_the_tasks_has_not_changed():
    """Otherwise the indices of saved networks and detectors would mean other tasks."""
    assert ALL_TASKS[:12] == MAIN_TASKS
    assert ALL_TASKS[12:] == (*HELD_OUT, "cover-object")
