"""Evaluate a policy per task on scenes of fixed seeds: the simulator's truth beside the detector's verdict.

Simple policies (one command, random actions) and the scripts play, too: a success rate means little without theirs.
All tasks of a skill have the same starts. Simple policies know no task, so one set of their episodes serves all of
these. The same policy with one action plays the starts again: only what it loses there was a task of several steps. In
the bins, places start anywhere above the plate with an object in the hand. *Chains* continue from what the policy has
reached itself: it picks any object and places what it has lifted. A task that a person added has no truth, and neither
has a real robot: there, only the verdict is known.
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
from polytask.mtopt.config.action import MOVE
from polytask.mtopt.config.run import RunConfig
from polytask.mtopt.config.world_specs import world_spec
from polytask.mtopt.detector import Judge
from polytask.mtopt.learning.weights import WeightFolder, Weights
from polytask.mtopt.policy_names import SCRIPTED
from polytask.mtopt.records import COMMANDED
from polytask.mtopt.roles.collector import skills_of
from polytask.mtopt.roles.evaluation import SCRIPT, ChainResult, Evaluation, TaskResult
from polytask.mtopt.roles.policies import LearnedPolicy, script_of
from polytask.mtopt.roles.simple_policies import (
    RANDOM,
    ConstantPolicy,
    RandomPolicy,
    constant_policies,
    simple_policies,
    words,
)
from polytask.mtopt.run_tasks import tasks_of
from polytask.mtopt.seeds import derive
from polytask.mtopt.store import EpisodeStore
from polytask.mtopt.world import EpisodeBatch, Policy, World, make_world, run_episodes
from polytask.statistics import score_interval

LEARNED = "learned"


@dataclass(frozen=True)
class _Scores:
    """Results of the episodes of one task."""

    truth: list[float] = field(default_factory=list)  # empty if the world does not grade the task
    verdict: list[float] = field(default_factory=list)
    length: list[float] = field(default_factory=list)
    commands: list[list[float]] = field(default_factory=list)  # how often each mode was used


class Evaluator:
    """Owns a batch of worlds; their episodes are not stored."""

    def __init__(self, config: RunConfig, world: World | None = None) -> None:
        """Build worlds, or use those of a role that does not run at the same time."""
        self.config, self.spec, self.tasks = config, world_spec(config.world.kind), tasks_of(config)
        self.action = config.learner.network.action
        self.world = world or make_world(config.world)
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

    def step(
        self, tasks: Sequence[str] | None = None, *, is_scripted: bool = False, has_short: bool = True
    ) -> Evaluation:
        """Evaluate tasks, or all learned ones, with the weights of the last `sync` or with the scripts.

        Args:
            tasks: Names; None for all learned ones.
            is_scripted: Evaluate the scripts.
            has_short: With simple policies, also play the same policy with one action.

        Raises:
            UserError: If the world cannot start one of them.
        """
        names = tuple(tasks or self.config.learned)
        skills_of(names, self.tasks, self.spec)
        kind, settings = SCRIPT if is_scripted else LEARNED, self.config.evaluator
        rows: list[TaskResult] = []
        for skill in dict.fromkeys(self.tasks[task].skill for task in names):
            mine = [task for task in names if self.tasks[task].skill == skill]
            found = self._skill(skill, mine, kind)
            has_simple = settings.simple and any(task in self.spec.graded for task in mine)
            short = self._skill(skill, mine, kind, 1) if has_simple and has_short and self.steps > 1 else {}
            simple = {name: self._simple_rates(skill, name) for name in self._simple if has_simple}
            script = self._simple_rates(skill, SCRIPT) if has_simple else {}
            for task in mine:
                rates = {name: each[task] for name, each in simple.items() if task in each}
                row = self._result(task, found[task], script.get(task), rates or None)
                rows.append(replace(row, one_action=_mean(short[task].truth) if short else None))
        chains = [row for pair in self.spec.chains for row in self._chains(*pair, names, kind)]
        self.world.warn()
        weights = None if is_scripted else self.weights
        policy, version = (weights.policy, weights.version) if weights else (SCRIPTED, 0)
        return Evaluation(policy, version, self.judge.version, settings.seed, rows, chains or None)

    @property
    def _simple(self) -> tuple[str, ...]:
        return simple_policies(self.action)

    @property
    def steps(self) -> int:
        """Return the most actions of an episode."""
        return self.config.evaluator.max_steps or self.config.collector.max_steps

    # --- single tasks -----------------------------------------------------------------------------------------------

    def _skill(self, skill: str, tasks: Sequence[str], kind: str, steps: int | None = None) -> dict[str, _Scores]:
        """Run the episodes of all tasks of a skill; the most actions are those of the settings unless given."""
        found = {task: _Scores() for task in tasks}
        for task, count, batch in self._batches(skill, tasks, kind, steps):
            scores = found[task]
            if task in batch.graded:
                scores.truth.extend(batch.truth[:count, batch.graded.index(task)].double().tolist())
            scores.length.extend(batch.length[:count].double().tolist())
            scores.commands.extend(self._modes(batch)[:count].tolist())
            scores.verdict.extend(self._verdicts(batch.outcome[:count], task))
        return found

    def _simple_rates(self, skill: str, kind: str) -> dict[str, float]:
        """Return the success of a policy that knows no task on all graded ones."""
        key = (skill, kind)
        if key not in self._known:
            any_task = next(name for name in self.tasks if self.tasks[name].skill == skill)
            truth = torch.cat([batch.truth[:count].cpu() for _, count, batch in self._batches(skill, [any_task], kind)])
            self._known[key] = dict(zip(self.spec.graded, truth.double().mean(0).tolist(), strict=True))
        return self._known[key]

    def _batches(
        self, skill: str, tasks: Sequence[str], kind: str, steps: int | None = None
    ) -> Iterator[tuple[str, int, EpisodeBatch]]:
        """Run the episodes of each task, in batches of all worlds; yield a batch with its task and how many count."""
        for task, number, count in self._parts(tasks):
            self.world.reseed(derive(self.config.evaluator.seed, skill, number))
            self.world.start(skill)
            yield task, count, self._run(skill, kind, task, steps)

    def _run(self, skill: str, kind: str, task: str, steps: int | None = None) -> EpisodeBatch:
        """Run an episode in every world from where it is."""
        return run_episodes(self.world, self._policy(skill, kind), [task], steps or self.steps, self.tasks)

    def _parts(self, tasks: Sequence[str]) -> Iterator[tuple[str, int, int]]:
        """Yield the batches of each task: task, number, and how many of its worlds count.

        The number decides the starts, and every task begins with the first one. So all tasks have the same starts.
        """
        worlds, episodes = self.world.num_envs, self.config.evaluator.episodes
        for task in tasks:
            for number, first in enumerate(range(0, episodes, worlds)):
                yield task, number, min(worlds, episodes - first)

    def _policy(self, skill: str, kind: str) -> Policy:
        seed, cem = derive(self.world.config.seed, "policy", skill), self.config.learner.bellman.cem
        if kind in constant_policies(self.action):
            return ConstantPolicy(kind, self.action)
        if kind == RANDOM:
            return RandomPolicy(cem, seed, self.world.device, self.action)
        if kind == SCRIPT:
            return script_of(skill, self.world, self.config, seed)
        if self.weights is None:
            raise RuntimeError("an evaluator needs weights: call `sync` first")
        return LearnedPolicy(self.weights, cem, seed)

    # --- chains -----------------------------------------------------------------------------------------------------

    def _chains(self, first: str, skill: str, names: Sequence[str], kind: str) -> list[ChainResult]:
        """Play whole chains: an episode of the first task, then, where it was reached, one of each task of a skill."""
        tasks = [task for task in names if self.tasks[task].skill == skill and task in self.spec.graded]
        if not self.config.evaluator.chains or not tasks or first not in self.config.learned:
            return []
        episodes, results = self.config.evaluator.episodes, []
        reached, ended = self._chain(first, skill, tasks, kind)
        for number, task in enumerate(tasks):
            mine = slice(number * episodes, (number + 1) * episodes)
            done = ended[mine, self.spec.graded.index(task)]
            script = self._scripted_chains(first, skill)[task] if self.config.evaluator.simple else None
            low, high = score_interval(done[:, None])
            counts = (episodes, float(reached[mine].mean()), float(done.mean()))
            results.append(ChainResult(task, *counts, low, high, script, first))
        return results

    def _scripted_chains(self, first: str, skill: str) -> dict[str, float]:
        """Return the success of the scripts' chains by task; scripts know no task, so one set of chains serves all."""
        key = (f"chain {first} {skill}", SCRIPT)
        if key not in self._known:
            any_task = self.spec.broad.get(skill) or next(n for n in self.tasks if self.tasks[n].skill == skill)
            rates = self._chain(first, skill, [any_task], SCRIPT)[1].mean(0)
            self._known[key] = dict(zip(self.spec.graded, rates.tolist(), strict=True))
        return self._known[key]

    def _chain(
        self, first: str, skill: str, tasks: Sequence[str], kind: str
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Attempt the first task, then continue with a task; the chains of all tasks one after the other.

        Returns:
            Which chains (E,) reached a start of the skill, and which of them (E, G) ended in a success of each task.
        """
        reached, ended, before = [], [], self.tasks[first].skill
        for task, number, count in self._parts(tasks):
            self.world.reseed(derive(self.config.evaluator.seed, "chain", number))
            self.world.start(before)
            self._run(before, kind, first)
            ready = self.world.go_on(skill, (before,), hand_over=False).clone()
            batch = self._run(skill, kind, task)
            reached.append(ready[:count].double().cpu())
            ended.append((batch.truth & ready[:, None])[:count].double().cpu())
        return torch.cat(reached).numpy(), torch.cat(ended).numpy()

    # --- verdicts ---------------------------------------------------------------------------------------------------

    def _verdicts(self, outcome: Tensor, task: str) -> list[float]:
        """Return 1 for each outcome of a task that the detector accepts, else 0; nothing if it does not judge it."""
        if not self.judge.judged([task]):
            return []
        accepted = self.judge.grade(outcome, [task])[:, 0] > self.judge.threshold(task)
        return list(accepted.double().tolist())

    # --- results ----------------------------------------------------------------------------------------------------

    def _modes(self, batch: EpisodeBatch) -> Tensor:
        """Count how often each mode, moving alone or a command, was used in each episode, (N, M)."""
        step = torch.arange(batch.actions.shape[1], device=batch.actions.device)
        was_taken = step < batch.length[:, None]  # (N, T)
        flags = batch.actions[..., self.action.motion :] > COMMANDED
        kinds = torch.cat((~flags.any(-1, keepdim=True), flags), -1)  # (N, T, M)
        return (kinds & was_taken[..., None]).sum(1).cpu()

    def _result(self, task: str, scores: _Scores, script: float | None, simple: dict[str, float] | None) -> TaskResult:
        truth, verdict = np.array(scores.truth), np.array(scores.verdict)
        low, high = score_interval(truth[:, None]) if len(truth) else (None, None)
        failed = truth == 0
        given, modes = np.array(scores.commands).sum(0), (MOVE, *words(self.action.commands))
        return TaskResult(
            task=task,
            episodes=len(scores.length),
            success=float(truth.mean()) if len(truth) else None,
            low=low,
            high=high,
            verdict=float(verdict.mean()) if len(verdict) else None,
            wrong=float(verdict[failed].mean()) if len(verdict) and len(truth) and failed.any() else None,
            script=script,
            length=float(np.mean(scores.length)),
            commands=dict(zip(modes, (given / max(1, given.sum())).tolist(), strict=True)),
            simple=simple,
        )


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
