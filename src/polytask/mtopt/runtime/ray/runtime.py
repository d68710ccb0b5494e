"""The driver: the controller's jobs, done by a crew."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from polytask.errors import UserError
from polytask.mtopt.config.run import RunConfig
from polytask.mtopt.roles import Controller, Evaluation, Job, Order
from polytask.mtopt.runtime.folder import RunFolder
from polytask.mtopt.runtime.local import SHOWN, Say
from polytask.mtopt.runtime.ray import workers
from polytask.mtopt.runtime.ray.crew import Crew, Post, TimeIsUpError
from polytask.mtopt.runtime.ray.learning import Learning
from polytask.mtopt.runtime.ray.transfer import Newest


@dataclass(frozen=True)
class Counts:
    """How the books stand, over all that ever happened in the run's folder."""

    stored: int  # episodes of collectors in the store
    acknowledged: int  # of them, that the controller was told of
    lost: int  # sequences that died with their collector, since this driver started
    deaths: int  # workers that were replaced, since this driver started


class RayRuntime:
    """Owns the crew; Ray must be running."""

    def __init__(self, config: RunConfig, say: Say, folder: RunFolder | None = None) -> None:
        """Begin or go on with the run in the configured folder, and start the workers.

        Args:
            config: Settings.
            say: Takes a line for whoever watches.
            folder: The configured one, where it is locked already.
        """
        self.config, self.say = config, say
        self.folder = folder or RunFolder(config.root)
        state = self.folder.begin(config)
        self.controller = Controller(config)
        if state is not None and state["controller"] is not None:
            self.controller.load_state_dict(state["controller"])
        saved = state["evaluation"] if state else None
        self.evaluation = Evaluation.load(saved) if saved else None
        records: list[dict[str, Any]] = [dict(record) for record in self.folder.records()]
        self._acknowledged = sum(int(one["episodes"]) for one in records if one["kind"] == "collect")
        self._lost = 0
        self._entering = 0  # sequences that wait for the writer
        self.newest = Newest(config)
        self.crew = Crew(say, config.ray.max_deaths, config.ray.max_seconds)
        self.learning = Learning(config, self.crew, self.newest)
        self._do: Mapping[str, Callable[[Job], dict[str, float]]] = {
            "label": self._label,
            "detector": self._detector,
            "grade": self._grade,
            "train": self._train,
            "evaluate": self._evaluate,
        }
        if not self.controller.is_done:
            self._hire()

    def run(self) -> Evaluation | None:
        """Do everything that is left and return the last evaluation; None where a person's labels are waited for."""
        try:
            while not self.controller.is_done:
                if self.controller.phase == "collect":
                    self._collect()
                elif not self._next():
                    return None
        except TimeIsUpError:
            self.say(f"stopped after ray.max_seconds={self.config.ray.max_seconds:g}; the same command goes on")
            if self.evaluation is None:
                raise UserError("the time was over before the first evaluation") from None
        if self.crew.posts:
            counts = self.counts()
            self.say(
                f"{counts.stored} episodes stored, {counts.acknowledged} acknowledged; {counts.lost} sequences lost, "
                f"{counts.deaths} workers replaced"
            )
        return self.evaluation

    def counts(self) -> Counts:
        """Compare the store with what the controller was told."""
        stored = self.crew.ask(self.writer, lambda actor: actor.count.remote())
        return Counts(stored, self._acknowledged, self._lost, self.crew.deaths)

    def close(self) -> None:
        """End the workers."""
        self.crew.close()
        self.folder.close()

    def _hire(self) -> None:
        """Fill all posts; those that are needed first come first."""
        config = self.config
        node = ray.get_runtime_context().get_node_id()
        here = {"num_cpus": 0, "scheduling_strategy": NodeAffinitySchedulingStrategy(node, soft=False)}
        spread = {"num_cpus": 0, "scheduling_strategy": "SPREAD"}

        def post(name: str, kind: type, options: Mapping[str, Any], *facts: Any, has_life: bool = False) -> Post:
            actor_class: Any = ray.remote(kind).options(**options)
            return self.crew.add(
                name, lambda deaths: actor_class.remote(config, *facts, *((deaths,) if has_life else ()))
            )

        names = [f"collector-{number}" for number in range(config.ray.collectors)]
        self.collectors = [post(name, workers.CollectorWorker, spread, name) for name in names]
        self.writer = post("writer", workers.WriterWorker, here)
        self.labeller = post("labeller", workers.LabelWorker, here)
        self.replay = post("replay", workers.ReplayWorker, here, has_life=True)
        self.trainer = post("trainer", workers.TrainerWorker, here)
        self.updaters = [
            post(f"updater-{number}", workers.UpdaterWorker, spread, number, has_life=True)
            for number in range(config.ray.updaters)
        ]
        self.evaluator = post("evaluator", workers.EvaluatorWorker, here)
        self.learning.staff(self.replay, self.updaters, self.trainer)

    # --- collecting: several jobs at once -----------------------------------------------------------------------------

    def _collect(self) -> None:
        """Keep all collectors busy until the round has its episodes."""
        self.newest.look()
        idle, began = list(self.collectors), dict[int, float]()
        while self.controller.phase == "collect" and not self.controller.is_done:
            # No more than one sequence for each collector waits in memory.
            while idle and self._entering < len(self.collectors) and (job := self.controller.next()) is not None:
                began[job.number] = time.monotonic()
                self._send(idle.pop(0), job, idle, began)
            self.crew.step()

    def _send(self, collector: Post, job: Job, idle: list[Post], began: dict[int, float]) -> None:
        """Have one sequence collected; the collector is free again before the sequence is stored."""
        order, parcels = self.controller.order(job), self.newest.parcels

        def collected(metrics: dict[str, float], harvest: Any) -> None:
            idle.append(collector)
            self._entering += 1
            self._enter(job, order, metrics, harvest, began)

        def lost() -> None:
            idle.append(collector)
            self._give_up(job)

        self.crew.call(
            collector, lambda actor: actor.step.options(num_returns=2).remote(order, parcels), collected, lost
        )

    def _enter(self, job: Job, order: Order, metrics: dict[str, float], harvest: Any, began: dict[int, float]) -> None:
        """Have a sequence stored, by the writer or its successors; only then it counts."""

        def stored(answer: dict[str, float], _: Any) -> None:
            self._entering -= 1
            self._acknowledged += int(answer["episodes"])
            self.controller.finish(job, answer)
            lag = {"lag": self.newest.lag(metrics["weights"])}
            self._note(job, {**metrics, **answer, **lag}, time.monotonic() - began[job.number])

        deaths = self.writer.deaths

        def again() -> None:
            if self.writer.deaths > deaths:
                self._enter(job, order, metrics, harvest, began)
            else:  # the writer lives: what it was to store went down with the collector's machine
                self._entering -= 1
                self._give_up(job)

        self.crew.call(self.writer, lambda actor: actor.enter.remote(order, harvest), stored, again)

    def _give_up(self, job: Job) -> None:
        self._lost += 1
        self.controller.give_up(job)

    # --- all else: one job at a time ----------------------------------------------------------------------------------

    def _next(self) -> bool:
        """Do one job; tell whether that was possible."""
        job, began = self.controller.next(), time.monotonic()
        assert job is not None
        if job.kind == "label" and not self.crew.ask(self.labeller, lambda actor: actor.is_ready.remote()):
            self.controller.give_up(job)
            return False
        metrics = self._do[job.kind](job)
        self.controller.finish(job, metrics)
        self._note(job, metrics, time.monotonic() - began)
        return True

    def _label(self, job: Job) -> dict[str, float]:
        metrics: dict[str, float] = self.crew.ask(self.labeller, lambda actor: actor.label.remote(job.round))
        return metrics

    def _detector(self, job: Job) -> dict[str, float]:
        version = f"run-{job.number + 1}"
        metrics: dict[str, float] = self.crew.ask(self.labeller, lambda actor: actor.detector.remote(version))
        return metrics

    def _grade(self, job: Job) -> dict[str, float]:
        metrics, tries = self.crew.ask(self.labeller, lambda actor: actor.grade.remote(self.controller.seen))
        switched = self.controller.compare(tries) if job.round > 0 else []
        rates = {f"tries/{task}/{source}": one.rate for task, each in tries.items() for source, one in each.items()}
        self.learning.clear()
        return {**metrics, "switched": float(len(switched)), **rates}

    def _train(self, job: Job) -> dict[str, float]:
        self.crew.ask(self.replay, lambda actor: actor.fill.remote())
        return self.learning.run(job.target)

    def _evaluate(self, job: Job) -> dict[str, float]:
        self.evaluation, last = self.crew.ask(self.evaluator, lambda actor: actor.step.remote())
        assert self.evaluation is not None
        return {**self.evaluation.metrics(), "episode": float(last)}

    def _note(self, job: Job, metrics: Mapping[str, float], seconds: float) -> None:
        """Write the job down and say a line about it."""
        record: dict[str, Any] = {"kind": job.kind, "round": job.round, "number": job.number, "seconds": seconds}
        record |= {"detector": self.learning.detector} if job.kind == "train" else {}
        record |= {"deaths": self.crew.deaths}
        evaluation = self.evaluation.plain() if self.evaluation else None
        self.folder.save(record | dict(metrics), controller=self.controller.state_dict(), evaluation=evaluation)
        shown = "  ".join(f"{name} {metrics[name]:.4g}" for name in SHOWN if name in metrics)
        self.say(f"round {job.round}  {job.kind} {job.number}  {shown}  ({seconds:.1f} s)")
