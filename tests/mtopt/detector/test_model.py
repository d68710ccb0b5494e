"""A detector and its file."""

import pytest
import torch
from helpers.outcomes import NAMES, config, labelled
from torch.testing import assert_close

from polytask.errors import UserError
from polytask.mtopt.detector import Detector, train_detector
from polytask.mtopt.detector.metrics import evaluate, wrong_objects


def test_file_keeps_everything(trained, tmp_path):
    frames, task, _ = labelled(20, torch.Generator().manual_seed(3))
    kept = Detector("8", NAMES, trained.network, threshold=0.7, temperature=1.5, config=trained.config)
    kept.save(tmp_path / "detectors" / "8.pt")
    found = Detector.load(tmp_path / "detectors" / "8.pt")
    assert (found.version, found.tasks, found.threshold, found.temperature) == ("8", tuple(NAMES), 0.7, 1.5)
    assert torch.equal(found.predict(frames, task), kept.predict(frames, task))
    assert [path.name for path in (tmp_path / "detectors").iterdir()] == ["8.pt"]


def test_wrong_files_are_refused_in_one_line(trained, tmp_path):
    file = tmp_path / "file.pt"
    with pytest.raises(UserError, match="no success detector at"):
        Detector.load(file)
    file.write_bytes(b"not a file of torch")
    with pytest.raises(UserError, match="cannot be read"):
        Detector.load(file)
    torch.save({"format": 1}, file)
    with pytest.raises(UserError, match="is not a success detector"):
        Detector.load(file)
    trained.save(file)
    state = torch.load(file, weights_only=True)
    torch.save({**state, "format": 99}, file)
    with pytest.raises(UserError, match="format 99; this version reads 1"):
        Detector.load(file)
    torch.save({**state, "views": 3}, file)
    with pytest.raises(UserError, match="damaged"):
        Detector.load(file)
    trained.save(file)
    file.write_bytes(file.read_bytes()[:-2000])
    with pytest.raises(UserError, match="cannot be read"):
        Detector.load(file)


def test_a_detector_knows_what_it_was_taught(trained, tmp_path):
    assert trained.taught == tuple(NAMES)
    frames, _, _ = labelled(12, torch.Generator().manual_seed(3))
    task = torch.tensor([0] * 5 + [1] * 4 + [2] * 3)
    # Successes and failures of the first task, only failures of the second, only successes of the third.
    value = torch.tensor([1.0, 0.0, 0.0, 0.0, 0.0] + [0.0] * 4 + [1.0] * 3)
    for seed in range(5):  # the lone success is never what only sets the temperature
        some = config(updates=0, holdout=0.5)
        found = train_detector(frames, task, value, some, torch.Generator().manual_seed(seed))
        assert found.taught == ("lift-any",)
    found.save(tmp_path / "7.pt")
    assert Detector.load(tmp_path / "7.pt").taught == ("lift-any",)
    report = evaluate(found, frames, task, value)
    assert [row.task for row in report.tasks] == ["lift-any"]
    assert not wrong_objects(found, frames, dict.fromkeys(NAMES, value > 0.5))

    state = torch.load(tmp_path / "7.pt", weights_only=True)
    torch.save({**state, "taught": ["lift-moon"]}, tmp_path / "7.pt")
    with pytest.raises(UserError, match="damaged"):
        Detector.load(tmp_path / "7.pt")
    del state["taught"]
    torch.save(state, tmp_path / "7.pt")
    assert Detector.load(tmp_path / "7.pt").taught == tuple(NAMES), "old files do not say"


def test_threshold_and_chunks(trained):
    frames, task, _ = labelled(50, torch.Generator().manual_seed(4))
    probability = trained.predict(frames, task)
    assert_close(trained.predict(frames, task, batch=7), probability)
    strict = Detector("9", NAMES, trained.network, threshold=0.9, temperature=trained.temperature)
    assert torch.equal(strict.accepts(frames, task), probability > 0.9)


def test_mistakes_of_the_caller_are_named(trained):
    frames, task, _ = labelled(8, torch.Generator().manual_seed(5))
    with pytest.raises(UserError, match="needs 2 views"):
        trained.predict(frames[:, :1], task)
    with pytest.raises(UserError, match="unknown task of detector 7 'juggle'; known: lift-any, lift-red, lift-blue"):
        trained.index("juggle")
