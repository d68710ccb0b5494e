"""Refuse settings and devices that cannot work, before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from polytask.device import check_device, tune_torch
from polytask.errors import UserError
from polytask.mtopt.config import RunConfig
from polytask.mtopt.networks.layout import merges_by_place, picture_size
from polytask.mtopt.tasks import require_tasks


def check_devices(names: Mapping[str, str]) -> None:
    """Check that devices exist, and choose torch's settings for them.

    Args:
        names: Key of the setting -> name of the device.

    Raises:
        UserError: If a name is not valid, or this machine has no such device.
    """
    for key, name in names.items():
        device = check_device(name, key)
        if device.type == "cuda":
            # TF32: CEM multiplies matrices of all samples. The parts that need full precision avoid matrix products.
            tune_torch(device)


def prepared(config: RunConfig) -> RunConfig:
    """Check the settings, and return them with the world's reach as the network's, which must know how far actions go.

    Raises:
        UserError: If a value cannot work.
    """
    require_tasks(config.tasks)
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
        # A run that is killed between publishing a version and saving its state continues from the version before.
        raise UserError(f"trainer.keep={config.trainer.keep}: 0 keeps all weights, else at least 2 versions are needed")
    if config.trainer.reuse <= 0:
        raise UserError(f"trainer.reuse={config.trainer.reuse}: must be above zero")
    camera = replace(config.learner.network.camera, reach=config.world.reach)
    network = replace(config.learner.network, camera=camera)
    size, needed = config.world.image_size, picture_size(network)
    if needed > size or (merges_by_place(network) and needed != size):
        raise UserError(
            f"the network needs pictures of {needed} pixels, the world renders {size}; "
            "set world.image_size or learner.network.image_size"
        )
    return replace(config, learner=replace(config.learner, network=network))
