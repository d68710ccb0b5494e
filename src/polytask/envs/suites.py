"""Suites: the names of their tasks, in the order of Meta-World and MTBench."""

from __future__ import annotations

from collections.abc import Sequence

FLAT = "flat"  # where a robot learns to walk: not one of the twenty terrains


def _names(text: str) -> tuple[str, ...]:
    """Split a list of names at spaces and ends of lines."""
    return tuple(text.split())


_MT10 = _names("""
    reach push pick-place door-open drawer-open drawer-close button-press-topdown peg-insert-side
    window-open window-close
""")

_PARKOUR = _names("""
    box-climb lipped-ramp lipped-dome plain-ramp a-frame dome even-gaps uneven-gaps round-pads domed-pads
    side-slopes round-stones scattered-stones wide-stairs narrow-stairs block-climb spiral-stairs squeeze poles
    beam flat
""")

# The ten tiles that the worlds of a parkour task use.
LEVELS: dict[str, str] = {
    "flat": "flat ground for every task, to learn to walk before training on the terrains",
    "easy": "ten variants of the lowest difficulty",
    "hard": "ten difficulties, with the worlds of a task spread evenly over them",
    "curriculum": "ten difficulties; a world moves up or down depending on the waypoints reached",
}

# The terrain of each parkour suite.
SUITE_LEVELS: dict[str, str] = {
    "parkour-flat": "flat",
    "parkour-easy": "easy",
    "parkour-hard": "hard",
    "parkour-hard-cl": "curriculum",
}

SUITES: dict[str, tuple[str, ...]] = {
    "mt10": _MT10,
    "mt25": _MT10
    + _names("""
        coffee-pull pick-out-of-hole disassemble pick-place-wall basketball stick-pull button-press-wall faucet-open
        door-lock lever-pull sweep-into faucet-close coffee-button button-press-topdown-wall dial-turn
    """),
    "mt50": _names("""
        assembly basketball bin-picking box-close button-press-topdown button-press-topdown-wall button-press
        button-press-wall coffee-button coffee-pull coffee-push dial-turn disassemble door-close door-lock door-open
        door-unlock hand-insert drawer-close drawer-open faucet-open faucet-close hammer handle-press-side
        handle-press handle-pull-side handle-pull lever-pull pick-place-wall pick-out-of-hole pick-place plate-slide
        plate-slide-side plate-slide-back plate-slide-back-side peg-insert-side peg-unplug-side soccer stick-push
        stick-pull push push-wall push-back reach reach-wall shelf-place sweep-into sweep window-open window-close
    """),
    "ml10-train": _names("""
        reach push pick-place door-open drawer-close button-press-topdown peg-insert-side window-open sweep basketball
    """),
    "ml10-test": _names("drawer-open door-close shelf-place sweep-into lever-pull"),
    "ml45-train": _names("""
        assembly basketball button-press-topdown button-press-topdown-wall button-press button-press-wall
        coffee-button coffee-pull coffee-push dial-turn disassemble door-close door-open drawer-close drawer-open
        faucet-open faucet-close hammer handle-press-side handle-press handle-pull-side handle-pull lever-pull
        pick-place-wall pick-out-of-hole push-back pick-place plate-slide plate-slide-side plate-slide-back
        plate-slide-back-side peg-insert-side peg-unplug-side soccer stick-push stick-pull push-wall push reach-wall
        reach shelf-place sweep-into sweep window-open window-close
    """),
    "ml45-test": _names("bin-picking box-close hand-insert door-lock door-unlock"),
    **dict.fromkeys(SUITE_LEVELS, _PARKOUR),
}


def counted(tasks: Sequence[str]) -> list[int]:
    """Return the indices of the tasks that a mean is over: all but flat ground, unless it is the only one."""
    terrains = [index for index, task in enumerate(tasks) if task != FLAT]
    return terrains or list(range(len(tasks)))
