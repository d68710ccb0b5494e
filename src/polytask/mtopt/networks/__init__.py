"""Image networks of MT-Opt in three sizes: `paper`, `medium` and `small`."""

from polytask.mtopt.networks.augment import augment
from polytask.mtopt.networks.layout import LAYOUTS
from polytask.mtopt.networks.q import QNetwork
from polytask.mtopt.networks.success import DetectorNetwork

__all__ = ["LAYOUTS", "DetectorNetwork", "QNetwork", "augment"]
