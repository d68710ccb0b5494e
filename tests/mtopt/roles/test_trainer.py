"""Updates, published weights and an exact resume."""

import pytest
import torch
from helpers.transitions import transitions

from polytask.errors import UserError
from polytask.mtopt.learning.weights import WeightFolder
from polytask.mtopt.roles import Trainer


def test_a_trainer_learns_publishes_and_resumes_exactly(config, trainer, updater):
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
