"""Refuse settings and devices that cannot work, before anything is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from polytask.device import check_device, tune_torch
from polytask.errors import UserError
from polytask.mtopt.config import RunConfig
from polytask.mtopt.config.network import NetworkConfig
from polytask.mtopt.config.world import WorldConfig
from polytask.mtopt.config.world_specs import WorldSpec, world_spec
from polytask.mtopt.detector.labels import fewest, kept_aside
from polytask.mtopt.networks.layout import Size, layout_of, maps_after, merges_by_place, picture_size
from polytask.mtopt.roles.teacher import random_labels
from polytask.mtopt.run_tasks import tasks_of
from polytask.mtopt.task_table import TaskTable
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
    """Check the settings; return them with what the world declares, and a lid where a task needs it.

    A simulated world declares the shape of its pictures and of its actions, which the network takes over with the
    world's reach. The command line has checked each value already. Here they are also checked for programs, and
    together.

    Raises:
        UserError: If a value cannot work.
    """
    check_values(config)
    spec, tasks = world_spec(config.world.kind), tasks_of(config)
    if not config.tasks and not set(spec.learned) <= set(tasks):
        raise UserError(f"the run in '{config.run_dir}' has no tasks of world '{spec.name}'; choose another run_dir")
    tasks.require(config.tasks)
    frames = config.collector.max_steps + 1
    if config.replay.capacity < frames:
        raise UserError(
            f"replay.capacity={config.replay.capacity} is not valid; it must be at least {frames}, the frames of the "
            f"longest episode (collector.max_steps={config.collector.max_steps})"
        )
    world = _shaped(config.world, spec)
    world.lid = world.lid or needs_lid(config.learned, tasks)
    _check_tested(config)
    _check_turned(config.detector.turned, len(spec.captions), world.outcome_shape)
    _check_pictures("detector.network", config.detector.network, world.outcome_shape)
    network = _network(config, world, spec)
    needed, shape = picture_size(network), world.image_shape
    is_larger = needed[0] > shape[0] or needed[1] > shape[1]
    if is_larger or (merges_by_place(network) and needed != shape):
        raise UserError(
            f"the network needs pictures of {_pixels(needed)}, the world renders {_pixels(shape)}; "
            "set world.image_size or learner.network.image_size"
        )
    _check_pictures("learner.network", network, shape, is_located=merges_by_place(network))
    config.learner.bellman.cem.check_action(network.action, "learner.bellman.cem.")
    return replace(config, world=world, learner=replace(config.learner, network=network))


def needs_lid(learned: Iterable[str], tasks: TaskTable) -> bool:
    """Return whether one of the learned tasks needs a lid in the scene."""
    return any(tasks[task].skill == "cover" for task in learned)


def _shaped(world: WorldConfig, spec: WorldSpec) -> WorldConfig:
    """Return the settings of a world with the widths that its pictures have where they are not square."""

    def width(height: int, aspect: float) -> int | None:
        return None if aspect == 1.0 else round(height * aspect)

    return replace(
        world,
        image_width=world.image_width or width(world.image_size, spec.image_aspect),
        outcome_width=world.outcome_width or width(world.outcome_size, spec.outcome_aspect),
    )


def _network(config: RunConfig, world: WorldConfig, spec: WorldSpec) -> NetworkConfig:
    """Return the settings of the Q-network with the pictures, the camera and the actions of a world."""
    network = config.learner.network
    merge = network.merge if spec.has_camera else network.merge or "added"
    if merge == "located" and not spec.has_camera:
        raise UserError(
            f"learner.network.merge=located is not valid; the camera of world '{spec.name}' is not known, use added"
        )
    width = network.image_width
    if width is None and world.image_width is not None and picture_size(network)[0] == world.image_size:
        width = world.image_width  # the whole picture, not its central square
    camera = replace(network.camera, reach=world.reach)
    return replace(network, camera=camera, action=spec.action or network.action, merge=merge, image_width=width)


def _check_tested(config: RunConfig) -> None:
    """Check that the labels of the stand-in can test a detector; a run without any has a detector from elsewhere.

    Raises:
        UserError: If so few of them are drawn at random and kept aside that no task can be a reward.
    """
    labels, rounds, least = config.labels, config.controller.rounds, config.detector.least_tested
    drawn = random_labels(labels, rounds)
    if labels.who != "stand-in" or not drawn or kept_aside(drawn) >= least:
        return
    enough = fewest(lambda count: random_labels(replace(labels, per_task=count), rounds), least)
    raise UserError(
        f"labels.per_task={labels.per_task} is not valid; about {kept_aside(drawn)} labels of a task would be drawn at "
        f"random and kept aside to test it, but detector.least_tested={least}; give labels.per_task={enough} or more, "
        "or a smaller detector.least_tested"
    )


def _check_turned(turned: list[int], views: int, shape: Size) -> None:
    """Check that the views that a detector turns exist, where their number is declared, and are square.

    Raises:
        UserError: If they are not.
    """
    if views and any(view >= views for view in turned):
        raise UserError(f"detector.turned={list(turned)} is not valid; outcomes have views 0 to {views - 1}")
    if turned and shape[0] != shape[1]:
        raise UserError(f"detector.turned={list(turned)} is not valid; views of {_pixels(shape)} are not square")


def _pixels(size: Size) -> str:
    return f"{size[0]} pixels" if size[0] == size[1] else f"{size[0]} x {size[1]} pixels"


def _check_pictures(key: str, network: NetworkConfig, rendered: Size, *, is_located: bool = False) -> None:
    """Check that a network has pictures of its size, and that its layers fit them.

    Args:
        key: The setting that holds the network.
        network: Its settings.
        rendered: Height and width of the pictures that the world renders, pixels.
        is_located: The network merges actions by place.

    Raises:
        UserError: If they do not fit.
    """
    size = rendered if network.image_size is None else picture_size(network)
    if size[0] > rendered[0] or size[1] > rendered[1]:
        raise UserError(f"{key}.image_size={size[0]} is not valid; the world renders pictures of {_pixels(rendered)}")
    layout = layout_of(network.size)
    parts = (layout.image, layout.joint)
    if is_located and layout.located is not None:
        parts = (layout.located.fine, layout.located.coarse)
    try:
        maps_after(size, *parts)
    except UserError as error:
        raise UserError(f"{key}.size={network.size} is not valid; {error}") from error
