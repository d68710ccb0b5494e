"""Updates, published weights and an exact resume."""

import pytest
import torch
from helpers.transitions import transitions

from polytask.errors import UserError
from polytask.mtopt.learning.weights import WeightFolder
from polytask.mtopt.roles import BellmanUpdater, Trainer


def test_a_trainer_learns_publishes_and_resumes_exactly(config, trainer, updater):
    for _ in range(3):
        trainer.push(updater.step(transitions(16, policy=torch.zeros(16, dtype=torch.int64)), "run-1"))
    first = trainer.step(2)
    assert first["updates"] == 2
    assert (first["lag/targets"], first["lag/policy"], first["scripted"]) == (0, 1, 1)
    assert trainer.publish() == 2
    trainer.save()
    other = Trainer(config)
    assert (other.version, other.learner.step) == (2, 2)
    assert WeightFolder(config.weights).versions() == [1, 2], "an existing state publishes nothing"
    same = updater.step(transitions(16, policy=torch.full((16,), 2)), "")
    for one in (trainer, other):
        one.buffer.clear()
        one.push(same)
        one.generator.manual_seed(3)
    again = trainer.step(2)
    assert again == other.step(2)
    assert (again["lag/targets"], again["lag/policy"], again["scripted"]) == (1, 0, 0)


def test_examples_of_another_detector_replace_those_before_them(trainer, updater):
    for version, count in (("run-1", 16), ("run-1", 32), ("run-2", 16)):
        trainer.push(updater.step(transitions(16), version))
        assert len(trainer.buffer) == count


def test_targets_come_from_the_learners_own_copies(config, trainer):
    """Q2 is copied after every update at the start, so an updater sees it at once, not after a version."""
    updater = BellmanUpdater(config)
    updater.use(trainer.weights())
    batch = transitions(16, done=torch.zeros(16, dtype=torch.bool), reward=torch.zeros(16))

    def targets():
        updater.generator.manual_seed(0)
        return updater.step(batch, "").target

    before = targets()
    trainer.push(updater.step(batch, ""))
    trainer.step(3)
    assert not torch.equal(targets(), before)
    assert trainer.version == 1, "nothing was published"


def test_the_saved_state_names_its_format_and_a_foreign_one_is_refused(config, trainer):
    trainer.save()
    state = torch.load(trainer.path, weights_only=True)
    assert (state["format"], state["version"]) == (1, 1)
    torch.save({**state, "format": 2}, trainer.path)
    with pytest.raises(UserError, match=r"learner.pt' is not a saved learner \(format 1\)"):
        Trainer(config)
    trainer.path.write_bytes(b"cut off")
    with pytest.raises(UserError, match="cannot be read"):
        Trainer(config)
