"""Detectors without any training, for runs whose verdicts do not matter."""

from polytask.mtopt.config.network import NetworkConfig
from polytask.mtopt.detector import Detector
from polytask.mtopt.networks import DetectorNetwork
from polytask.mtopt.tasks import ALL_TASKS


def save_detector(folder, version, views=2, **options):
    """Save an untrained detector of all tasks, for pictures of sixteen pixels, and return it."""
    config = NetworkConfig(image_size=16)
    detector = Detector(version, ALL_TASKS, DetectorNetwork(config, len(ALL_TASKS), views), config=config, **options)
    detector.save(folder / f"{version}.pt")
    return detector
