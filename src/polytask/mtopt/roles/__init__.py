"""The parts of a run as plain classes: each holds its own state, takes one step at a time, and shares no globals.

A runtime calls them in turn (`runtime.local`) or puts each into a process of its own (`runtime.ray`). They meet in the
store's folder (episodes, labels, detectors, weights) and through the records that their methods take and return.
"""

from polytask.mtopt.roles.collector import Collector
from polytask.mtopt.roles.controller import Controller, Job, Order
from polytask.mtopt.roles.detector_trainer import DetectorTrainer
from polytask.mtopt.roles.evaluator import Evaluation, Evaluator
from polytask.mtopt.roles.judge import Judge
from polytask.mtopt.roles.labeller import Labeller
from polytask.mtopt.roles.task_replay import Replay
from polytask.mtopt.roles.teacher import Teacher
from polytask.mtopt.roles.train_buffer import Examples, TrainBuffer
from polytask.mtopt.roles.trainer import Trainer
from polytask.mtopt.roles.updater import BellmanUpdater

__all__ = [
    "BellmanUpdater",
    "Collector",
    "Controller",
    "DetectorTrainer",
    "Evaluation",
    "Evaluator",
    "Examples",
    "Job",
    "Judge",
    "Labeller",
    "Order",
    "Replay",
    "Teacher",
    "TrainBuffer",
    "Trainer",
]
