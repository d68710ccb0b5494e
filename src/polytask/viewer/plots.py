"""The plots of the page: reward, success and actions of the last control steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from polytask.viewer.session import Numbers
from polytask.viewer.shapes import Floats

if TYPE_CHECKING:
    import viser

_COLOURS = ("#1c7ed6", "#e8590c", "#2b8a3e", "#9c36b5", "#c92a2a", "#0c8599", "#5c940d", "#862e9c", "#495057")
_HEIGHT = 150  # pixels


class Plots:
    """Three plots, which show one world or the mean of all."""

    def __init__(self, gui: viser.GuiApi, actions: int) -> None:
        """Add empty plots for actions of some numbers."""
        self._reward = _plot(gui, "reward", ["reward"])
        self._score = _plot(gui, "success", ["success"], bounds=(-0.05, 1.05))
        self._action = _plot(gui, "action", [str(index) for index in range(actions)], bounds=(-1.1, 1.1))

    def update(self, numbers: Numbers, world: int | None) -> None:
        """Show the numbers of one world, or the mean over all worlds; actions are those of the first world then."""
        if len(numbers.step) == 0:
            return

        def shown(values: Floats) -> Floats:
            return values.mean(1) if world is None else values[:, world]

        self._reward.data = _data(numbers, shown(numbers.reward)[:, None])
        self._score.data = _data(numbers, shown(numbers.score)[:, None])
        self._action.data = _data(numbers, numbers.action[:, world or 0])

    def remove(self) -> None:
        """Remove the plots from the page."""
        for plot in (self._reward, self._score, self._action):
            plot.remove()


def _data(numbers: Numbers, columns: Floats) -> tuple[np.ndarray, ...]:
    """Return the columns (T, C) of a plot, as viser wants them."""
    return (numbers.step.astype(np.float64), *columns.T.astype(np.float64))


def _plot(gui: viser.GuiApi, title: str, names: list[str], bounds: tuple[float, float] | None = None) -> Any:
    nothing = np.zeros(1)
    lines: list[Any] = [
        {"label": name, "stroke": _COLOURS[index % len(_COLOURS)], "width": 1.5} for index, name in enumerate(names)
    ]
    scales: dict[str, Any] = {"x": {"time": False, "auto": True}}
    scales["y"] = {"auto": True} if bounds is None else {"auto": False, "range": bounds}
    return gui.add_uplot(
        data=(nothing, *[nothing] * len(names)),
        series=({"label": "step"}, *lines),
        title=title,
        scales=scales,
        legend={"show": False},
        height=_HEIGHT,
    )
