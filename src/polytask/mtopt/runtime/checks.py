"""Refuse settings and devices that cannot work, before anything is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from polytask.device import check_device, tune_torch
from polytask.errors import UserError
from polytask.mtopt.config import RunConfig
from polytask.mtopt.config.network import NetworkConfig
from polytask.mtopt.config.world import OUTCOME_VIEWS
from polytask.mtopt.networks.layout import layout_of, maps_after, merges_by_place, picture_size
from polytask.mtopt.tasks import TASKS, require_tasks
from polytask.settings import check_values


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
    """Check the settings; return them with the world's reach as the network's, and a lid where a task needs it.

    The command line has checked each value already. Here they are also checked for programs, and together.

    Raises:
        UserError: If a value cannot work.
    """
    check_values(config)
    require_tasks(config.tasks)
    frames = config.collector.max_steps + 1
    if config.replay.capacity < frames:
        raise UserError(
            f"replay.capacity={config.replay.capacity} is not valid; it must be at least {frames}, the frames of the "
            f"longest episode (collector.max_steps={config.collector.max_steps})"
        )
    if any(view >= OUTCOME_VIEWS for view in config.detector.turned):
        raise UserError(
            f"detector.turned={list(config.detector.turned)} is not valid; outcomes have views 0 to {OUTCOME_VIEWS - 1}"
        )
    _check_pictures("detector.network", config.detector.network, config.world.outcome_size)
    camera = replace(config.learner.network.camera, reach=config.world.reach)
    network = replace(config.learner.network, camera=camera)
    size, needed = config.world.image_size, picture_size(network)
    if needed > size or (merges_by_place(network) and needed != size):
        raise UserError(
            f"the network needs pictures of {needed} pixels, the world renders {size}; "
            "set world.image_size or learner.network.image_size"
        )
    _check_pictures("learner.network", network, size, is_located=merges_by_place(network))
    world = replace(config.world, lid=config.world.lid or needs_lid(config.learned))
    return replace(config, world=world, learner=replace(config.learner, network=network))


def needs_lid(tasks: Iterable[str]) -> bool:
    """Return whether one of the tasks needs a lid in the scene."""
    return any(TASKS[task].skill == "cover" for task in tasks)


def _check_pictures(key: str, network: NetworkConfig, rendered: int, *, is_located: bool = False) -> None:
    """Check that a network has pictures of its size, and that its layers fit them.

    Args:
        key: The setting that holds the network.
        network: Its settings.
        rendered: Side of the pictures that the world renders, pixels.
        is_located: The network merges actions by place.

    Raises:
        UserError: If they do not fit.
    """
    size = network.image_size or rendered
    if size > rendered:
        raise UserError(f"{key}.image_size={size} is not valid; the world renders pictures of {rendered} pixels")
    layout = layout_of(network.size)
    parts = (layout.image, layout.joint)
    if is_located and layout.located is not None:
        parts = (layout.located.fine, layout.located.coarse)
    try:
        maps_after(size, *parts)
    except UserError as error:
        raise UserError(f"{key}.size={network.size} is not valid; {error}") from error
