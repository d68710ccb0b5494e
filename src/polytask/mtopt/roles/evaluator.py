"""Evaluate a policy per task on scenes of fixed seeds: the simulator's truth beside the detector's verdict.

The same starts are played by simple policies (one command, random actions) and by the scripts: a success rate means
little without theirs. Places start anywhere above the plate with an object in the hand. *Chains* start with an empty
hand: the policy picks any object and places what it has lifted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polytask.errors import UserError
from polytask.mtopt.config.run import RunConfig
from polytask.mtopt.detector import Judge
from polytask.mtopt.learning.weights import WeightFolder, Weights
from polytask.mtopt.policy_names import SCRIPTED
from polytask.mtopt.roles.evaluation import COMMANDS, ChainResult, Evaluation, TaskResult
from polytask.mtopt.roles.policies import LearnedPolicy, script_of
from polytask.mtopt.roles.simple_policies import CONSTANT, RANDOM, SIMPLE, ConstantPolicy, RandomPolicy
from polytask.mtopt.seeds import derive
from polytask.mtopt.store import EpisodeStore
from polytask.mtopt.tasks import ALL_TASKS, BROAD, TASKS
from polytask.mtopt.world import BinWorld, EpisodeBatch, Policy, run_episodes
from polytask.statistics import score_interval

SCRIPT, LEARNED = "script", "learned"  # policies besides the simple ones


@dataclass(frozen=True)
class _Scores:
    """Results of the episodes of one task."""

    truth: list[float] = field(default_factory=list)
    verdict: list[float] = field(default_factory=list)
    length: list[float] = field(default_factory=list)
    commands: list[list[float]] = field(default_factory=list)  # how often each of COMMANDS was given


class BinEvaluator:
    """Owns a batch of worlds; their episodes are not stored."""

    def __init__(self, config: RunConfig, world: BinWorld | None = None) -> None:
        """Build worlds, or use those of a role that does not run at the same time."""
        self.config = config
        self.world = world or BinWorld(config.world)
        self.judge = Judge(config.detectors, config.world.device)
        self.folder = WeightFolder(config.weights)
        self.weights: Weights | None = None
        # Success rates that do not depend on weights: (skill or chain, policy) -> task -> rate.
        self._known: dict[tuple[str, str], dict[str, float]] = {}

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
        kind, settings = SCRIPT if is_scripted else LEARNED, self.config.evaluator
        rows: list[TaskResult] = []
        for skill in dict.fromkeys(TASKS[task].skill for task in names):
            mine = [task for task in names if TASKS[task].skill == skill]
            found = self._skill(skill, mine, kind)
            simple = {name: self._simple_rates(skill, name) for name in SIMPLE if settings.simple}
            script = self._simple_rates(skill, SCRIPT) if settings.simple else {}
            for task in mine:
                rates = {name: each[task] for name, each in simple.items()}
                rows.append(_result(task, found[task], script.get(task), rates or None))
        chains = self._chains([task for task in names if TASKS[task].skill == "place"], kind)
        self.world.batch.warn_of_overflow()
        weights = None if is_scripted else self.weights
        policy, version = (weights.policy, weights.version) if weights else (SCRIPTED, 0)
        return Evaluation(policy, version, self.judge.version, settings.seed, rows, chains)

    # --- single tasks -----------------------------------------------------------------------------------------------

    def _skill(self, skill: str, tasks: Sequence[str], kind: str) -> dict[str, _Scores]:
        """Run the episodes of all tasks of a skill."""
        rows = [task for task in tasks for _ in range(self.config.evaluator.episodes)]
        found = {task: _Scores() for task in tasks}
        for commanded, batch in self._batches(skill, rows, kind):
            index = batch.task.cpu()
            truth = batch.truth.cpu()[torch.arange(len(index)), index].tolist()
            length, given = batch.length.tolist(), _commands(batch).tolist()
            verdicts = self._verdicts(batch.outcome, [ALL_TASKS[task] for task in index.tolist()])
            for row, task in enumerate(commanded):
                found[task].truth.append(float(truth[row]))
                found[task].length.append(float(length[row]))
                found[task].commands.append(given[row])
                verdict = verdicts[row]
                if verdict is not None:
                    found[task].verdict.append(verdict)
        return found

    def _simple_rates(self, skill: str, kind: str) -> dict[str, float]:
        """Return the success of a policy that knows no task on all tasks, by episodes from the first starts."""
        key = (skill, kind)
        if key not in self._known:
            rows = [next(task for task in ALL_TASKS if TASKS[task].skill == skill)] * self.config.evaluator.episodes
            truth = torch.cat([batch.truth[: len(part)].cpu() for part, batch in self._batches(skill, rows, kind)])
            self._known[key] = dict(zip(ALL_TASKS, truth.float().mean(0).tolist(), strict=True))
        return self._known[key]

    def _batches(self, skill: str, rows: Sequence[str], kind: str) -> Iterator[tuple[Sequence[str], EpisodeBatch]]:
        """Run an episode of each row's task, in batches of all worlds; yield the rows of a batch with its episodes."""
        for number, commanded, padded in self._parts(rows):
            self._begin(skill, derive(self.config.evaluator.seed, skill, number))
            policy = self._policy(skill, kind)
            yield commanded, run_episodes(self.world, policy, padded, self.config.collector.max_steps)

    def _parts(self, rows: Sequence[str]) -> Iterator[tuple[int, Sequence[str], list[str]]]:
        """Divide rows into batches of all worlds; also yield each batch filled up, whose last rows are ignored."""
        worlds = self.world.num_envs
        for number, first in enumerate(range(0, len(rows), worlds)):
            wanted = list(rows[first : first + worlds])
            yield number, wanted, wanted + [wanted[-1]] * (worlds - len(wanted))

    def _begin(self, skill: str, seed: int) -> None:
        """Reset the bins; put an object into the hand if the skill needs one."""
        self.world.reseed(seed)
        self.world.reset(covers=skill == "cover")
        if skill != "lift":
            self.world.hand_over(lid=skill == "cover")

    def _policy(self, skill: str, kind: str) -> Policy:
        seed, cem = derive(self.world.config.seed, "policy", skill), self.config.learner.bellman.cem
        if kind in CONSTANT:
            return ConstantPolicy(kind)
        if kind == RANDOM:
            return RandomPolicy(cem, seed, self.world.device)
        if kind == SCRIPT:
            return script_of(skill, self.world, replace(self.config.script, seed=seed))
        if self.weights is None:
            raise RuntimeError("an evaluator needs weights: call `sync` first")
        return LearnedPolicy(self.weights, cem, seed)

    # --- chains -----------------------------------------------------------------------------------------------------

    def _chains(self, tasks: Sequence[str], kind: str) -> list[ChainResult] | None:
        """Play whole chains for place tasks; None if they are switched off, or the run does not lift and place."""
        if not self.config.evaluator.chains or not tasks or BROAD["lift"] not in self.config.learned:
            return None
        episodes, results = self.config.evaluator.episodes, []
        lifted, ended = self._chain([task for task in tasks for _ in range(episodes)], kind)
        for number, task in enumerate(tasks):
            mine = slice(number * episodes, (number + 1) * episodes)
            placed = ended[mine, ALL_TASKS.index(task)]
            script = self._scripted_chains()[task] if self.config.evaluator.simple else None
            low, high = score_interval(placed[:, None])
            counts = (episodes, float(lifted[mine].mean()), float(placed.mean()))
            results.append(ChainResult(task, *counts, low, high, script))
        return results

    def _scripted_chains(self) -> dict[str, float]:
        """Return the success of the scripts' chains by task; scripts know no task, so one set of chains serves all."""
        key = ("chain", SCRIPT)
        if key not in self._known:
            rates = self._chain([BROAD["place"]] * self.config.evaluator.episodes, SCRIPT)[1].mean(0)
            self._known[key] = dict(zip(ALL_TASKS, rates.tolist(), strict=True))
        return self._known[key]

    def _chain(self, rows: Sequence[str], kind: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Pick any object, then place it for each row's task.

        Returns:
            Which chains (E,) held something in between, and which of them (E, tasks) ended in a success of each task.
        """
        lifted, placed = [], []
        for number, commanded, padded in self._parts(rows):
            self._begin("lift", derive(self.config.evaluator.seed, "chain", number))
            steps = self.config.collector.max_steps
            run_episodes(self.world, self._policy("lift", kind), [BROAD["lift"]], steps)
            self.world.settle()
            holds = self.world.holds()
            batch = run_episodes(self.world, self._policy("place", kind), padded, steps)
            lifted.append(holds[: len(commanded)].double().cpu())
            placed.append((batch.truth & holds[:, None])[: len(commanded)].double().cpu())
        return torch.cat(lifted).numpy(), torch.cat(placed).numpy()

    # --- verdicts ---------------------------------------------------------------------------------------------------

    def _verdicts(self, outcome: Tensor, tasks: Sequence[str]) -> list[float | None]:
        """Return 1 if the detector accepts the outcome of a world's task, else 0; None if it does not judge it."""
        judged = self.judge.judged(dict.fromkeys(tasks))
        if not judged:
            return [None] * len(tasks)
        bounds = torch.tensor([self.judge.threshold(task) for task in judged])
        accepted = self.judge.grade(outcome, judged) > bounds
        return [float(accepted[row, judged.index(task)]) if task in judged else None for row, task in enumerate(tasks)]


def _commands(batch: EpisodeBatch) -> Tensor:
    """Count how often each of COMMANDS was given in each episode, (N, 4)."""
    step = torch.arange(batch.actions.shape[1], device=batch.actions.device)
    was_taken = step < batch.length[:, None]  # (N, T)
    flags = batch.actions[..., 5:] > 0.5
    kinds = torch.cat((~flags.any(-1, keepdim=True), flags), -1)  # (N, T, 4)
    return (kinds & was_taken[..., None]).sum(1).cpu()


def _result(task: str, scores: _Scores, script: float | None, simple: dict[str, float] | None) -> TaskResult:
    truth, verdict = np.array(scores.truth), np.array(scores.verdict)
    low, high = score_interval(truth[:, None])
    failed = truth == 0
    given = np.array(scores.commands).sum(0)
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
        commands=dict(zip(COMMANDS, (given / max(1, given.sum())).tolist(), strict=True)),
        simple=simple,
    )
