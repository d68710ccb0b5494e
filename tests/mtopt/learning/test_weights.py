"""Versions of the weights in a folder."""

import pytest
import torch
from helpers.tiny_run import tiny
from helpers.transitions import transitions

from polytask.errors import UserError
from polytask.mtopt.learning.learner import QLearner
from polytask.mtopt.learning.weights import WeightFolder
from polytask.mtopt.tasks import ALL_TASKS


@pytest.fixture
def config(tmp_path):
    return tiny(tmp_path)


@pytest.fixture
def learner(config):
    return QLearner(config.learner, len(ALL_TASKS))


def test_published_weights_act_as_the_learner_does_and_the_oldest_go(config, learner):
    folder = WeightFolder(config.weights, keep=2)
    for version in (2, 3, 4):
        folder.publish(version, 10 * version, learner.q1, learner.q2)
    assert folder.versions() == [3, 4]
    weights = folder.load(config.learner, "cpu")
    assert (weights.version, weights.policy) == (4, "q:4")
    batch = transitions()
    seen = (batch.image, batch.closed, batch.height, batch.task, batch.action[:, None], batch.pose)
    assert torch.equal(weights.q1(*seen), learner.q1(*seen))
    assert folder.newer(weights, config.learner, "cpu") is weights
    assert folder.newer(None, config.learner, "cpu").version == 4
    older = folder.load(config.learner, "cpu", 3)
    assert folder.newer(older, config.learner, "cpu").version == 4
    assert WeightFolder(config.weights / "none").newer(None, config.learner, "cpu") is None
    with pytest.raises(UserError, match=r"no weights 1 in .*; known: 3, 4"):
        folder.load(config.learner, "cpu", 1)


def test_damaged_or_foreign_weights_are_the_users_mistake(config, learner):
    folder = WeightFolder(config.weights)
    folder.publish(1, 0, learner.q1, learner.q2)
    path = folder.folder / "q-000001.pt"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(UserError, match="truncated"):
        folder.load(config.learner, "cpu")
    torch.save({"kind": "else"}, path)
    with pytest.raises(UserError, match="is not a file of MT-Opt weights"):
        folder.load(config.learner, "cpu")
    folder.publish(2, 0, learner.q1, learner.q2)
    config.learner.network.size = "medium"
    with pytest.raises(UserError, match="another network"):
        folder.load(config.learner, "cpu")
    with pytest.raises(UserError, match="nothing was published"):
        WeightFolder(folder.folder / "none").load(config.learner, "cpu")
