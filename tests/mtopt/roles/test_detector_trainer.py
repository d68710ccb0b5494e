"""A detector from people's labels, measured on labels kept aside."""

import pytest

from polytask.errors import UserError
from polytask.mtopt.detector import Judge
from polytask.mtopt.detector.labels import labels_by_task
from polytask.mtopt.records import Label
from polytask.mtopt.roles import DetectorTrainer


def test_a_detector_is_trained_from_people_and_measured_on_labels_kept_aside(config, store):
    trainer = DetectorTrainer(config)
    with pytest.raises(UserError, match="label some successes and some failures"):
        trainer.step("run-1")
    store.add_labels([Label(e, "place-any", 0.0, "oracle") for e in range(1, 13)])
    store.add_labels([Label(e, "lift-can", 1.0, "oracle") for e in range(1, 13)])
    with pytest.raises(UserError, match="some successes and some failures of a task first"):
        trainer.step("run-1")
    store.add_labels([Label(e, "lift-any", float(e % 2), "oracle") for e in range(1, 13)])
    assert trainer.teachable() == ("lift-any",)
    store.add_labels([Label(1, "lift-any", 0.0, "person"), Label(2, "lift-any", 0.7, "detector:x")])
    assert labels_by_task(trainer.store)["lift-any"] == {e: e % 2 == 1 and e != 1 for e in range(1, 13)}
    seen = []
    found = trainer.step("run-1", seen.append)
    assert seen == [0.0, 0.5], "two updates"
    assert found["labels"] + found["held"] == 3 * 12
    assert found["taught"] == 1
    assert {name for name in found if name.startswith("balanced_accuracy/")} == {"balanced_accuracy/lift-any"}
    files = {"run-1.pt", "run-1.json", "run-1.scores.json", "in_use"}
    assert {path.name for path in config.detectors.iterdir()} == files
    judge = Judge(config.detectors, "cpu")
    assert judge.version == "run-1"
    assert judge.taught(config.learned) == ("lift-any",)

    def stop(share):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trainer.step("run-2", stop)
    assert not (config.detectors / "run-2.pt").exists()
    trainer.close()
