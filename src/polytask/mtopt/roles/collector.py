"""Run worlds and write their episodes to the store; if there is a detector, grade every task it judges.

One step is one *sequence*: all worlds are reset, then they attempt one skill after the other, each for a random task.
In the bins, every world picks, then every hand that holds an object places it (with a lid, it covers an object). All
its episodes are entered together, so a kill leaves the whole sequence or nothing. A sequence is a function of its order
and of the weights alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from polytask.errors import UserError
from polytask.mtopt.config.run import RunConfig
from polytask.mtopt.config.world_specs import WorldSpec, world_spec
from polytask.mtopt.detector import Judge
from polytask.mtopt.learning.acting import Exploration
from polytask.mtopt.learning.weights import WeightFolder, Weights
from polytask.mtopt.policy_names import policy_name
from polytask.mtopt.records import Episode
from polytask.mtopt.roles.episode_log import EpisodeLog
from polytask.mtopt.roles.orders import OWN, SCRIPT, Order
from polytask.mtopt.roles.policies import LearnedPolicy, MixedPolicy, script_of
from polytask.mtopt.run_tasks import tasks_of
from polytask.mtopt.seeds import derive
from polytask.mtopt.store import EpisodeStore
from polytask.mtopt.task_table import TaskTable
from polytask.mtopt.world import EpisodeBatch, make_world, run_episodes, task_indices


@dataclass(frozen=True)
class Attempt:
    """The valid episodes of all worlds at one skill, before they are stored."""

    episodes: list[Episode]
    outcome: Tensor  # (M, V, S, S, 3)


class Collector:
    """Owns a batch of worlds and one writer of the store."""

    def __init__(
        self,
        config: RunConfig,
        name: str = "collector",
        log: EpisodeLog | None = None,
        tasks: TaskTable | None = None,
    ) -> None:
        """Open the store and build the worlds.

        Args:
            config: Of the run.
            name: Of the writer; no two living collectors share one.
            log: Where to add the episodes; None for the store in the run's folder.
            tasks: Of the run; None to read them from its folder.

        Raises:
            UserError: If the world cannot start a learned task.
        """
        self.config = config
        self.store: EpisodeLog = EpisodeStore(config.root, config.storage) if log is None else log
        self.writer = self.store.writer(name)
        self.tasks = tasks or tasks_of(config)
        self.skills = skills_of(config.learned, self.tasks, world_spec(config.world.kind))
        self.world = make_world(config.world)
        self.judge = Judge(config.detectors, config.world.device)
        self.folder = WeightFolder(config.weights)
        self.weights: Weights | None = None

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
        self.world.warn()
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
        """Reset the worlds and attempt one skill after the other."""
        self.world.reseed(order.seed)
        self.world.reset()
        attempts = []
        for number, skill in enumerate(self.skills):
            hand_over = self.config.collector.hand_over
            counts = self.world.go_on(skill, self.skills[:number], hand_over=hand_over)
            batch, names = self._attempt(skill, order)
            counts &= ~self.world.broken  # if the physics diverged, the pictures do not follow from the actions
            kept = counts.tolist()
            episodes = [
                replace(episode, policy=names[row]) for row, episode in enumerate(batch.episodes()) if kept[row]
            ]
            attempts.append(Attempt(episodes, batch.outcome[counts]))
        return attempts

    def _attempt(self, skill: str, order: Order) -> tuple[EpisodeBatch, list[str]]:
        """Run one episode in every world; also return the name of the policy that acted in each."""
        config = self.config
        drawn, sources = self._draw_tasks(skill, order)
        script = script_of(skill, self.world, config, derive(order.seed, skill, "script"))
        version = self.weights.version if self.weights else 0
        names, acts_as = [], []
        for task, source in zip(drawn, sources, strict=True):
            helper = None if source == OWN else source
            names.append(script.name if source == SCRIPT else policy_name(version, helper))
            acts_as.append(task if source in (OWN, SCRIPT) else source)
        is_scripted = torch.tensor([source == SCRIPT for source in sources], device=self.world.device)
        has_learned = any(source != SCRIPT for source in sources)
        learned = self._learned(derive(order.seed, skill, "learned")) if has_learned else None
        policy = MixedPolicy(script, learned, is_scripted, task_indices(acts_as, self.world, self.tasks))
        return run_episodes(self.world, policy, drawn, config.collector.max_steps, self.tasks), names

    def _draw_tasks(self, skill: str, order: Order) -> tuple[list[str], list[str]]:
        """Draw a task of the skill for every world; also return what acts for it."""
        count = self.world.num_envs
        lots = torch.Generator().manual_seed(derive(order.seed, skill, "tasks"))
        tasks = [task for task in self.config.learned if self.tasks[task].skill == skill]
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


def skills_of(names: Sequence[str], tasks: TaskTable, spec: WorldSpec) -> list[str]:
    """Return the skills of tasks, in the order of a sequence of their world.

    Raises:
        UserError: If a task is unknown, or the world has no such skill.
    """
    tasks.require(names)
    for task in names:
        skill = tasks[task].skill
        if skill not in spec.skills:
            raise UserError(
                f"the world '{spec.name}' cannot start task '{task}': its skill '{skill}' is none of "
                f"{', '.join(spec.skills)}; import episodes of it instead, and train"
            )
    return [skill for skill in spec.skills if any(tasks[task].skill == skill for task in names)]
