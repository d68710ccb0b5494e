"""Run bins and write what happens to the store; where there is a detector, grade every task it knows.

One step is one *sequence*: the bins are tipped out, every world picks, then the hand that holds something places it
(in a world with a lid it covers an object), each for a task drawn by lot. All of its episodes are entered together, so
a kill leaves the whole sequence or nothing, and a sequence is a function of its order and of the weights alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from polytask.mtopt.config.run import RunConfig
from polytask.mtopt.learning.weights import WeightFolder, Weights
from polytask.mtopt.policy_names import policy_name
from polytask.mtopt.records import Episode, Label
from polytask.mtopt.roles.controller import OWN, SCRIPT, Order
from polytask.mtopt.roles.judge import Judge
from polytask.mtopt.roles.policies import LearnedPolicy, MixedPolicy, indices, script_of
from polytask.mtopt.seeds import derive
from polytask.mtopt.store import EpisodeRow, EpisodeStore
from polytask.mtopt.tasks import TASKS
from polytask.mtopt.world import ALL_TASKS, BinWorld, EpisodeBatch, run_episodes

SKILLS = ("lift", "place", "cover")  # in the order of a sequence


class Appender(Protocol):
    """What episodes are handed to."""

    def append_many(self, episodes: Sequence[Episode]) -> list[int]:
        """Take episodes, all or none of them, and return their ids."""
        ...

    def close(self) -> None:
        """Complete what was written."""
        ...


class Log(Protocol):
    """What a collector needs of a store: the store itself, or something that passes episodes on to one."""

    def __len__(self) -> int:
        """Count the episodes."""
        ...

    def rows(self, after: int = 0) -> list[EpisodeRow]:
        """List the episodes with ids above this one."""
        ...

    def writer(self, name: str) -> Appender:
        """Return what appends episodes."""
        ...

    def add_labels(self, labels: Sequence[Label]) -> None:
        """Append labels."""
        ...

    def close(self) -> None:
        """Close it."""
        ...


@dataclass(frozen=True)
class Attempt:
    """One episode of each world that counts, before it is stored."""

    episodes: list[Episode]
    outcome: Tensor  # (M, V, S, S, 3)


class Collector:
    """Owns a batch of worlds and one writer of the store."""

    def __init__(self, config: RunConfig, name: str = "collector", log: Log | None = None) -> None:
        """Open the store and build the worlds.

        Args:
            config: Of the run.
            name: Of the writer; no two living collectors share one.
            log: Takes the episodes in place of the store in the run's folder.
        """
        self.config, self.name = config, name
        self.store: Log = EpisodeStore(config.root, config.storage) if log is None else log
        self.writer = self.store.writer(name)
        self.world = BinWorld(config.world)
        self.judge = Judge(config.detectors, config.world.device)
        self.folder = WeightFolder(config.weights)
        self.weights: Weights | None = None
        self._last = 0  # episode up to which the store was searched for this order's
        self.skills = [skill for skill in SKILLS if any(TASKS[task].skill == skill for task in config.learned)]

    def sync(self) -> None:
        """Reload weights where there are newer ones, and the detector where another one is in use."""
        newest = self.folder.newest()
        if newest is not None and (self.weights is None or newest > self.weights.version):
            self.use(self.folder.load(self.config.learner, self.config.world.device, newest))
        self.judge.sync()

    def use(self, weights: Weights) -> None:
        """Act by these weights from now on."""
        self.weights = weights

    def step(self, order: Order) -> dict[str, float]:
        """Carry out one sequence and return what it gave; one that is in the store already is only counted."""
        stored = self._stored(order)
        if stored:
            return {"episodes": float(stored), "weights": 0.0, "graded": 0.0}
        self.sync()
        attempts = self._sequence(order)
        episodes = [episode for attempt in attempts for episode in attempt.episodes]
        numbers = self.writer.append_many(episodes)
        graded, tasks = 0, self.judge.taught(self.config.learned)
        if tasks and numbers:
            probability = self.judge.grade(torch.cat([one.outcome for one in attempts]), tasks)
            self.store.add_labels(self.judge.labels(numbers, probability, tasks))
            graded = len(numbers)
        self.world.batch.warn_of_overflow()
        version = self.weights.version if self.weights else 0
        counts = {skill: len(one.episodes) for skill, one in zip(self.skills, attempts, strict=True)}
        actions = sum(len(episode.actions) for episode in episodes)
        return {
            "episodes": float(len(episodes)),
            **{f"episodes/{skill}": float(count) for skill, count in counts.items()},
            "actions": float(actions),
            "graded": float(graded),
            "weights": float(version),
        }

    def close(self) -> None:
        """Complete the shard, close the store and let go of the worlds."""
        self.world.close()
        self.writer.close()
        self.store.close()

    def _stored(self, order: Order) -> int:
        """Count the episodes of an order that an earlier process stored before it could say so."""
        rows = self.store.rows(after=self._last)
        self._last = rows[-1].id if rows else self._last
        return sum(row.seed == order.seed for row in rows)

    def _sequence(self, order: Order) -> list[Attempt]:
        """Tip the bins out and attempt one skill after the other."""
        self.world.reseed(order.seed)
        self.world.reset()
        attempts = []
        for skill in self.skills:
            counts = self._start(skill)
            batch, names = self._attempt(skill, order)
            counts &= ~self.world.broken  # where physics broke, the pictures do not follow from the actions
            kept = counts.tolist()
            episodes = [
                replace(episode, policy=names[row]) for row, episode in enumerate(batch.episodes()) if kept[row]
            ]
            attempts.append(Attempt(episodes, batch.outcome[counts]))
        return attempts

    def _start(self, skill: str) -> Tensor:
        """Bring the worlds to where a skill begins; return which of them do (N,)."""
        everyone = torch.ones_like(self.world.done)
        if skill == "lift":
            return everyone
        if skill == "cover":
            self.world.reset()
            self.world.hand_over(lid=True)
            return everyone
        if "lift" in self.skills:
            self.world.settle()
        holds = self.world.holds()
        if not self.config.collector.hand_over and "lift" in self.skills:
            return holds
        self.world.hand_over(mask=~holds)
        return everyone

    def _attempt(self, skill: str, order: Order) -> tuple[EpisodeBatch, list[str]]:
        """Run one episode in every world; also return what acted in each."""
        config, count = self.config, self.world.num_worlds
        lots = torch.Generator().manual_seed(derive(order.seed, skill, "tasks"))
        tasks = [task for task in config.learned if TASKS[task].skill == skill]
        drawn = [tasks[lot] for lot in torch.randint(len(tasks), (count,), generator=lots).tolist()]
        own = torch.rand(count, generator=lots).tolist()
        sources = [
            OWN if order.tries_own and luck < 0.5 else order.sources[task]
            for task, luck in zip(drawn, own, strict=True)
        ]
        if self.weights is None:
            sources = [SCRIPT] * count
        script = script_of(skill, self.world, replace(config.script, seed=derive(order.seed, skill, "script")))
        names, told = [], []
        for task, source in zip(drawn, sources, strict=True):
            version = self.weights.version if self.weights else 0
            helps = None if source == OWN else source
            names.append(script.name if source == SCRIPT else policy_name(version, helps))
            told.append(task if source in (OWN, SCRIPT) else source)
        is_scripted = torch.tensor([source == SCRIPT for source in sources], device=self.world.device)
        policy = MixedPolicy(
            script,
            self._learned(derive(order.seed, skill, "learned"))
            if SCRIPT not in sources or len(set(sources)) > 1
            else None,
            is_scripted,
            indices(told, ALL_TASKS, self.world.device),
        )
        return run_episodes(self.world, policy, drawn, config.collector.max_steps), names

    def _learned(self, seed: int) -> LearnedPolicy:
        assert self.weights is not None
        collector = self.config.collector
        return LearnedPolicy(self.weights, self.config.learner, seed, collector.epsilon, collector.noise)
