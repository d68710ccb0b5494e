"""Settings of the labelling page."""

from __future__ import annotations

from dataclasses import dataclass, field

from polytask.mtopt.config.keys import LabelKeys
from polytask.mtopt.detector import DetectorConfig


@dataclass
class LabelConfig(LabelKeys):
    """What `polytask label` can be told."""

    # Its version and tasks come from the page. Fewer and smaller updates than on a GPU: somebody is waiting.
    detector: DetectorConfig = field(default_factory=lambda: DetectorConfig(updates=600, batch=64))
