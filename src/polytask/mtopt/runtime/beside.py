"""Collect into the folder of a run that another process is at: episodes go to the store, all else is left alone."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import replace

from polytask.mtopt.config.run import RunConfig
from polytask.mtopt.roles import Collector, Controller
from polytask.mtopt.runtime.folder import RunFolder


def collect_beside(config: RunConfig, episodes: int, say: Callable[[str], None]) -> dict[str, float]:
    """Fill the store until it holds so many episodes, whoever collected them; they count for no round.

    Raises:
        UserError: If the settings do not fit the run.
    """
    folder = RunFolder(config.root)
    state = folder.require()
    folder.check(config)
    controller = Controller(config)
    if state["controller"] is not None:
        controller.load_state_dict(state["controller"])
    collector = Collector(config, "beside")
    added = 0
    try:
        while len(collector.store) < episodes:
            order = controller.order(controller.extra("collect"))
            # The run counts its own orders, and takes a sequence with an order's seed for its own: draw another one.
            metrics = collector.step(replace(order, seed=secrets.randbits(48)))
            added += int(metrics["episodes"])
            say(f"beside the run  collect  episodes {metrics['episodes']:.0f}")
        return {"episodes": float(len(collector.store)), "added": float(added)}
    finally:
        collector.close()
