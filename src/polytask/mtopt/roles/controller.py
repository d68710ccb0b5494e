"""Decide what a run does next: scripts, labels, detector, offline learning, then rounds of its own collection.

    round 0   collect by scripts -> label -> train a detector -> grade everything -> train Q -> evaluate
    round n   collect by learned policies -> label what is uncertain -> detector -> grade -> train Q -> evaluate

A task is begun with the policy of the broad task of its skill (lift-any, place-any), or with the script while that is
no better. Half of its attempts already use its own policy; once those succeed as often, by the detector's verdict, the
task is switched to its own for good. The simulator's truth has no part in any of this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from polytask.mtopt.config.run import RunConfig
from polytask.mtopt.seeds import derive
from polytask.mtopt.tasks import TASKS

PHASES = ("collect", "label", "detector", "grade", "train", "evaluate")
BROAD = {"lift": "lift-any", "place": "place-any"}  # by skill
SCRIPT, OWN = "script", "own"  # what acts for a task; any other value is the task whose policy helps out


@dataclass(frozen=True)
class Job:
    """One thing to do. Collecting is the only kind of which several may be under way."""

    kind: str  # one of PHASES
    round: int
    number: int  # counts the jobs of this kind; the same one is the same work
    target: int = 0  # with train: updates in all when it is done


@dataclass(frozen=True)
class Order:
    """What a collector is told."""

    number: int
    seed: int  # of the scenes and all chance; no two orders of a run share it
    sources: dict[str, str]  # task -> script, own, or a task whose policy helps out
    tries_own: bool = False  # let half of the attempts use the task's own policy where something else helps out


@dataclass(frozen=True)
class Tries:
    """Attempts and, by the detector's verdict, successes."""

    episodes: int = 0
    successes: int = 0

    @property
    def rate(self) -> float:
        """Return the share of successes."""
        return self.successes / self.episodes if self.episodes else 0.0


class Controller:
    """Hands out jobs in order and keeps counts; all of its state is plain values."""

    def __init__(self, config: RunConfig) -> None:
        """Begin before the first round."""
        self.config = config
        self.round = 0
        self.phase = PHASES[0]
        self.issued = dict.fromkeys(PHASES, 0)  # jobs of each kind that were handed out
        self.episodes = 0  # collected in this round
        self.updates = 0  # of the Q-network, in all
        self.updated = 0  # of them, in this round
        self.seen = 0  # last episode of the round before
        self.sources = dict.fromkeys(config.learned, SCRIPT)
        self.open: list[Job] = []
        self._skip()

    @property
    def is_done(self) -> bool:
        """Tell whether nothing is left to do."""
        return self.round > self.config.controller.rounds

    def next(self) -> Job | None:
        """Hand out a job; None while those under way must be waited for, and when all is done."""
        if self.is_done or (self.open and self.phase != "collect"):
            return None
        expected = self.episodes + len(self.open) * self.config.world.num_envs
        if self.open and expected >= self._goal():
            return None
        target = min(self.updates + self.config.trainer.publish_every, self.updates - self.updated + self._goal())
        job = Job(self.phase, self.round, self.issued[self.phase], target if self.phase == "train" else 0)
        self.issued[self.phase] += 1
        self.open.append(job)
        return job

    def finish(self, job: Job, metrics: Mapping[str, float]) -> None:
        """Take a job's result and go on to the next phase where this one is complete.

        Args:
            job: From `next`.
            metrics: With collect, `episodes` that were stored; with evaluate, the last `episode` that the round made.
        """
        self.open.remove(job)
        if job.kind == "collect":
            self.episodes += int(metrics["episodes"])
        elif job.kind == "train":
            self.updated += job.target - self.updates
            self.updates = job.target
        elif job.kind == "evaluate":
            self.seen = int(metrics["episode"])
        is_counted = job.kind in ("collect", "train")
        if not self.open and (not is_counted or self._done() >= self._goal()):
            self._advance()

    def give_up(self, job: Job) -> None:
        """Take back a job whose worker died; the next one of its kind takes its place."""
        self.open.remove(job)
        if job.kind != "collect":
            self.issued[job.kind] -= 1

    def extra(self, kind: str, target: int = 0) -> Job:
        """Hand out a job that no plan asks for."""
        job = Job(kind, self.round, self.issued[kind], target)
        self.issued[kind] += 1
        return job

    def count(self, episodes: int) -> None:
        """Count episodes that no plan asked for towards this round, where it still collects."""
        if self.phase == "collect" and not self.is_done:
            self.episodes += episodes
            self._skip()

    def order(self, job: Job) -> Order:
        """Say what a collector does for a job of this round."""
        sources = dict.fromkeys(self.config.learned, SCRIPT) if job.round == 0 else self.helpers()
        seed = derive(self.config.seed, "collect", job.number)
        return Order(job.number, seed, sources, tries_own=job.round > 0)

    def helpers(self) -> dict[str, str]:
        """Say for each task what acts: its own policy, that of the broad task of its skill, or the script."""
        chosen = {}
        for task, source in self.sources.items():
            broad = BROAD.get(TASKS[task].skill, task)
            helps = broad if broad != task and self.sources.get(broad) == OWN else SCRIPT
            chosen[task] = OWN if source == OWN else helps
        return chosen

    def compare(self, tries: Mapping[str, Mapping[str, Tries]]) -> list[str]:
        """Switch tasks whose own policy is at parity with what helped out; return their names.

        Args:
            tries: Task -> what acted (`script`, `own`, or the helping task) -> attempts.
        """
        helpers, switched = self.helpers(), []
        for task, helper in helpers.items():
            own, other = tries[task].get(OWN, Tries()), tries[task].get(helper, Tries())
            # Two policies that never succeed are at parity too, but say nothing.
            has_enough = own.episodes >= self.config.controller.parity_episodes and own.successes > 0
            if helper != OWN and has_enough and own.rate >= other.rate:
                self.sources[task] = OWN
                switched.append(task)
        return switched

    def state_dict(self) -> dict[str, Any]:
        """Give plain values; jobs that are under way are to be done again."""
        # A lost collection is made up for by another: what counts is episodes, and its number is not used again.
        lost = {kind: sum(job.kind == kind != "collect" for job in self.open) for kind in PHASES}
        return {
            "round": self.round,
            "phase": self.phase,
            "issued": {kind: count - lost[kind] for kind, count in self.issued.items()},
            "episodes": self.episodes,
            "updates": self.updates,
            "updated": self.updated,
            "seen": self.seen,
            "sources": dict(self.sources),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` returned; tasks that were not known then begin with the script."""
        self.round, self.phase = int(state["round"]), str(state["phase"])
        self.issued = {kind: int(state["issued"].get(kind, 0)) for kind in PHASES}
        self.episodes, self.updates = int(state["episodes"]), int(state["updates"])
        self.updated, self.seen = int(state["updated"]), int(state["seen"])
        self.sources = {task: state["sources"].get(task, SCRIPT) for task in self.config.learned}
        self.open = []
        self._skip()

    def _goal(self) -> int:
        """Return how much of the present phase this round has."""
        collector, trainer, labels = self.config.collector, self.config.trainer, self.config.labels
        first = {"collect": collector.episodes, "train": trainer.updates, "label": labels.per_task}
        later = {"collect": collector.round_episodes, "train": trainer.round_updates, "label": labels.round_per_task}
        goals = first if self.round == 0 else later
        return {**goals, "detector": goals["label"]}.get(self.phase, 1)

    def _done(self) -> int:
        """Return how much of the present phase is done."""
        return {"collect": self.episodes, "train": self.updated}.get(self.phase, 0)

    def _advance(self) -> None:
        """Go to the next phase of which there is something to do."""
        place = PHASES.index(self.phase) + 1
        if place == len(PHASES):
            self.round, place = self.round + 1, 0
            self.episodes = self.updated = 0
        self.phase = PHASES[place]
        self._skip()

    def _skip(self) -> None:
        """Pass over phases of which this round has nothing left."""
        if not self.is_done and self._done() >= self._goal():
            self._advance()
