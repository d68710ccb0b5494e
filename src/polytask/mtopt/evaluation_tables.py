"""An evaluation as the result of a command: tables of tasks, of simple policies from the same starts, and of chains."""

from __future__ import annotations

from dataclasses import asdict

from polytask.mtopt.roles.evaluation import COMMANDS, Evaluation
from polytask.result import Result, Table


def evaluation_result(evaluation: Evaluation, run_dir: str) -> Result:
    """Return an evaluation as the result of a command."""
    tables = [_tasks(evaluation), *_simple(evaluation), *_chains(evaluation)]
    lines = [f"mean success {evaluation.mean:.3f} (simulator's truth); run: {run_dir}"]
    means = evaluation.simple_means()
    if means:
        best = max(means, key=lambda name: means[name])
        lines.append(f"best policy that sees nothing, from the same starts: {best}, mean success {means[best]:.3f}")
    payload = {**asdict(evaluation), "success": evaluation.mean, "simple": means, "run_dir": run_dir}
    return Result(payload, tables, lines)


def _tasks(evaluation: Evaluation) -> Table:
    columns = (
        "task",
        "episodes",
        "success",
        "95 % interval",
        "detector says",
        "wrongly accepted",
        "actions",
        *COMMANDS,
    )
    rows = []
    for row in evaluation.tasks:
        commands = row.commands or {}
        figures = (row.task, row.episodes, row.success, f"{row.low:.2f} to {row.high:.2f}", row.verdict, row.wrong)
        rows.append((*figures, row.length, *(commands.get(name) for name in COMMANDS)))
    return Table(f"{evaluation.policy}, detector {evaluation.detector or 'none'}", columns, rows)


def _simple(evaluation: Evaluation) -> list[Table]:
    names = list(evaluation.tasks[0].simple or ())
    if not names:
        return []
    rows = [
        (row.task, row.success, *((row.simple or {}).get(name) for name in names), row.script)
        for row in evaluation.tasks
    ]
    means = evaluation.simple_means()
    rows.append(("mean", evaluation.mean, *(means[name] for name in names), means.get("script")))
    return [Table("success from the same starts", ("task", evaluation.policy, *names, "scripts"), rows)]


def _chains(evaluation: Evaluation) -> list[Table]:
    if not evaluation.chains:
        return []
    rows = [
        (f"lift-any, {row.task}", row.episodes, row.lifted, row.success, f"{row.low:.2f} to {row.high:.2f}", row.script)
        for row in evaluation.chains
    ]
    columns = ("chain", "episodes", "lifted", "success", "95 % interval", "scripts")
    return [Table("chains: place what was lifted, nothing is handed over", columns, rows)]
