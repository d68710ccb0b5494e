"""Evaluate a policy per task on scenes of fixed seeds: the simulator's truth beside the detector's verdict."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np
import torch

from polytask.errors import UserError
from polytask.mtopt.config.run import RunConfig
from polytask.mtopt.detector import Judge
from polytask.mtopt.learning.weights import WeightFolder, Weights
from polytask.mtopt.policy_names import SCRIPTED
from polytask.mtopt.roles.policies import LearnedPolicy, script_of
from polytask.mtopt.seeds import derive
from polytask.mtopt.store import EpisodeStore
from polytask.mtopt.tasks import TASKS
from polytask.mtopt.world import BinWorld, Policy, run_episodes
from polytask.statistics import bootstrap


@dataclass(frozen=True)
class TaskResult:
    """The evaluation of one task."""

    task: str
    episodes: int
    success: float  # by the simulator's truth
    low: float  # bounds of a 95 % bootstrap interval
    high: float
    verdict: float | None  # success by the detector; None if there is none, or it was not taught the task
    wrong: float | None  # share of the true failures that the detector accepts
    script: float | None  # true success of the scripts' episodes in the store
    length: float  # mean number of actions


@dataclass(frozen=True)
class Evaluation:
    """The evaluation of a policy on several tasks."""

    policy: str
    weights: int
    detector: str
    seed: int
    tasks: list[TaskResult]

    @property
    def mean(self) -> float:
        """Return the mean success over the tasks."""
        return sum(row.success for row in self.tasks) / len(self.tasks)

    def metrics(self) -> dict[str, float]:
        """Return the rates by name, for the log."""
        flat = {f"success/{row.task}": row.success for row in self.tasks}
        flat |= {f"verdict/{row.task}": row.verdict for row in self.tasks if row.verdict is not None}
        return {"success": self.mean, "weights": float(self.weights), **flat}

    def plain(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)

    @classmethod
    def load(cls, state: dict[str, Any]) -> Evaluation:
        """Restore what `plain` returned."""
        rows = [TaskResult(**{each.name: row.get(each.name) for each in fields(TaskResult)}) for row in state["tasks"]]
        return cls(**{each.name: state[each.name] for each in fields(cls) if each.name != "tasks"}, tasks=rows)


@dataclass(frozen=True)
class _Scores:
    """Results of the episodes of one task."""

    truth: list[float]
    verdict: list[float]
    length: list[float]


class BinEvaluator:
    """Owns a batch of worlds; their episodes are not stored."""

    def __init__(self, config: RunConfig, world: BinWorld | None = None) -> None:
        """Build worlds, or use those of a role that does not run at the same time."""
        self.config = config
        self.world = world or BinWorld(config.world)
        self.judge = Judge(config.detectors, config.world.device)
        self.folder = WeightFolder(config.weights)
        self.weights: Weights | None = None

    def sync(self, version: int | None = None) -> None:
        """Load a version of the weights, or the newest, and the detector in use.

        Raises:
            UserError: If there are no such weights.
        """
        learner, device = self.config.learner, self.config.world.device
        if version is None:
            self.weights = self.folder.newer(self.weights, learner, device)
        else:
            self.weights = self.folder.load(learner, device, version)
        if self.weights is None:
            raise UserError(f"there are no weights to evaluate in '{self.config.run_dir}': nothing was learned yet")
        self.judge.sync()

    def measure(self) -> tuple[Evaluation, int]:
        """Evaluate the newest weights; also return the last episode of the store.

        Raises:
            UserError: If there are no weights.
        """
        self.sync()
        evaluation = self.step()
        with closing(EpisodeStore(self.config.root, self.config.storage)) as store:
            return evaluation, store.last()

    def step(self, tasks: Sequence[str] | None = None, *, is_scripted: bool = False) -> Evaluation:
        """Evaluate tasks, or all learned ones, with the weights of the last `sync` or with the scripts."""
        names = tuple(tasks or self.config.learned)
        baseline = self.baseline(names)
        rows = []
        for skill in dict.fromkeys(TASKS[task].skill for task in names):
            mine = [task for task in names if TASKS[task].skill == skill]
            found = self._skill(skill, mine, is_scripted)
            rows += [self._result(task, found[task], baseline[task]) for task in mine]
        self.world.batch.warn_of_overflow()
        weights = None if is_scripted else self.weights
        policy, version = (weights.policy, weights.version) if weights else (SCRIPTED, 0)
        return Evaluation(policy, version, self.judge.version, self.config.evaluator.seed, rows)

    def baseline(self, tasks: Sequence[str]) -> dict[str, float | None]:
        """Return the true success of the scripts' episodes in the store; scripts act the same for a whole skill."""
        with closing(EpisodeStore(self.config.root, self.config.storage)) as store:
            skills = {row.id: TASKS[row.task].skill for row in store.rows() if row.policy.startswith(SCRIPTED)}
            truths = {task: store.truths(task) for task in tasks}
        rates: dict[str, float | None] = {}
        for task in tasks:
            truth = [value for number, value in truths[task].items() if skills.get(number) == TASKS[task].skill]
            rates[task] = sum(truth) / len(truth) if truth else None
        return rates

    def _skill(self, skill: str, tasks: Sequence[str], is_scripted: bool) -> dict[str, _Scores]:
        """Run the episodes of all tasks of a skill, in batches of all worlds."""
        rows = [task for task in tasks for _ in range(self.config.evaluator.episodes)]
        found = {task: _Scores([], [], []) for task in tasks}
        worlds = self.world.num_envs
        for number, first in enumerate(range(0, len(rows), worlds)):
            wanted = rows[first : first + worlds]
            commanded = wanted + [wanted[-1]] * (worlds - len(wanted))  # the rest of the last batch is ignored
            self._begin(skill, derive(self.config.evaluator.seed, skill, number))
            policy = self._policy(skill, is_scripted)
            batch = run_episodes(self.world, policy, commanded, self.config.collector.max_steps)
            index = batch.task.cpu()
            truth = batch.truth.cpu()[torch.arange(len(index)), index].tolist()
            length, verdicts = batch.length.tolist(), self._verdicts(batch.outcome, commanded)
            for row, task in enumerate(wanted):
                found[task].truth.append(float(truth[row]))
                found[task].length.append(float(length[row]))
                verdict = verdicts[row]
                if verdict is not None:
                    found[task].verdict.append(verdict)
        return found

    def _begin(self, skill: str, seed: int) -> None:
        """Reset the bins; put an object into the hand if the skill needs one."""
        self.world.reseed(seed)
        self.world.reset()
        if skill != "lift":
            self.world.hand_over(lid=skill == "cover")

    def _policy(self, skill: str, is_scripted: bool) -> Policy:
        seed = derive(self.world.config.seed, "policy")
        if is_scripted:
            return script_of(skill, self.world, replace(self.config.script, seed=seed))
        if self.weights is None:
            raise RuntimeError("an evaluator needs weights: call `sync` first")
        return LearnedPolicy(self.weights, self.config.learner.bellman.cem, seed)

    def _verdicts(self, outcome: torch.Tensor, tasks: Sequence[str]) -> list[float | None]:
        """Return 1 if the detector accepts the outcome of a world's task, else 0; None if it was not taught it."""
        taught = self.judge.taught(dict.fromkeys(tasks))
        if not taught:
            return [None] * len(tasks)
        accepted = self.judge.grade(outcome, taught) > self.judge.threshold
        return [float(accepted[row, taught.index(task)]) if task in taught else None for row, task in enumerate(tasks)]

    @staticmethod
    def _result(task: str, scores: _Scores, script: float | None) -> TaskResult:
        truth, verdict = np.array(scores.truth), np.array(scores.verdict)
        low, high = bootstrap(truth[:, None])
        failed = truth == 0
        return TaskResult(
            task=task,
            episodes=len(truth),
            success=float(truth.mean()),
            low=low,
            high=high,
            verdict=float(verdict.mean()) if len(verdict) else None,
            wrong=float(verdict[failed].mean()) if len(verdict) and failed.any() else None,
            script=script,
            length=float(np.mean(scores.length)),
        )
