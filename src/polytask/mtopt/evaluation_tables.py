"""An evaluation as the result of a command: tables of tasks, of simple policies beside them, and of chains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from polytask.mtopt.roles.evaluation import SCRIPT, ChainResult, Evaluation, TaskResult, best_blind
from polytask.mtopt.tasks import BROAD
from polytask.result import Result, Table

ALIKE = "from the same starts"  # as the policy; see `Evaluator`
ONE_ACTION = "same policy, one action"  # column: its episodes end after one action


def evaluation_result(evaluation: Evaluation, run_dir: str) -> Result:
    """Return an evaluation as the result of a command."""
    tables = [_tasks(evaluation), *_simple(evaluation), *_chains(evaluation)]
    lines = [f"{_mean_line(evaluation)}; run: {run_dir}"]
    means = evaluation.simple_means()
    best = best_blind(means)
    if best is not None:
        lines.append(f"best policy that sees nothing, {ALIKE}: {best}, mean success {means[best]:.3f}")
    if SCRIPT in means:
        lines.append(f"scripts, which read the simulator: mean success {means[SCRIPT]:.3f}")
    payload = {**asdict(evaluation), "success": evaluation.mean, "simple": means, "run_dir": run_dir}
    return Result(payload, tables, lines)


def _mean_line(evaluation: Evaluation) -> str:
    if evaluation.mean is not None:
        return f"mean success {evaluation.mean:.3f} (simulator's truth)"
    if evaluation.mean_verdict is not None:
        return f"mean success {evaluation.mean_verdict:.3f} (the detector's verdict; these tasks have no truth)"
    return "no task has a truth, and the detector judges none of them"


def _interval(low: float | None, high: float | None) -> str | None:
    return None if low is None or high is None else f"{low:.2f} to {high:.2f}"


def _tasks(evaluation: Evaluation) -> Table:
    modes = tuple(evaluation.tasks[0].commands or ())
    columns = (
        "task",
        "episodes",
        "success",
        "95 % interval",
        "detector says",
        "wrongly accepted",
        "actions",
        *modes,
    )
    rows = []
    for row in evaluation.tasks:
        commands = row.commands or {}
        figures = (row.task, row.episodes, row.success, _interval(row.low, row.high), row.verdict, row.wrong)
        rows.append((*figures, row.length, *(commands.get(name) for name in modes)))
    return Table(f"{evaluation.policy}, detector {evaluation.detector or 'none'}", columns, rows)


def _simple(evaluation: Evaluation) -> list[Table]:
    graded = [row for row in evaluation.tasks if row.success is not None]
    names = list(graded[0].simple or ()) if graded else []
    if not names:
        return []
    has_short = all(row.one_action is not None for row in graded)
    short = [ONE_ACTION] if has_short else []
    rows = [
        (row.task, row.success, *([row.one_action] if has_short else []), *_rates(row, names), row.script)
        for row in graded
    ]
    means = evaluation.simple_means()
    mean_short = [evaluation.mean_one_action] if has_short else []
    rows.append(("mean", evaluation.mean, *mean_short, *(means[name] for name in names), means.get(SCRIPT)))
    return [Table(f"success, {ALIKE}", ("task", evaluation.policy, *short, *names, "scripts"), rows)]


def _rates(row: TaskResult, names: Sequence[str]) -> list[float | None]:
    return [(row.simple or {}).get(name) for name in names]


def _chains(evaluation: Evaluation) -> list[Table]:
    if not evaluation.chains:
        return []
    rows = [
        (_chain(row), row.episodes, row.lifted, row.success, _interval(row.low, row.high), row.script)
        for row in evaluation.chains
    ]
    columns = ("chain", "episodes", "reached", "success", "95 % interval", "scripts")
    return [Table("chains: go on from what the first episode reached, nothing is handed over", columns, rows)]


def _chain(row: ChainResult) -> str:
    return f"{row.after or BROAD['lift']}, {row.task}"
