"""Run bins and write their episodes to the store; if there is a detector, grade every task it judges.

One step is one *sequence*: all bins are reset, every world picks, then every hand that holds an object places it (in a
world with a lid, it covers an object), each for a random task. All its episodes are entered together, so a kill leaves
the whole sequence or nothing. A sequence is a function of its order and of the weights alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from polytask.mtopt.config.run import RunConfig
from polytask.mtopt.detector import Judge
from polytask.mtopt.learning.acting import Exploration
from polytask.mtopt.learning.weights import WeightFolder, Weights
from polytask.mtopt.policy_names import policy_name
from polytask.mtopt.records import Episode
from polytask.mtopt.roles.episode_log import EpisodeLog
from polytask.mtopt.roles.orders import OWN, SCRIPT, Order
from polytask.mtopt.roles.policies import LearnedPolicy, MixedPolicy, script_of
from polytask.mtopt.seeds import derive
from polytask.mtopt.store import EpisodeStore
from polytask.mtopt.tasks import TASKS
from polytask.mtopt.world import BinWorld, EpisodeBatch, run_episodes, task_indices

SKILLS = ("lift", "place", "cover")  # in the order of a sequence


@dataclass(frozen=True)
class Attempt:
    """The valid episodes of all worlds at one skill, before they are stored."""

    episodes: list[Episode]
    outcome: Tensor  # (M, V, S, S, 3)


class Collector:
    """Owns a batch of worlds and one writer of the store."""

    def __init__(self, config: RunConfig, name: str = "collector", log: EpisodeLog | None = None) -> None:
        """Open the store and build the worlds.

        Args:
            config: Of the run.
            name: Of the writer; no two living collectors share one.
            log: Where to add the episodes; None for the store in the run's folder.
        """
        self.config = config
        self.store: EpisodeLog = EpisodeStore(config.root, config.storage) if log is None else log
        self.writer = self.store.writer(name)
        self.world = BinWorld(config.world)
        self.judge = Judge(config.detectors, config.world.device)
        self.folder = WeightFolder(config.weights)
        self.weights: Weights | None = None
        self.skills = [skill for skill in SKILLS if any(TASKS[task].skill == skill for task in config.learned)]

    def sync(self) -> None:
        """Load newer weights, and the detector in use, if they have changed."""
        self.weights = self.folder.newer(self.weights, self.config.learner, self.config.world.device)
        self.judge.sync()

    def step(self, order: Order) -> dict[str, float]:
        """Collect one sequence and return its metrics; a sequence that is in the store already is only counted."""
        # An earlier process may have stored them before it was killed.
        stored = self.store.count_seed(order.seed)
        if stored:
            return {"episodes": float(stored), "weights": 0.0, "graded": 0.0}
        self.sync()
        attempts = self._sequence(order)
        episodes = [episode for attempt in attempts for episode in attempt.episodes]
        numbers = self.writer.append_many(episodes)
        graded, tasks = 0, self.judge.judged(self.config.learned)
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
        """Complete the shard, and close the store and the worlds."""
        self.world.close()
        self.writer.close()
        self.store.close()

    def _sequence(self, order: Order) -> list[Attempt]:
        """Reset the bins and attempt one skill after the other."""
        self.world.reseed(order.seed)
        self.world.reset()
        attempts = []
        for skill in self.skills:
            counts = self._start(skill)
            batch, names = self._attempt(skill, order)
            counts &= ~self.world.broken  # if the physics diverged, the pictures do not follow from the actions
            kept = counts.tolist()
            episodes = [
                replace(episode, policy=names[row]) for row, episode in enumerate(batch.episodes()) if kept[row]
            ]
            attempts.append(Attempt(episodes, batch.outcome[counts]))
        return attempts

    def _start(self, skill: str) -> Tensor:
        """Bring the worlds to the start of a skill; return which of them (N,) count."""
        everyone = torch.ones_like(self.world.done)
        if skill == "lift":
            return everyone
        if skill == "cover":
            self.world.reset(covers=True)
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
        """Run one episode in every world; also return the name of the policy that acted in each."""
        config = self.config
        drawn, sources = self._draw_tasks(skill, order)
        script = script_of(skill, self.world, replace(config.script, seed=derive(order.seed, skill, "script")))
        version = self.weights.version if self.weights else 0
        names, acts_as = [], []
        for task, source in zip(drawn, sources, strict=True):
            helper = None if source == OWN else source
            names.append(script.name if source == SCRIPT else policy_name(version, helper))
            acts_as.append(task if source in (OWN, SCRIPT) else source)
        is_scripted = torch.tensor([source == SCRIPT for source in sources], device=self.world.device)
        has_learned = any(source != SCRIPT for source in sources)
        learned = self._learned(derive(order.seed, skill, "learned")) if has_learned else None
        policy = MixedPolicy(script, learned, is_scripted, task_indices(acts_as, self.world))
        return run_episodes(self.world, policy, drawn, config.collector.max_steps), names

    def _draw_tasks(self, skill: str, order: Order) -> tuple[list[str], list[str]]:
        """Draw a task of the skill for every world; also return what acts for it."""
        count = self.world.num_envs
        lots = torch.Generator().manual_seed(derive(order.seed, skill, "tasks"))
        tasks = [task for task in self.config.learned if TASKS[task].skill == skill]
        drawn = [tasks[lot] for lot in torch.randint(len(tasks), (count,), generator=lots).tolist()]
        own = torch.rand(count, generator=lots).tolist()
        if self.weights is None:
            return drawn, [SCRIPT] * count
        sources = [
            OWN if order.tries_own and lot < 0.5 else order.sources[task] for task, lot in zip(drawn, own, strict=True)
        ]
        return drawn, sources

    def _learned(self, seed: int) -> LearnedPolicy:
        assert self.weights is not None
        exploration = Exploration(self.config.collector.epsilon, self.config.collector.noise)
        return LearnedPolicy(self.weights, self.config.learner.bellman.cem, seed, exploration)
