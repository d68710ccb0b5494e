"""The layout of an action as a world declares it."""

import pytest

from polytask.errors import UserError
from polytask.mtopt.config.action import ActionConfig


def test_the_default_is_the_arm_of_qt_opt():
    layout = ActionConfig()
    assert layout.names == ("dx", "dy", "dz", "sin_yaw", "cos_yaw", "close", "open", "terminate")
    assert (layout.size, layout.motion, layout.modes) == (8, 5, ("move", "close", "open", "terminate"))
    assert (layout.entry("open"), layout.turn("yaw")) == (6, 3)


@pytest.mark.parametrize(
    ("layout", "line"),
    [
        (ActionConfig(axes=[], turns=[]), "an action needs a motion or an angle"),
        (ActionConfig(axes=["x", "x"]), "must be different names"),
        (ActionConfig(axes=["X"]), "names of small letters"),
        (ActionConfig(commands=["terminate"]), "give 2 numbers, not all 0: move, terminate"),
        (ActionConfig(shares=[0.0] * 4), "not all 0"),
    ],
)
def test_layouts_that_cannot_work_are_refused(layout, line):
    with pytest.raises(UserError, match=line):
        layout.check_together("action.")
