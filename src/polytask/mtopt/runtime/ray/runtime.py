"""The driver: the controller's jobs, done by a pool of workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from polytask.errors import UserError
from polytask.mtopt.config.run import RunConfig
from polytask.mtopt.config.world_specs import world_spec
from polytask.mtopt.roles import Evaluation, Job
from polytask.mtopt.roles.tries import Tries
from polytask.mtopt.run_tasks import tasks_of
from polytask.mtopt.runtime.base import Metrics, Report, Runtime, Stops
from polytask.mtopt.runtime.folder import RunFolder
from polytask.mtopt.runtime.ray import workers
from polytask.mtopt.runtime.ray.collection import Collection
from polytask.mtopt.runtime.ray.grading import grade_in_parallel
from polytask.mtopt.runtime.ray.pipeline import TrainingPipeline
from polytask.mtopt.runtime.ray.resources import Requests, Resources
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
        self.files = CurrentFiles(config)
        self.pool = WorkerPool(report, config.ray.max_deaths, config.ray.max_seconds)
        self.pipeline = TrainingPipeline(config, self.pool, self.files)
        self.collection = Collection(config, self.pool, self.files, self.controller, self._collected)
        if not self.controller.is_done:
            self._start_workers()

    def run(self, stops: Stops = ()) -> Evaluation | None:
        """Do all remaining jobs, or those before a stop, and return the last evaluation; see `LocalRuntime.run`."""
        self.collection.stops = stops
        try:
            if self.controller.phase == "train" and not stops:  # the index may have been rebuilt
                self._grade_new()
            while not self.controller.is_done and not stops:
                if self.controller.phase == "collect":
                    self._collect(stops)
                    continue
                self.collection.pump()
                if not self._do_next():
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
        return DeliveryCounts(stored, self._acknowledged, self.collection.lost, self.pool.deaths)

    def close(self) -> None:
        """End the workers and close the folder."""
        self.pool.close()
        self.folder.close()

    def _start_workers(self) -> None:
        """Start all workers; those of this machine come first, because the others may be anywhere."""
        config, node = self.config, ray.get_runtime_context().get_node_id()
        nodes: Any = ray.nodes  # has no types
        machines = {one["NodeID"]: one["Resources"] for one in nodes() if one["Alive"]}
        requests = Requests(config, machines, node)
        here = {"scheduling_strategy": NodeAffinitySchedulingStrategy(node, soft=False)}
        spread = {"scheduling_strategy": "SPREAD"}

        def add(
            name: str, kind: type, place: Mapping[str, Any], asked: Resources, *facts: Any, has_life: bool = False
        ) -> WorkerSlot:
            actor_class: Any = ray.remote(kind).options(**place, **asked.options())
            mine = requests.config_of(asked)
            return self.pool.add(
                name, lambda deaths: actor_class.remote(mine, *facts, *((deaths,) if has_life else ()))
            )

        learns, acts = requests.here(config.device), requests.here(config.world.device)
        self.writer = add("writer", workers.WriterWorker, here, requests.here(None))
        self.labeller = add("labeller", workers.LabelWorker, here, learns)
        self.replay = add("replay", workers.ReplayWorker, here, learns, has_life=True)
        self.trainer = add("trainer", workers.TrainerWorker, here, learns)
        spec = world_spec(config.world.kind)
        self.evaluator = add("evaluator", workers.EvaluatorWorker, here, acts, spec)
        graders = config.ray.graders if config.ray.graders > 1 else 0  # one alone is the labeller
        self.graders = [add(f"grader-{number}", workers.GraderWorker, here, learns) for number in range(graders)]
        names = [f"collector-{number}" for number in range(config.ray.collectors)]
        asked, known = requests.anywhere(config.world.device), (tasks_of(config), spec)
        self.collectors = [add(name, workers.CollectorWorker, spread, asked, name, *known) for name in names]
        asked = requests.anywhere(config.device)
        self.updaters = [
            add(f"updater-{number}", workers.UpdaterWorker, spread, asked, number, has_life=True)
            for number in range(config.ray.updaters)
        ]
        self.collection.connect(self.collectors, self.writer)
        self.pipeline.connect(self.replay, self.updaters, self.trainer)

    # --- collecting: several jobs at once -----------------------------------------------------------------------------

    def _collect(self, stops: Stops) -> None:
        """Keep all collectors busy until the round has its episodes; after a stop, wait for the jobs in progress."""
        self.files.refresh()
        controller = self.controller
        while controller.phase == "collect" and not controller.is_done:
            if stops and not controller.open and not controller.ahead:
                return
            self.collection.pump()
            self.pool.step()

    def _collected(self, job: Job, metrics: Metrics, seconds: float) -> None:
        self._acknowledged += int(metrics["episodes"])
        self._log(job, metrics, seconds)

    # --- all other jobs: one at a time --------------------------------------------------------------------------------

    def _has_labels(self) -> bool:
        return bool(self.pool.ask(self.labeller, lambda actor: actor.is_ready.remote()))

    def _label(self, job: Job) -> Metrics:
        metrics: Metrics = self.pool.ask(self.labeller, lambda actor: actor.label.remote(job.round, job.part))
        return metrics

    def _make_detector(self, version: str) -> Metrics:
        metrics: Metrics = self.pool.ask(self.labeller, lambda actor: actor.train_detector.remote(version))
        self.files.refresh()  # collectors grade with it from now on
        return metrics

    def _grade_episodes(self) -> tuple[Metrics, dict[str, dict[str, Tries]]]:
        if self.graders:
            grade_in_parallel(self.pool, self.graders, self.pool.ask(self.labeller, lambda actor: actor.last.remote()))
        metrics, tries = self.pool.ask(self.labeller, lambda actor: actor.grade.remote(self.controller.seen))
        self.pipeline.clear()
        return metrics, tries

    def _grade_new(self) -> None:
        """Grade what came since the last grading, or was graded with an earlier detector: the log waits for it."""
        self.pool.ask(self.labeller, lambda actor: actor.grade_new.remote())

    def _train(self, job: Job) -> Metrics:
        if self.config.ray.continuous:
            self._grade_new()
        self.pool.ask(self.replay, lambda actor: actor.fill.remote(job.number))
        return self.pipeline.run(job.target)

    def _measure(self) -> tuple[Evaluation, int]:
        evaluation, last = self.pool.ask(self.evaluator, lambda actor: actor.step.remote())
        return evaluation, last

    def _facts(self, job: Job) -> dict[str, Any]:
        trained = {"detector": self.pipeline.detector} if job.kind == "train" else {}
        return {**trained, "deaths": self.pool.deaths}
