"""The records of an evaluation: tasks, what simple policies reach in them, and whole chains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

SCRIPT = "script"  # name of the scripts among simple policies: they read the simulator, the others see nothing


@dataclass(frozen=True)
class TaskResult:
    """The evaluation of one task."""

    task: str
    episodes: int
    success: float | None  # by the simulator's truth; None if it has none
    low: float | None  # bounds of Wilson's 95 % interval
    high: float | None
    verdict: float | None  # success by the detector; None if there is none, or it does not judge the task
    wrong: float | None  # share of the true failures that the detector accepts
    script: float | None  # success of the script, from the same starts
    length: float  # mean number of actions
    commands: dict[str, float] | None = None  # share of moving alone and of each command among the actions
    simple: dict[str, float] | None = None  # success of simple policies by name, from these starts
    one_action: float | None = None  # success of the same policy where its episodes end after one action


@dataclass(frozen=True)
class ChainResult:
    """The evaluation of two episodes in one scene, such as a pick and a place: it places what it has lifted itself."""

    task: str  # of the second episode
    episodes: int
    lifted: float  # share of the chains that reached the second episode
    success: float  # share of all chains that ended in a success of the task, by the simulator's truth
    low: float  # bounds of Wilson's 95 % interval of the success
    high: float
    script: float | None  # success of the scripts' chains, from the same starts
    after: str | None = None  # task of the first episode; None in older files: lift-any


@dataclass(frozen=True)
class Evaluation:
    """The evaluation of a policy on several tasks."""

    policy: str
    weights: int
    detector: str
    seed: int
    tasks: list[TaskResult]
    chains: list[ChainResult] | None = None

    @property
    def mean(self) -> float | None:
        """Return the mean success over the tasks that have a truth; None if there are none."""
        known = [row.success for row in self.tasks if row.success is not None]
        return sum(known) / len(known) if known else None

    @property
    def mean_verdict(self) -> float | None:
        """Return the mean success by the detector over the tasks that it judges; None if there are none."""
        known = [row.verdict for row in self.tasks if row.verdict is not None]
        return sum(known) / len(known) if known else None

    @property
    def mean_one_action(self) -> float | None:
        """Return the mean success of the same policy with one action; None if it was not played."""
        known = [row.one_action for row in self.tasks if row.one_action is not None]
        return sum(known) / len(known) if known else None

    def simple_means(self) -> dict[str, float]:
        """Return the mean success over the tasks of every simple policy and of the scripts."""
        graded = [row for row in self.tasks if row.success is not None]
        if not graded:
            return {}
        names = [*(graded[0].simple or {}), *([SCRIPT] if graded[0].script is not None else [])]
        found = {name: [_simple(row, name) for row in graded] for name in names}
        return {name: sum(values) / len(values) for name, values in found.items()}

    def metrics(self) -> dict[str, float]:
        """Return the rates by name, for the log."""
        flat = {f"success/{row.task}": row.success for row in self.tasks if row.success is not None}
        flat |= {f"verdict/{row.task}": row.verdict for row in self.tasks if row.verdict is not None}
        flat |= {f"chain/{row.task}": row.success for row in self.chains or ()}
        flat |= {f"simple/{name}": value for name, value in self.simple_means().items()}
        flat |= {} if self.mean_one_action is None else {"one_action": self.mean_one_action}
        flat |= {} if self.mean is None else {"success": self.mean}
        return {"weights": float(self.weights), **flat}

    def plain(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)

    @classmethod
    def load(cls, state: dict[str, Any]) -> Evaluation:
        """Restore what `plain` returned; fields that an older version did not write are None."""
        rows = [TaskResult(**{each.name: row.get(each.name) for each in fields(TaskResult)}) for row in state["tasks"]]
        saved = state.get("chains")
        chains = None if saved is None else [ChainResult(**row) for row in saved]
        return cls(state["policy"], state["weights"], state["detector"], state["seed"], rows, chains)


def best_blind(rates: Mapping[str, float]) -> str | None:
    """Return the name of the best policy that sees nothing among rates by policy; None if there is none."""
    blind = [name for name in rates if name != SCRIPT]
    return max(blind, key=lambda name: rates[name]) if blind else None


def _simple(row: TaskResult, name: str) -> float:
    value = row.script if name == SCRIPT else (row.simple or {}).get(name)
    return 0.0 if value is None else value
