"""The records of an evaluation: tasks, the same starts played by simple policies, and whole chains."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

COMMANDS = ("move", "close", "open", "end")  # the four modes of an action, as people read them


@dataclass(frozen=True)
class TaskResult:
    """The evaluation of one task."""

    task: str
    episodes: int
    success: float  # by the simulator's truth
    low: float  # bounds of Wilson's 95 % interval
    high: float
    verdict: float | None  # success by the detector; None if there is none, or it does not judge the task
    wrong: float | None  # share of the true failures that the detector accepts
    script: float | None  # success of the script from the same starts
    length: float  # mean number of actions
    commands: dict[str, float] | None = None  # share of each of COMMANDS among the actions
    simple: dict[str, float] | None = None  # success of simple policies from the same starts, by name


@dataclass(frozen=True)
class ChainResult:
    """The evaluation of a pick and a place in one scene: the policy places what it has lifted itself."""

    task: str  # place task; the pick is for any object
    episodes: int
    lifted: float  # share of the chains that reached the place
    success: float  # share of all chains that ended in a success of the task, by the simulator's truth
    low: float  # bounds of Wilson's 95 % interval of the success
    high: float
    script: float | None  # success of the scripts' chains from the same starts


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
    def mean(self) -> float:
        """Return the mean success over the tasks."""
        return sum(row.success for row in self.tasks) / len(self.tasks)

    def simple_means(self) -> dict[str, float]:
        """Return the mean success over the tasks of every simple policy and of the scripts."""
        names = [*(self.tasks[0].simple or {}), *(["script"] if self.tasks[0].script is not None else [])]
        found = {name: [_simple(row, name) for row in self.tasks] for name in names}
        return {name: sum(values) / len(values) for name, values in found.items()}

    def metrics(self) -> dict[str, float]:
        """Return the rates by name, for the log."""
        flat = {f"success/{row.task}": row.success for row in self.tasks}
        flat |= {f"verdict/{row.task}": row.verdict for row in self.tasks if row.verdict is not None}
        flat |= {f"chain/{row.task}": row.success for row in self.chains or ()}
        flat |= {f"simple/{name}": value for name, value in self.simple_means().items()}
        return {"success": self.mean, "weights": float(self.weights), **flat}

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


def _simple(row: TaskResult, name: str) -> float:
    value = row.script if name == "script" else (row.simple or {}).get(name)
    return 0.0 if value is None else value
