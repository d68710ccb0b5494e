"""Decide what a run does next: scripts, labels, detector, offline learning, then rounds of its own collection.

    round 0   collect by scripts -> label -> train a detector (both `labels.passes` times) -> grade everything
              -> train Q -> evaluate
    round n   collect by learned policies -> label what is uncertain -> detector -> grade -> train Q -> evaluate

At first, the policy of the broad task of its skill (in the bins lift-any, place-any) acts for a task, or the script
until that policy is as good. Half of the attempts already use the task's own policy. Once those succeed as often by the
detector's verdict, the task switches to its own policy and stays with it. None of this uses the simulator's truth.

A runtime may collect for the next round while this one goes on (`next_ahead`), as the paper's robots never stop. How
much it may collect grows with the progress of the round, so that newer and newer weights act.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polytask.mtopt.config.run import RunConfig
from polytask.mtopt.config.world_specs import world_spec
from polytask.mtopt.roles.orders import OWN, PHASES, SCRIPT, Job, Order
from polytask.mtopt.roles.tries import Tries
from polytask.mtopt.run_tasks import tasks_of
from polytask.mtopt.seeds import derive


class Controller:
    """Issues jobs in order and keeps counts; its state is plain values."""

    def __init__(self, config: RunConfig) -> None:
        """Start before the first round.

        Raises:
            UserError: If a learned task is unknown.
        """
        self.config = config
        known, broad = tasks_of(config), world_spec(config.world.kind).broad
        known.require(config.learned)
        self._broad = {task: broad.get(known[task].skill, task) for task in config.learned}  # who helps at first
        self._others: dict[str, str] = {}  # sources of tasks that this process does not learn
        self.round = 0
        self.phase = PHASES[0]
        self.issued = dict.fromkeys(PHASES, 0)  # jobs of each kind that were issued
        self.episodes = 0  # collected in this round
        self.updates = 0  # of the Q-network, in total
        self.updated = 0  # of them, in this round
        self.early = 0  # episodes collected for the next round
        self.seen = 0  # last episode that the grading of the round before saw
        self.lesson = ""  # digest of what the last detector of the run learned from
        self.passed = 0  # passes of labelling in this round that were followed by another one
        self.sources = dict.fromkeys(config.learned, SCRIPT)
        self.open: list[Job] = []
        self.ahead: list[Job] = []  # collections for the next round that are under way
        self._skip()

    @property
    def is_done(self) -> bool:
        """Return whether the run is finished."""
        return self.round > self.config.controller.rounds

    def next(self) -> Job | None:
        """Issue the next job; return None if it must wait for running jobs, or if the run is finished."""
        if self.is_done or (self.open and self.phase != "collect"):
            return None
        expected = self.episodes + (len(self.open) + len(self.ahead)) * self.config.world.num_envs
        if (self.open or (self.ahead and self.phase == "collect")) and expected >= self._goal():
            return None
        target = min(self.updates + self.config.trainer.publish_every, self.updates - self.updated + self._goal())
        part = self.passed if self.phase == "label" else 0
        job = Job(self.phase, self.round, self.issued[self.phase], target if self.phase == "train" else 0, part)
        self.issued[self.phase] += 1
        self.open.append(job)
        return job

    def next_ahead(self) -> Job | None:
        """Issue a job that collects for the next round; None if this round has not come far enough for one more."""
        if self.is_done or self.phase == "collect" or self.round == self.config.controller.rounds or not self.updates:
            return None  # before the first updates, the weights have learned nothing
        expected = self.early + len(self.ahead) * self.config.world.num_envs
        if expected >= self._progress() * self.config.collector.round_episodes:
            return None
        job = Job("collect", self.round + 1, self.issued["collect"])
        self.issued["collect"] += 1
        self.ahead.append(job)
        return job

    def finish(self, job: Job, metrics: Mapping[str, float]) -> None:
        """Count a job's result and go to the next phase if this one is complete.

        Args:
            job: From `next` or `next_ahead`.
            metrics: With collect, the stored `episodes`; with grade, the `last` episode that it saw.
        """
        self._close(job)
        if job.kind == "collect":
            if self.phase == "collect":
                self.episodes += int(metrics["episodes"])
            else:
                self.early += int(metrics["episodes"])
        elif job.kind == "train":
            self.updated += job.target - self.updates
            self.updates = job.target
        elif job.kind == "grade":
            self.seen = int(metrics["last"])
        is_counted = job.kind in ("collect", "train")
        if not self.open and (not is_counted or self._done() >= self._goal()):
            self._advance()

    def give_up(self, job: Job) -> None:
        """Withdraw a job that was not done; the next job of its kind replaces it."""
        self._close(job)
        if job.kind != "collect":
            self.issued[job.kind] -= 1

    def repeat(self, job: Job) -> None:
        """Withdraw a job whose result does not suffice; the next one of its kind has a number of its own."""
        self._close(job)

    def _close(self, job: Job) -> None:
        """Remove a job from those under way."""
        (self.ahead if job in self.ahead else self.open).remove(job)

    def extra(self, kind: str, target: int = 0) -> Job:
        """Issue a job that is not part of the plan."""
        job = Job(kind, self.round, self.issued[kind], target)
        self.issued[kind] += 1
        return job

    def count(self, episodes: int) -> None:
        """Count extra episodes towards this round, if it still collects."""
        if self.phase == "collect" and not self.is_done:
            self.episodes += episodes
            self._skip()

    def order(self, job: Job) -> Order:
        """Return the order for a collecting job of this round."""
        sources = dict.fromkeys(self.config.learned, SCRIPT) if job.round == 0 else self.helpers()
        seed = derive(self.config.seed, "collect", job.number)
        return Order(seed, sources, tries_own=job.round > 0)

    def helpers(self) -> dict[str, str]:
        """Return for each task what acts: its own policy, that of the broad task of its skill, or the script."""
        chosen = {}
        for task, source in self.sources.items():
            broad = self._broad[task]
            helps = broad if broad != task and self.sources.get(broad) == OWN else SCRIPT
            chosen[task] = OWN if source == OWN else helps
        return chosen

    def compare(self, tries: Mapping[str, Mapping[str, Tries]]) -> list[str]:
        """Switch tasks whose own policy succeeds as often as its helper; return their names.

        Args:
            tries: Task -> what acted (`script`, `own`, or the helping task) -> attempts.
        """
        helpers, switched = self.helpers(), []
        for task, helper in helpers.items():
            own, other = tries[task].get(OWN, Tries()), tries[task].get(helper, Tries())
            # Two policies that never succeed have equal rates, too, but that shows nothing.
            has_enough = own.episodes >= self.config.controller.parity_episodes and own.successes > 0
            if helper != OWN and has_enough and own.rate >= other.rate:
                self.sources[task] = OWN
                switched.append(task)
        return switched

    def state_dict(self) -> dict[str, Any]:
        """Return plain values; running jobs are to be done again."""
        # Another collection replaces a lost one, because only episodes count, so its number is not used again.
        lost = {kind: sum(job.kind == kind != "collect" for job in self.open) for kind in PHASES}
        return {
            "round": self.round,
            "phase": self.phase,
            "issued": {kind: count - lost[kind] for kind, count in self.issued.items()},
            "episodes": self.episodes,
            "updates": self.updates,
            "updated": self.updated,
            "early": self.early,
            "seen": self.seen,
            "passed": self.passed,
            "lesson": self.lesson,
            "sources": {**self._others, **self.sources},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned; tasks that were added since start with the script."""
        self.round, self.phase = int(state["round"]), str(state["phase"])
        self.issued = {kind: int(state["issued"].get(kind, 0)) for kind in PHASES}
        self.episodes, self.updates = int(state["episodes"]), int(state["updates"])
        self.updated, self.seen = int(state["updated"]), int(state["seen"])
        self.passed, self.early = (int(state.get(name) or 0) for name in ("passed", "early"))  # since version 0.2
        self.lesson = str(state.get("lesson") or "")
        self.sources = {task: state["sources"].get(task, SCRIPT) for task in self.config.learned}
        self._others = {task: source for task, source in state["sources"].items() if task not in self.sources}
        self.open, self.ahead = [], []
        self._skip()

    def _progress(self) -> float:
        """Return the share of the next round's episodes that may be collected by now.

        In the first round nothing is learned before the training; in later ones the weights of the round before act.
        """
        before = 0.5 if self.round else 0.0
        if self.phase == "train":
            return before + (1.0 - before) * self.updated / self._goal()
        return 1.0 if self.phase == "evaluate" else before

    def _goal(self) -> int:
        """Return the amount of work of the present phase in this round."""
        collector, trainer, labels = self.config.collector, self.config.trainer, self.config.labels
        first = {"collect": collector.episodes, "train": trainer.updates, "label": labels.per_task}
        later = {"collect": collector.round_episodes, "train": trainer.round_updates, "label": labels.round_per_task}
        goals = first if self.round == 0 else later
        return {**goals, "detector": goals["label"]}.get(self.phase, 1)

    def _done(self) -> int:
        """Return the amount of work of the present phase that is done."""
        return {"collect": self.episodes, "train": self.updated}.get(self.phase, 0)

    def _advance(self) -> None:
        """Go to the next phase that has work."""
        place = PHASES.index(self.phase) + 1
        # A person labels at any time, so only the stand-in has several passes.
        passes = self.config.labels.passes if self.config.labels.who == "stand-in" else 1
        if self.phase == "detector" and self.round == 0 and self.passed + 1 < passes:
            place = PHASES.index("label")
            self.passed += 1
        if place == len(PHASES):
            self.round, place = self.round + 1, 0
            self.episodes, self.early = self.early, 0
            self.updated = self.passed = 0
        self.phase = PHASES[place]
        self._skip()

    def _skip(self) -> None:
        """Skip phases without work in this round."""
        if not self.is_done and self._done() >= self._goal():
            self._advance()
