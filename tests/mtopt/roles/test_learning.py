"""From the buffers to published weights: replay, updater, train buffer, trainer."""

import pytest
import torch
from helpers.episodes import make
from helpers.tiny_run import tiny

from polytask.errors import UserError
from polytask.mtopt.config.network import NetworkConfig
from polytask.mtopt.config.store import StoreConfig
from polytask.mtopt.detector import Detector
from polytask.mtopt.learning.buffers import Transitions
from polytask.mtopt.learning.weights import WeightFolder
from polytask.mtopt.networks import build_detector
from polytask.mtopt.records import Label
from polytask.mtopt.roles import BellmanUpdater, Examples, Replay, TrainBuffer, Trainer
from polytask.mtopt.store import EpisodeStore, uploaded
from polytask.mtopt.world import ALL_TASKS


def transitions(rows=4, **changes):
    """Make transitions that all end their episodes, the first two with success."""
    success = torch.arange(rows) < 2
    values = {
        "image": torch.randint(0, 255, (rows, 16, 16, 3), dtype=torch.uint8),
        "closed": torch.zeros(rows),
        "height": torch.full((rows,), 0.1),
        "action": torch.zeros(rows, 8),
        "next_image": torch.zeros(rows, 16, 16, 3, dtype=torch.uint8),
        "next_closed": torch.zeros(rows),
        "next_height": torch.zeros(rows),
        "reward": success.float(),
        "done": torch.ones(rows, dtype=torch.bool),
        "task": torch.arange(rows) % 3,
        "success": success,
        "remaining": torch.zeros(rows, dtype=torch.int64),
        "pose": torch.zeros(rows, 3),
        "next_pose": torch.zeros(rows, 3),
        "policy": torch.arange(rows),
    }
    return Transitions(**{**values, **changes})


@pytest.fixture
def config(tmp_path):
    return tiny(tmp_path)


@pytest.fixture
def trainer(config):
    return Trainer(config)


@pytest.fixture
def updater(config, trainer):
    made = BellmanUpdater(config)
    made.sync()
    return made


def test_the_target_of_a_last_action_is_its_reward_and_examples_carry_versions(updater):
    examples, metrics = updater.step(transitions(), "run-3", newest=4)
    assert examples.target.tolist() == [1.0, 1.0, 0.0, 0.0]
    assert examples.policy.tolist() == [0, 1, 2, 3]
    assert (examples.weights, examples.detector) == (1, "run-3")
    assert metrics == {"rows": 4.0, "lag": 3.0, "weights": 1.0}


def test_the_lower_bound_is_the_discounted_return(updater):
    updater.config.updater.lower_bound = True
    updater.config.learner.bellman.gamma = 0.5
    going_on = transitions(reward=torch.zeros(4), done=torch.zeros(4, dtype=torch.bool), remaining=torch.full((4,), 2))
    target = updater.step(going_on, "")[0].target
    assert (target[:2] >= 0.25 - 1e-6).all()  # 0.5 ** 2
    assert (target[2:] < 0.25).all()  # an untrained network says about 0.05


def test_the_lower_bound_pays_for_the_steps(updater):
    updater.config.updater.lower_bound = True
    updater.config.learner.bellman.gamma, updater.config.learner.bellman.cost = 0.9, 0.1
    going_on = transitions(reward=torch.zeros(4), done=torch.zeros(4, dtype=torch.bool), remaining=torch.full((4,), 1))
    target = updater.step(going_on, "")[0].target
    assert target[:2].tolist() == pytest.approx([0.9 - 0.1 - 0.09] * 2)  # an untrained network says about 0.05
    assert target[2:].tolist() == [0.0, 0.0]


def test_an_updater_follows_new_weights(updater, trainer):
    trainer.publish()
    assert updater.weights.version == 1
    assert updater.sync() == 2
    assert updater.weights.version == 2


def test_the_train_buffer_is_a_ring_that_remembers_versions():
    def examples(value, rows, **changes):
        batch = transitions(rows)
        known = {"weights": 7, "detector": "a", **changes}
        target = torch.full((rows,), value)
        seen = (batch.image, batch.closed, batch.height, batch.task, torch.ones(rows, 8) * value)
        return Examples(*seen, target, batch.pose, batch.policy, **known)

    buffer = TrainBuffer(4, 16)
    buffer.add(examples(0.1, 3))
    assert len(buffer) == 3
    buffer.add(examples(0.2, 2, weights=8, detector="b"))
    assert len(buffer) == 4
    drawn, versions = buffer.sample(200, torch.Generator().manual_seed(0))
    assert sorted(set(drawn.target.tolist())) == pytest.approx([0.1, 0.2])
    assert torch.equal(drawn.action[:, 0], drawn.target)
    is_new = drawn.target > 0.15
    assert is_new.float().mean() == pytest.approx(0.5, abs=0.12)
    assert set(map(tuple, versions[is_new].tolist())) == {(0, 8, 1), (1, 8, 1)}
    assert set(versions[~is_new][:, 1:].flatten().tolist()) == {7, 0}
    assert buffer.detectors == ["a", "b"]
    buffer.add(examples(0.3, 9))
    assert buffer.sample(50, torch.Generator())[0].target.tolist() == pytest.approx([0.3] * 50)
    buffer.clear()
    assert len(buffer) == 0


def test_a_trainer_learns_publishes_and_goes_on_exactly(config, trainer, updater):
    for _ in range(3):
        trainer.push(updater.step(transitions(16), "run-1")[0])
    first = trainer.step(2)
    assert first["updates"] == 2
    assert first["lag/targets"] == 0
    assert first["scripted"] == pytest.approx(1 / 16, abs=0.2)
    assert trainer.publish() == 2
    trainer.save()
    other = Trainer(config)
    assert (other.version, other.learner.step) == (2, 2)
    assert WeightFolder(config.weights).versions() == [1, 2], "an existing state publishes nothing"
    for one in (trainer, other):
        one.buffer.clear()
        one.push(updater.step(transitions(16, image=torch.zeros(16, 16, 16, 3, dtype=torch.uint8)), "")[0])
        one.generator.manual_seed(3)
    updater.generator.manual_seed(0)
    assert trainer.step(2)["loss"] == other.step(2)["loss"]


def test_published_weights_act_as_the_learner_does_and_the_oldest_go(config, trainer):
    folder = WeightFolder(config.weights, keep=2)
    for version in (2, 3, 4):
        folder.publish(version, 10 * version, trainer.learner.q1, trainer.learner.q2)
    assert folder.versions() == [3, 4]
    weights = folder.load(config.learner, "cpu")
    assert (weights.version, weights.step, weights.policy) == (4, 40, "q:4")
    batch = transitions()
    seen = (batch.image, batch.closed, batch.height, batch.task, batch.action[:, None], batch.pose)
    assert torch.equal(weights.q1(*seen), trainer.learner.q1(*seen))
    with pytest.raises(UserError, match=r"no weights 1 in .*; there are 3, 4"):
        folder.load(config.learner, "cpu", 1)


def test_damaged_or_foreign_weights_are_the_users_mistake(config, trainer):
    folder = WeightFolder(config.weights)
    path = folder.folder / "q-000001.pt"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(UserError, match="truncated"):
        folder.load(config.learner, "cpu")
    torch.save({"kind": "else"}, path)
    with pytest.raises(UserError, match="no weights of format"):
        folder.load(config.learner, "cpu")
    trainer.publish()
    config.learner.network.size = "medium"
    with pytest.raises(UserError, match="another network"):
        folder.load(config.learner, "cpu")
    with pytest.raises(UserError, match="nothing was published"):
        WeightFolder(folder.folder / "none").load(config.learner, "cpu")


def test_the_replay_follows_people_then_the_detector_and_counts_in_all_tasks(config):
    store = EpisodeStore(config.root, StoreConfig(fsync=False))
    with store.writer("a") as writer:
        made = [make(seed, task=task, size=16) for seed, task in enumerate(("lift-any", "lift-can", "place-any"))]
        writer.append_many([*made, uploaded(made[0].outcome, "lift-any")])
    store.add_labels([Label(1, "lift-any", 1.0, "person")])
    replay = Replay(config)
    replay.fill()
    assert replay.buffers.episodes == (1,), "without a detector only what people labelled"
    assert replay.detector == ""
    batch = replay.sample(8, torch.Generator().manual_seed(0))
    assert set(batch.task.tolist()) == {ALL_TASKS.index("lift-any")}
    assert set(batch.policy.tolist()) == {0}

    network = build_detector("small", len(ALL_TASKS), 2, image_size=16)
    Detector("d1", ALL_TASKS, network, config=NetworkConfig(image_size=16)).save(config.detectors / "d1.pt")
    store.add_labels([Label(e, t, float(e == 2), "detector:d1") for e in (1, 2, 3) for t in config.learned])
    replay.fill()
    assert replay.detector == "d1"
    assert replay.buffers.episodes == (1, 2, 3), "the upload has nothing to learn from"
    counts = {task: count[:2] for task, count in replay.counts().items()}
    # A person said that 1 is a success of lift-any; the detector says that 2 is one of everything.
    assert counts == {"lift-any": (2, 0), "lift-can": (1, 1), "place-any": (0, 1)}
    replay.close()
    store.close()


def test_the_replay_does_not_wait_for_verdicts_on_tasks_that_no_detector_was_taught(config):
    store = EpisodeStore(config.root, StoreConfig(fsync=False))
    with store.writer("a") as writer:
        writer.append_many([make(seed, task="lift-any", size=16) for seed in range(3)])
    network = build_detector("small", len(ALL_TASKS), 2, image_size=16)
    detector = Detector("d1", ALL_TASKS, network, config=NetworkConfig(image_size=16), taught=["lift-any"])
    detector.save(config.detectors / "d1.pt")
    store.add_labels([Label(episode, "lift-any", 1.0, "detector:d1") for episode in (1, 2)])
    store.add_labels([Label(1, "lift-can", 0.0, "person")])
    replay = Replay(config)
    replay.fill()
    assert replay.buffers.episodes == (1, 2), "the third waits: its verdict on lift-any is to come"
    counts = {task: count[:2] for task, count in replay.counts().items()}
    assert counts == {"lift-any": (2, 0), "lift-can": (0, 1), "place-any": (0, 0)}
    replay.close()
    store.close()
