"""Collect into the folder of a run while another process runs it: add episodes to the store and change nothing else."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import replace

from polytask.mtopt.config.run import RunConfig
from polytask.mtopt.roles import Collector
from polytask.mtopt.runtime.base import Stops, restored_controller
from polytask.mtopt.runtime.folder import RunFolder


def collect_alongside(
    config: RunConfig, episodes: int, report: Callable[[str], None], stops: Stops = ()
) -> dict[str, float]:
    """Collect at least this number of episodes more, or until a stop; they count for no round.

    Raises:
        UserError: If the settings do not fit the run.
    """
    folder = RunFolder(config.root)
    state = folder.require()
    folder.check(config)
    controller = restored_controller(config, state)
    collector = Collector(config, "alongside")
    added = 0
    try:
        while added < episodes and not stops:
            order = controller.order(controller.extra("collect"))
            # The run finds its own sequences in the store by their seeds, so these need other seeds than its orders.
            metrics = collector.step(replace(order, seed=secrets.randbits(48)))
            added += int(metrics["episodes"])
            report(f"alongside the run  collect  episodes {metrics['episodes']:.0f}")
        return {"episodes": float(len(collector.store)), "added": float(added)}
    finally:
        collector.close()
