"""A detector from people's labels, measured on labels kept aside."""

import pytest

from polytask.errors import UserError
from polytask.mtopt.detector import Judge
from polytask.mtopt.detector.folder import in_use
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


def test_a_detector_without_rewards_does_not_displace_one_that_has_some(config, store):
    """Else labels of a further round could take every reward from a run."""
    store.add_labels(
        [Label(e, task, float(e % 2), "person") for e in range(1, 13) for task in ("lift-any", "lift-box")]
    )
    trainer = DetectorTrainer(config)

    def used_after(version, least_tested):
        config.detector.least_tested, config.detector.least_precision = least_tested, 0.0
        trainer.step(version)
        return in_use(config.detectors)

    assert used_after("run-1", 1000) == "run-1", "there was none, and its reasons are those of today"
    assert used_after("run-2", 1000) == "run-2"
    assert used_after("run-3", 0) == "run-3"
    assert used_after("run-4", 1000) == "run-3"
    assert used_after("run-5", 0) == "run-5"
    config.tasks = ["lift-can"]
    assert used_after("run-6", 0) == "run-6", "neither may reward a task that is learned now"
    trainer.close()


def test_a_lesson_changes_with_labels_and_settings(config, store):
    trainer = DetectorTrainer(config)
    lessons = [trainer.lesson()]
    for change in (
        lambda: store.add_labels([Label(1, "lift-any", 1.0, "person")]),
        lambda: store.add_labels([Label(1, "lift-any", 0.0, "person")]),
        lambda: setattr(config.detector, "updates", 77),
    ):
        assert trainer.lesson() == lessons[-1]
        change()
        lessons.append(trainer.lesson())
    assert len(set(lessons)) == 4
    trainer.close()
