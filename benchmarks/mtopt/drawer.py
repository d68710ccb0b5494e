"""Test whether a task of several steps is learned: preset drawer on one CPU core, limited to fewer and fewer actions.

A Sawyer has up to ten actions of at most 8 cm to pull a drawer open or to push it shut; nothing is assisted. Each seed
is a run of the package: scripts collect, the stand-in labels through the page, a detector grades, and Q-learning sees
its verdicts alone; then comes a round with episodes of its own. Before and after this round, the policy is evaluated
with at most 1, 2, 3 and all actions: what a limit takes away was achieved by several steps. Constant commands, random
actions and the scripts play the same starts.

The folders below `--work` hold runs that are not finished, and `--out` the finished rows. The same command again
continues.
"""

from __future__ import annotations

import argparse
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from experiment import Report, contrast, pooled, run
from runs import Deadline, TimeIsUpError, evaluation, take_device
from simple import above_blind

from polytask.config.compose import compose
from polytask.mtopt.config.run import RunConfig
from polytask.mtopt.runtime.checks import prepared
from polytask.mtopt.runtime.local import LocalRuntime

FREE = ("seconds", "seeds", "work", "threads")  # flags that may differ from one command to the next
KEPT = ("success", "low", "high", "episodes", "verdict", "wrong", "length", "commands")


def settings(arguments: argparse.Namespace, seed: int, rounds: int) -> RunConfig:
    """Return the settings of a seed's run up to a round; it is evaluated afterwards."""
    words = ["preset=drawer", "evaluator.simple=false", "evaluator.episodes=1"]
    words += [f"seed={seed}", f"learner.seed={seed}", *arguments.words, f"controller.rounds={rounds}"]
    config = compose(RunConfig, words)
    config.run_dir = str(Path(arguments.work) / f"seed{seed}")
    return prepared(config)


def trained(arguments: argparse.Namespace, report: Report, seed: int, rounds: int) -> RunConfig:
    """Run a seed to the end of a round, or what is left of it."""
    config, stops = settings(arguments, seed, rounds), Deadline(report)
    with closing(LocalRuntime(config, report.say)) as runtime:
        runtime.run(stops)
    stops.check()
    return config


def limited(config: RunConfig, arguments: argparse.Namespace, limit: int) -> RunConfig:
    """Return the settings of an evaluation with at most `limit` actions."""
    evaluator = replace(config.evaluator, episodes=arguments.episodes, max_steps=limit)
    return replace(config, evaluator=evaluator)


def played(config: RunConfig, arguments: argparse.Namespace, limit: int) -> dict[str, Any]:
    """Evaluate the newest weights with at most `limit` actions; return what each task reached."""
    found = evaluation(limited(config, arguments, limit), config.learned)
    return {task: {key: row[key] for key in KEPT} for task, row in found.items()}


def baselines(arguments: argparse.Namespace) -> dict[str, Any]:
    """Play the starts, which all seeds share, by simple policies and scripts with all actions."""
    config = limited(settings(arguments, 0, 0), arguments, max(arguments.limits))
    config.evaluator = replace(config.evaluator, simple=True)
    found = evaluation(config, config.learned, is_scripted=True)
    return {
        task: {"episodes": row["episodes"], "script": row["success"], **(row["simple"] or {})}
        for task, row in found.items()
    }


def summarize(report: Report) -> None:
    """Pool the seeds of each limit, and compare all actions with one, and with the best policy that sees nothing."""
    simple: dict[str, dict[str, Any]] = report.results["baselines"]
    for number in sorted({row["round"] for row in report.results["rows"]}):
        rows = [row for row in report.results["rows"] if row["round"] == number]
        found = {task: _compared(rows, task, rates) for task, rates in simple.items()}
        report.put(f"table_round_{number}", {task: table for task, (table, _) in found.items()})
        report.put(f"gaps_round_{number}", {task: gaps for task, (_, gaps) in found.items()})


def _compared(rows: list[dict[str, Any]], task: str, simple: dict[str, Any]) -> tuple[dict[int, Any], dict[str, Any]]:
    """Return a task's rate and mean length for each limit, and its gaps to one action and to blind policies."""
    table, rates = {}, {}
    for limit in sorted({row["limit"] for row in rows}):
        mine = [row["tasks"][task] for row in rows if row["limit"] == limit]
        rates[limit] = [{"mean": one["success"], "count": one["episodes"]} for one in mine]
        table[limit] = {**pooled(rates[limit]), "length": sum(one["length"] for one in mine) / len(mine)}
    whole = rates[max(rates)]
    gaps = {"above_one_action": contrast(whole, rates[min(rates)]), "above_blind": above_blind(whole, [simple])}
    return table, gaps


def body(arguments: argparse.Namespace, report: Report) -> None:
    """Do what is left: the baselines once, then every seed, round and limit."""
    report.resume(("baselines", "rows"), FREE)
    torch.set_num_threads(arguments.threads)
    report.put("complete", False, quiet=True)
    if "baselines" not in report.results:
        report.put("baselines", baselines(arguments))
    done = {(row["seed"], row["round"]) for row in report.results.get("rows", [])}
    jobs = [(seed, number) for seed in arguments.seeds for number in range(arguments.rounds + 1)]
    try:
        for seed, number in (one for one in jobs if one not in done):
            config = trained(arguments, report, seed, number)
            head = {"seed": seed, "round": number}
            rows = [{**head, "limit": k, "tasks": played(config, arguments, k)} for k in arguments.limits]
            report.put("rows", [*report.results.get("rows", []), *rows])
            summarize(report)
        report.put("complete", True)
    except TimeIsUpError:
        report.say("the time is over; the same command continues")


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Read the flags and run."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = flags.add_argument
    add("--seconds", type=float, default=3600, help="when to begin no further job, counted from the start")
    add("--out", type=Path, default=None, help="file of the finished rows; keep it to continue")
    add("--work", default="runs/drawer", help="folder of the runs; keep it to continue")
    add("--seeds", type=int, nargs="+", default=[0, 1, 2])
    add("--episodes", type=int, default=128, help="of evaluation, for each task and limit")
    add("--limits", type=int, nargs="+", default=[1, 2, 3, 10], help="most actions of an evaluated episode")
    add("--rounds", type=int, default=1, help="of own episodes; the weights before each are evaluated, too")
    add("--threads", type=int, default=1, help="of torch on the CPU")
    add("words", nargs="*", help="settings of the runs, such as trainer.updates=1000")
    arguments = flags.parse_args(argv)
    take_device(flags, arguments, lambda: settings(arguments, 0, 0))
    return run("drawer", arguments, body)


if __name__ == "__main__":
    main()
