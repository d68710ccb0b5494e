"""The success detector: one image network for all tasks, trained from labelled outcomes, and what it is worth."""

from polytask.mtopt.config.learning import DetectorConfig
from polytask.mtopt.detector.metrics import (
    Calibration,
    DetectorReport,
    TaskScore,
    WrongObject,
    calibration,
    disagreements,
    evaluate,
    score,
    uncertain_first,
    wrong_objects,
)
from polytask.mtopt.detector.model import Detector
from polytask.mtopt.detector.train import train_detector

__all__ = [
    "Calibration",
    "Detector",
    "DetectorConfig",
    "DetectorReport",
    "TaskScore",
    "WrongObject",
    "calibration",
    "disagreements",
    "evaluate",
    "score",
    "train_detector",
    "uncertain_first",
    "wrong_objects",
]
