"""The parts of a run as plain classes: each holds its own state, takes one step at a time, and uses no globals.

A runtime calls them one after the other (`runtime.local`) or runs each in a process of its own (`runtime.ray`). They
exchange data through the run's folder (episodes, labels, detectors, weights) and through the records that their methods
take and return.
"""

from polytask.mtopt.roles.collector import Collector
from polytask.mtopt.roles.controller import Controller
from polytask.mtopt.roles.detector_trainer import DetectorTrainer
from polytask.mtopt.roles.evaluation import Evaluation
from polytask.mtopt.roles.evaluator import Evaluator
from polytask.mtopt.roles.grader import Grader
from polytask.mtopt.roles.orders import Job, Order
from polytask.mtopt.roles.task_replay import TaskReplay
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
    "Grader",
    "Job",
    "Order",
    "TaskReplay",
    "Teacher",
    "TrainBuffer",
    "Trainer",
]
