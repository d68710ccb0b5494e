"""The success detector: one image network for all tasks, trained from labelled outcomes.

model.py      a trained detector and its file
train.py      training from tensors of labelled outcomes
metrics.py    scores of a detector against the truth
labels.py     the labels of a store that train and measure detectors
labelled.py   training and measuring on the labelled episodes of a store
folder.py     the detectors of a run by version, and which one is in use
judge.py      the detector in use, as a source of verdicts
"""

from polytask.mtopt.detector.judge import Judge
from polytask.mtopt.detector.model import Detector
from polytask.mtopt.detector.train import train_detector

__all__ = ["Detector", "Judge", "train_detector"]
