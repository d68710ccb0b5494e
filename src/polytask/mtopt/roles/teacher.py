"""Get labels: from a stand-in that answers from the simulator's truth through the page's API, or from a person."""

from __future__ import annotations

import math
import time
from importlib.util import find_spec

from polytask.errors import UserError
from polytask.mtopt.config.label import LabelConfig
from polytask.mtopt.config.learning import MEASURED
from polytask.mtopt.config.run import RunConfig, TeacherConfig
from polytask.mtopt.config.world_specs import world_spec
from polytask.mtopt.detector.labels import labels_by_task, split, teachable
from polytask.mtopt.label.client import InProcessClient, get
from polytask.mtopt.label.server import NEEDS
from polytask.mtopt.label.stand_in import StandIn
from polytask.mtopt.run_tasks import tasks_of
from polytask.mtopt.seeds import derive
from polytask.mtopt.store import EpisodeStore

POLL = 0.05  # s
RANKED = 8  # episodes that a detector ranks for each that is then asked about: successes of a kind are rare
# Queues of the page, and the share of a round's labels that it has after each; the last one gives what others lack.
# Some labels of every round are random draws, because only those measure a detector.
FIRST = (("new", 1.0),)
LATER = (("new", 0.3), ("likely", 0.65), ("uncertain", 1.0), ("new", 1.0))


def random_labels(labels: TeacherConfig, rounds: int) -> float:
    """Return how many of the labels that the stand-in gives a task in a run are drawn at random."""
    share = LATER[0][1]
    first = labels.per_task / labels.passes
    return first + share * (labels.per_task - first + rounds * labels.round_per_task)


class Teacher:
    """Adds labels until every learned task has the configured number."""

    def __init__(self, config: RunConfig) -> None:
        """Open the store.

        Raises:
            UserError: If the stand-in needs an extra that is not installed.
        """
        self.config = config
        self.store = EpisodeStore(config.root, config.storage)
        if config.labels.who == "stand-in" and any(find_spec(name) is None for name in NEEDS):
            raise UserError("the stand-in labels through the labelling page: pip install 'polytask[label]'")

    @property
    def is_ready(self) -> bool:
        """Return whether there are labels: with `labels.who=person`, both kinds of a learned task that train."""
        if self.config.labels.who == "stand-in":
            return True
        learned, _ = split(labels_by_task(self.store, ("person",)), MEASURED, self.store.examples())
        return not set(self.config.learned).isdisjoint(teachable(learned))

    def step(self, round_number: int, part: int = 0) -> dict[str, float]:
        """Add the labels of a round: random ones at first, later also likely successes and uncertain outcomes.

        If the detector was not taught a task, it ranks no episodes for it, and any episodes are labelled: otherwise the
        task would never get the labels it lacks. A person labels on the page at any time; a round uses the labels that
        exist.

        Args:
            round_number: Of the run.
            part: Number of the pass of labelling in the first round.
        """
        labels = self.config.labels
        if labels.who == "person":
            return {"labels": float(len(self.store.labels(source="person"))), "goal": 0.0}
        start, goal = self._goals(round_number, part)
        plan = LATER if round_number or part else FIRST
        client = self._client(max(1, goal - start))
        seed = derive(self.config.seed, "labels", round_number, part)
        stand_in = StandIn(client, self.store.truth, labels.error_rate, seed)
        before = {row["name"]: row["successes"] + row["failures"] for row in get(client, "/api/state")["tasks"]}
        made = 0
        graded = world_spec(self.config.world.kind).graded
        for task in (one for one in self.config.learned if one in graded):  # of others, only people know the truth
            # If a kill interrupted the round, each queue gives the rest of its part.
            first, count = min(start, before[task]), before[task]
            for kind, share in plan:
                wanted = first + math.ceil(share * (goal - first)) - count
                count += stand_in.label(task, wanted, kind) if wanted > 0 else 0
            made += count - before[task]
        return {"labels": float(made), "goal": float(goal)}

    def _goals(self, round_number: int, part: int) -> tuple[int, int]:
        """Return the labels per task before and after a round, or before and after a part of the first round."""
        labels = self.config.labels
        if round_number == 0:
            ends = [math.ceil(labels.per_task * number / labels.passes) for number in (part, part + 1)]
            return ends[0], ends[1]
        goal = labels.per_task + round_number * labels.round_per_task
        return goal - labels.round_per_task, goal

    def close(self) -> None:
        """Close the store."""
        self.store.close()

    def _client(self, count: int) -> InProcessClient:
        """Start the page without a port, and wait until its detector, if any, has ranked the episodes."""
        from polytask.mtopt.label.app import create_app

        settings = LabelConfig(
            run_dir=self.config.run_dir,
            tasks=list(self.config.learned),
            source="oracle",
            pool=RANKED * count,
            device=self.config.device,
        )
        client = InProcessClient(create_app(settings, tasks_of(self.config), self.store))
        while get(client, "/api/train")["state"] == "running":
            time.sleep(POLL)
        return client
