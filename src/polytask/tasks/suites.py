"""Suites: named tuples of task names."""

from __future__ import annotations

SUITES: dict[str, tuple[str, ...]] = {
    "mt10": (
        "reach",
        "push",
        "pick-place",
        "door-open",
        "drawer-open",
        "drawer-close",
        "button-press-topdown",
        "peg-insert-side",
        "window-open",
        "window-close",
    ),
}
