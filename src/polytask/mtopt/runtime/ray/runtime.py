"""The driver: the controller's jobs, done by a pool of workers."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from polytask.errors import UserError
from polytask.mtopt.config.run import RunConfig
from polytask.mtopt.config.world_specs import world_spec
from polytask.mtopt.roles import Evaluation, Job, Order
from polytask.mtopt.roles.tries import Tries
from polytask.mtopt.run_tasks import tasks_of
from polytask.mtopt.runtime.base import Metrics, Report, Runtime, Stops
from polytask.mtopt.runtime.folder import RunFolder
from polytask.mtopt.runtime.ray import workers
from polytask.mtopt.runtime.ray.pipeline import TrainingPipeline
from polytask.mtopt.runtime.ray.transfer import CurrentFiles
from polytask.mtopt.runtime.ray.worker_pool import TimeIsUpError, WorkerPool, WorkerSlot


@dataclass(frozen=True)
class DeliveryCounts:
    """Episodes that collectors delivered, and deliveries that were lost."""

    stored: int  # episodes of collectors in the store, in all processes of the run
    acknowledged: int  # of them, counted by the controller
    lost: int  # sequences that died with their collector, since this driver started
    deaths: int  # workers that were replaced, since this driver started


class RayRuntime(Runtime):
    """Owns the pool of workers; Ray must be running."""

    def __init__(self, config: RunConfig, report: Report, folder: RunFolder | None = None) -> None:
        """Begin or continue the run in the configured folder, and start the workers; see `Runtime`."""
        super().__init__(config, report, folder)
        records: list[dict[str, Any]] = [dict(record) for record in self.folder.records()]
        self._acknowledged = sum(int(one.get("episodes") or 0) for one in records if one.get("kind") == "collect")
        self._lost = 0
        self._entering = 0  # sequences that wait for the writer
        self.files = CurrentFiles(config)
        self.pool = WorkerPool(report, config.ray.max_deaths, config.ray.max_seconds)
        self.pipeline = TrainingPipeline(config, self.pool, self.files)
        if not self.controller.is_done:
            self._start_workers()

    def run(self, stops: Stops = ()) -> Evaluation | None:
        """Do all remaining jobs, or those before a stop, and return the last evaluation; see `LocalRuntime.run`."""
        try:
            while not self.controller.is_done and not stops:
                if self.controller.phase == "collect":
                    self._collect(stops)
                elif not self._do_next():
                    return None
        except TimeIsUpError:
            self.report(f"stopped after ray.max_seconds={self.config.ray.max_seconds:g}; the same command continues")
            if self.evaluation is None:
                raise UserError("ray.max_seconds was over before the first evaluation") from None
        if self.pool.slots:
            counts = self.counts()
            self.report(
                f"{counts.stored} episodes stored, {counts.acknowledged} acknowledged; {counts.lost} sequences lost, "
                f"{counts.deaths} workers replaced"
            )
        return self.evaluation

    def counts(self) -> DeliveryCounts:
        """Compare the store with the controller's count."""
        stored = self.pool.ask(self.writer, lambda actor: actor.count.remote())
        return DeliveryCounts(stored, self._acknowledged, self._lost, self.pool.deaths)

    def close(self) -> None:
        """End the workers and close the folder."""
        self.pool.close()
        self.folder.close()

    def _start_workers(self) -> None:
        """Start all workers; those that are needed first come first."""
        config = self.config
        node = ray.get_runtime_context().get_node_id()
        here = {"num_cpus": 0, "scheduling_strategy": NodeAffinitySchedulingStrategy(node, soft=False)}
        spread = {"num_cpus": 0, "scheduling_strategy": "SPREAD"}

        def add(name: str, kind: type, options: Mapping[str, Any], *facts: Any, has_life: bool = False) -> WorkerSlot:
            actor_class: Any = ray.remote(kind).options(**options)
            return self.pool.add(
                name, lambda deaths: actor_class.remote(config, *facts, *((deaths,) if has_life else ()))
            )

        names = [f"collector-{number}" for number in range(config.ray.collectors)]
        spec = world_spec(config.world.kind)
        known = (tasks_of(config), spec)
        self.collectors = [add(name, workers.CollectorWorker, spread, name, *known) for name in names]
        self.writer = add("writer", workers.WriterWorker, here)
        self.labeller = add("labeller", workers.LabelWorker, here)
        self.replay = add("replay", workers.ReplayWorker, here, has_life=True)
        self.trainer = add("trainer", workers.TrainerWorker, here)
        self.updaters = [
            add(f"updater-{number}", workers.UpdaterWorker, spread, number, has_life=True)
            for number in range(config.ray.updaters)
        ]
        self.evaluator = add("evaluator", workers.EvaluatorWorker, here, spec)
        self.pipeline.connect(self.replay, self.updaters, self.trainer)

    # --- collecting: several jobs at once -----------------------------------------------------------------------------

    def _collect(self, stops: Stops) -> None:
        """Keep all collectors busy until the round has its episodes; after a stop, wait for the jobs in progress."""
        self.files.refresh()
        idle, began = list(self.collectors), dict[int, float]()
        while self.controller.phase == "collect" and not self.controller.is_done:
            # At most one sequence per collector waits in memory.
            while idle and self._entering < len(self.collectors) and not stops:
                job = self.controller.next()
                if job is None:
                    break
                began[job.number] = time.monotonic()
                self._send(idle.pop(0), job, idle, began)
            if stops and not self.controller.open:
                return
            self.pool.step()

    def _send(self, collector: WorkerSlot, job: Job, idle: list[WorkerSlot], began: dict[int, float]) -> None:
        """Send an order to a collector, which is idle again before its sequence is stored."""
        order, files = self.controller.order(job), self.files.refs

        def collected(metrics: Metrics, sequence: Any) -> None:
            idle.append(collector)
            self._entering += 1
            self._enter(job, order, metrics, sequence, began)

        def lost() -> None:
            idle.append(collector)
            self._give_up(job)

        self.pool.call(collector, lambda actor: actor.step.options(num_returns=2).remote(order, files), collected, lost)

    def _enter(self, job: Job, order: Order, metrics: Metrics, sequence: Any, began: dict[int, float]) -> None:
        """Let the writer, or its successors, store a sequence; only then it counts."""

        def stored(answer: Metrics, _: Any) -> None:
            self._entering -= 1
            self._acknowledged += int(answer["episodes"])
            self.controller.finish(job, answer)
            lag = {"lag": self.files.lag(metrics["weights"])}
            self._log(job, {**metrics, **answer, **lag}, time.monotonic() - began[job.number])

        deaths = self.writer.deaths

        def again() -> None:
            if self.writer.deaths > deaths:
                self._enter(job, order, metrics, sequence, began)
            else:  # the writer lives: the sequence was lost with the collector's machine
                self._entering -= 1
                self._give_up(job)

        self.pool.call(self.writer, lambda actor: actor.enter.remote(order, sequence), stored, again)

    def _give_up(self, job: Job) -> None:
        self._lost += 1
        self.controller.give_up(job)

    # --- all other jobs: one at a time --------------------------------------------------------------------------------

    def _has_labels(self) -> bool:
        return bool(self.pool.ask(self.labeller, lambda actor: actor.is_ready.remote()))

    def _label(self, job: Job) -> Metrics:
        metrics: Metrics = self.pool.ask(self.labeller, lambda actor: actor.label.remote(job.round, job.part))
        return metrics

    def _make_detector(self, version: str) -> Metrics:
        metrics: Metrics = self.pool.ask(self.labeller, lambda actor: actor.train_detector.remote(version))
        return metrics

    def _grade_episodes(self) -> tuple[Metrics, dict[str, dict[str, Tries]]]:
        metrics, tries = self.pool.ask(self.labeller, lambda actor: actor.grade.remote(self.controller.seen))
        self.pipeline.clear()
        return metrics, tries

    def _train(self, job: Job) -> Metrics:
        self.pool.ask(self.replay, lambda actor: actor.fill.remote(job.number))
        return self.pipeline.run(job.target)

    def _measure(self) -> tuple[Evaluation, int]:
        evaluation, last = self.pool.ask(self.evaluator, lambda actor: actor.step.remote())
        return evaluation, last

    def _facts(self, job: Job) -> dict[str, Any]:
        trained = {"detector": self.pipeline.detector} if job.kind == "train" else {}
        return {**trained, "deaths": self.pool.deaths}
