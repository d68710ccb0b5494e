"""Refuse settings of a run that cannot work, before anything slow happens."""

from __future__ import annotations

from polytask.errors import UserError, require_known
from polytask.mtopt.config import RunConfig
from polytask.mtopt.networks.layout import merges_by_place, picture_size
from polytask.mtopt.tasks import TASKS


def check(config: RunConfig) -> RunConfig:
    """Check the settings, and tell the network how far actions move the hand in this world.

    Raises:
        UserError: If a value cannot work.
    """
    for name in config.tasks:
        require_known("task", name, TASKS)
    least = {
        "collector.max_steps": (config.collector.max_steps, 1),
        "trainer.batch": (config.trainer.batch, 2),
        "trainer.publish_every": (config.trainer.publish_every, 1),
        "trainer.buffer": (config.trainer.buffer, config.trainer.batch),
        "updater.rows": (config.updater.rows, 1),
        "world.num_envs": (config.world.num_envs, 1),
        "controller.rounds": (config.controller.rounds, 0),
        "ray.collectors": (config.ray.collectors, 1),
        "ray.updaters": (config.ray.updaters, 1),
    }
    for name, (value, bound) in least.items():
        if value < bound:
            raise UserError(f"{name}={value}: at least {bound} is needed")
    if config.trainer.keep < 0 or config.trainer.keep == 1:
        # A run that is killed between publishing a version and saving its state goes on from the version before.
        raise UserError(f"trainer.keep={config.trainer.keep}: 0 keeps all weights, else at least 2 versions are needed")
    if config.trainer.reuse <= 0:
        raise UserError(f"trainer.reuse={config.trainer.reuse}: must be above zero")
    network = config.learner.network
    network.camera.reach = config.world.reach
    size, seen = config.world.image_size, picture_size(network)
    if seen > size or (merges_by_place(network) and seen != size):
        raise UserError(
            f"the network looks at {seen} pixels, pictures have {size}; "
            "set world.image_size or learner.network.image_size"
        )
    return config
