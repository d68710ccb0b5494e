"""A run of workers under Ray, most of which are killed once while they work; and the supervision by itself."""

import json
import os
import signal
import time
from collections import Counter
from dataclasses import dataclass

import pytest
from helpers.tiny_run import TASKS, tiny

from polytask.errors import UserError
from polytask.files.folder_lock import BusyError
from polytask.mtopt.config.run import RayConfig
from polytask.mtopt.detector.folder import choose
from polytask.mtopt.learning.weights import WeightFolder
from polytask.mtopt.policy_names import version_of
from polytask.mtopt.runtime.checks import prepared
from polytask.mtopt.runtime.folder import RunFolder
from polytask.mtopt.runtime.local import LocalRuntime
from polytask.mtopt.runtime.ray.start import run_ray
from polytask.mtopt.store import EpisodeStore
from polytask.parallel.ray_environment import set_environment

set_environment("")
ray = pytest.importorskip("ray")

from polytask.mtopt.runtime.ray.cluster import cluster  # noqa: E402
from polytask.mtopt.runtime.ray.runtime import DeliveryCounts, RayRuntime  # noqa: E402
from polytask.mtopt.runtime.ray.transfer import CurrentFiles  # noqa: E402
from polytask.mtopt.runtime.ray.worker_pool import TimeIsUpError, WorkerPool  # noqa: E402

SMALL = RayConfig(collectors=2, updaters=1, cpus=2, object_store=100)
# Each worker is killed after these calls to it, while the call still runs. The trainer's second call is to make
# updates, its fourth to publish the first round's first version.
VICTIMS = {"collector-0": {1}, "writer": {2}, "updater-0": {2}, "trainer": {2, 4}}
DEATHS = [name for name, calls in VICTIMS.items() for _ in calls]
SEQUENCE = 4  # episodes: two worlds pick, then place


@dataclass
class Outcome:
    config: object
    evaluation: object
    counts: DeliveryCounts
    lines: list
    killed: list
    pids: set
    again: object


def kill_amid_calls(pool, killed, pids):
    """Let `pool.call` kill each victim right after it was given something to do."""
    call, seen = pool.call, Counter()

    def deadly(slot, submit, then, lost):
        call(slot, submit, then, lost)
        pids.add(slot.pid)
        seen[slot.name] += slot.pid > 0  # calls to workers that are ready
        if slot.pid and seen[slot.name] in VICTIMS.get(slot.name, ()):
            killed.append(slot.name)
            os.kill(slot.pid, signal.SIGKILL)

    pool.call = deadly


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://here:10001", "here"])
def test_an_address_without_a_cluster_is_one_line(address):
    with pytest.raises(UserError, match=r"ray\.address="), cluster(RayConfig(address=address)):
        pass


@pytest.fixture(scope="module")
def session():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_worker_niceness", "0")  # 15 by default: other tests would come first while this one waits
        with cluster(SMALL):
            assert signal.getsignal(signal.SIGTERM) is before, "Ray's own handler would end a run without a word"
            yield


@pytest.fixture(scope="module")
def outcome(session, tmp_path_factory):
    config = prepared(tiny(tmp_path_factory.mktemp("ray"), ray=SMALL))
    config.collector.episodes, config.collector.round_episodes, config.trainer.updates = 40, 8, 8
    config.labels.per_task = 8  # there should be both successes and failures among them
    lines, killed, pids = [], [], set()
    runtime = RayRuntime(config, lines.append)
    try:
        kill_amid_calls(runtime.pool, killed, pids)
        evaluation, counts = runtime.run(), runtime.counts()
    finally:
        runtime.close()
    again = run_ray(config, lines.append)
    return Outcome(config, evaluation, counts, lines, killed, pids - {0}, again)


def records(config, kind):
    found = map(json.loads, (config.root / "metrics.jsonl").read_text().splitlines())
    return [record for record in found if record["kind"] == kind]


def test_the_run_goes_on_when_workers_die(outcome):
    assert sorted(outcome.killed) == sorted(DEATHS)
    assert outcome.counts.deaths == len(DEATHS)
    assert [row.task for row in outcome.evaluation.tasks] == TASKS
    for name in VICTIMS:
        assert f"{name} died; another worker replaces it" in outcome.lines


def test_every_stored_episode_was_acknowledged_once(outcome):
    counts, collected = outcome.counts, records(outcome.config, "collect")
    assert counts.stored == counts.acknowledged == sum(record["episodes"] for record in collected)
    assert counts.lost == 1  # the sequence that the killed collector was at
    store = EpisodeStore(outcome.config.root)
    report = store.check(deep=True)
    seeds = Counter(row.seed for row in store.rows())
    store.close()
    assert report.is_sound
    assert not report.writing
    assert report.episodes == counts.stored
    assert set(seeds.values()) == {SEQUENCE}


def test_records_carry_versions_and_lag(outcome):
    config, trained = outcome.config, records(outcome.config, "train")
    assert [record["updates"] for record in trained] == [2, 4, 6, 8, 10]  # those of killed trainers were made again
    weights = [record["weights"] for record in trained]
    assert weights == sorted(set(weights))  # no two share a number
    assert [record["detector"] for record in trained] == 4 * ["run-1"] + ["run-2"]
    assert all(record["lag"] >= 0 and record["lag/targets"] >= 0 for record in trained)
    assert WeightFolder(config.weights).newest() == outcome.evaluation.weights == weights[-1]
    store = EpisodeStore(config.root)
    policies = [row.policy for row in store.rows() if row.id > 40]
    store.close()
    learned = {version_of(policy) for policy in policies} - {0}
    assert learned and min(learned) >= weights[0], "learned weights collect, also while others are trained"


def test_local_and_ray_give_the_same_kind_of_result(outcome, tmp_path):
    config = prepared(tiny(tmp_path))
    for name in ("collector", "labels", "trainer"):
        setattr(config, name, getattr(outcome.config, name))
    local = LocalRuntime(config, lambda line: None)
    evaluation = local.run()
    local.close()
    assert (evaluation.detector, evaluation.seed) == (outcome.evaluation.detector, outcome.evaluation.seed)
    assert [(row.task, row.episodes) for row in evaluation.tasks] == [
        (row.task, row.episodes) for row in outcome.evaluation.tasks
    ]
    state = json.loads((outcome.config.root / "run.json").read_text())["controller"]
    assert state["updates"] == local.controller.updates == 10
    # A sequence counts as one skill until it is stored, and has two. So while the writer is away, as many begin as
    # reach the goal by that count, with twice its episodes.
    goal = 40 + 8
    assert goal <= outcome.counts.stored <= 2 * goal
    for kind in ("collect", "label", "detector", "grade", "train", "evaluate"):
        mine, theirs = records(config, kind), records(outcome.config, kind)
        assert kind == "collect" or len(mine) == len(theirs)
        if kind in ("collect", "train"):  # which figures a detector has depends on its labels
            assert set(mine[0]) <= set(theirs[0])


def test_a_run_that_is_over_gives_its_result_again(outcome):
    assert outcome.again == outcome.evaluation


def test_the_driver_holds_the_run(session, tmp_path):
    config = prepared(tiny(tmp_path, ray=SMALL))
    config.controller.rounds = 0
    config.collector.episodes = config.labels.per_task = config.trainer.updates = 0
    runtime = RayRuntime(config, lambda line: None)
    with pytest.raises(BusyError, match=f"in use by process {os.getpid()}"):
        run_ray(config, lambda line: None)
    runtime.close()
    folder = RunFolder(tmp_path)
    folder.lock()
    folder.close()


def test_a_run_is_refused_before_ray_starts(tmp_path, monkeypatch):
    def start(config):
        raise RuntimeError("Ray starts")

    monkeypatch.setattr("polytask.mtopt.runtime.ray.cluster.cluster", start)
    folder, config = RunFolder(tmp_path), tiny(tmp_path, ray=SMALL)
    folder.begin(config)
    with pytest.raises(BusyError, match=f"in use by process {os.getpid()}"):
        run_ray(config, lambda line: None)
    folder.close()
    with pytest.raises(UserError, match="seed=0, not 5"):
        run_ray(tiny(tmp_path, ray=SMALL, seed=5), lambda line: None)
    with pytest.raises(RuntimeError, match="Ray starts"):
        run_ray(config, lambda line: None)
    folder.lock()  # it is released in any case
    folder.close()
    with pytest.raises(RuntimeError, match="Ray starts"):
        run_ray(tiny(tmp_path / "new"), lambda line: None)
    assert not (tmp_path / "new").exists()


def test_workers_get_the_detector_in_use(session, tmp_path):
    config = tiny(tmp_path)
    config.detectors.mkdir()
    for version in ("d1", "d2"):
        (config.detectors / f"{version}.pt").write_bytes(version.encode())
    choose(config.detectors, "d1")
    files = CurrentFiles(config)
    assert [(one.folder, one.name) for one in files.refs] == [("detectors", "d1.pt")]
    choose(config.detectors, "d2")
    files.refresh()
    assert [ray.get(one.content) for one in files.refs] == [b"d2"]


def test_workers_get_the_highest_version_of_the_weights(session, tmp_path):
    config = tiny(tmp_path)
    config.weights.mkdir()
    for version in (12, 11):  # version 11 is written last, as by a copy of the folder
        (config.weights / f"q-{version:06d}.pt").write_bytes(b"%d" % version)
    files = CurrentFiles(config)
    assert [(one.folder, one.name) for one in files.refs] == [("weights", "q-000012.pt")]
    assert files.lag(11) == 1


def test_no_worker_outlives_the_run(outcome):
    end = time.monotonic() + 60
    alive = outcome.pids
    while alive and time.monotonic() < end:
        alive = {pid for pid in alive if os.path.exists(f"/proc/{pid}")}
        time.sleep(0.1)
    assert len(outcome.pids) >= 8
    assert not alive


# --- supervision alone ------------------------------------------------------------------------------------------------


def make_worker(deaths=0):
    """Start an actor; the class is made here so that it travels whole."""

    class Worker:
        def open(self):
            return os.getpid()

        def die(self):
            os.kill(os.getpid(), signal.SIGKILL)

        def once(self):
            return os.getpid() if deaths else self.die()

        def complain(self, kind):
            raise kind("not possible")

        def wait(self):
            time.sleep(60)

        def close(self):
            pass

    return ray.remote(Worker).options(num_cpus=0).remote()


@pytest.fixture
def pool(session):
    made = WorkerPool(lambda line: None, max_deaths=2)
    yield made
    made.close()


def test_a_successor_is_asked_again(pool):
    slot = pool.add("worker", make_worker)
    assert pool.ask(slot, lambda actor: actor.once.remote()) == slot.pid
    assert slot.deaths == 1


def test_a_worker_that_always_dies_ends_the_run(pool):
    slot = pool.add("worker", make_worker)
    with pytest.raises(UserError, match="worker died 3 times"):
        pool.ask(slot, lambda actor: actor.die.remote())


def test_calls_that_die_together_are_one_death(pool):
    slot, lost = pool.add("worker", make_worker), []
    for number in range(3):
        pool.call(slot, lambda actor: actor.die.remote(), lambda *_: None, lambda number=number: lost.append(number))
    while len(lost) < 3:
        pool.step()
    assert sorted(lost) == [0, 1, 2]
    assert slot.deaths == 1


def test_errors_of_a_worker_reach_the_driver(pool):
    slot = pool.add("worker", make_worker)
    with pytest.raises(UserError, match=r"^not possible$"):
        pool.ask(slot, lambda actor: actor.complain.remote(UserError))
    with pytest.raises(ValueError, match="not possible"):
        pool.ask(slot, lambda actor: actor.complain.remote(ValueError))
    assert slot.deaths == 0


def test_a_pool_stops_when_its_time_is_up(session):
    pool = WorkerPool(lambda line: None, max_deaths=2, max_seconds=0.01)
    slot = pool.add("worker", make_worker)
    with pytest.raises(TimeIsUpError):
        pool.ask(slot, lambda actor: actor.wait.remote())


def test_without_ray_one_line_names_the_extra(monkeypatch, tmp_path):
    monkeypatch.setattr("polytask.mtopt.runtime.ray.start.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"^runtime=ray needs an extra: pip install 'polytask\[ray\]'$"):
        run_ray(tiny(tmp_path), lambda line: None)
