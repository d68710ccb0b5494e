"""The pictures that studies of MT-Opt label, those that only measure the detector, and the gate."""

import argparse

import pytest
import torch
from torch.testing import assert_close

from polytask.errors import UserError


def test_labels_are_half_successes_and_many_near_misses(load):
    labelled = load("labelled")
    truth = torch.zeros(400, len(labelled.ALL_TASKS), dtype=torch.bool)
    any_lift, banana = labelled.ALL_TASKS.index("lift-any"), labelled.ALL_TASKS.index("lift-banana")
    truth[:100, any_lift] = True
    truth[:30, banana] = True
    is_place = torch.arange(400) >= 300
    pool = labelled.Pool(torch.zeros(400, 1, 1, 1, 3, dtype=torch.uint8), truth, is_place)
    rows = labelled.choose(pool, "lift-banana", 40, torch.Generator().manual_seed(0))
    assert len(rows.unique()) == 40 and int((rows < 30).sum()) == 20
    assert int(((rows >= 30) & (rows < 100)).sum()) >= 10 and int((rows >= 300).sum()) == 4
    many = labelled.choose(pool, "lift-banana", 200, torch.Generator().manual_seed(0))
    assert int((many < 30).sum()) == 30 and len(many.unique()) == 200  # all there are, then more failures


class GuessingDetector:
    """Finds higher rows more likely to be lifts; does not know the place task."""

    taught = ("lift-any",)

    def predict_all(self, frames):
        return torch.linspace(0.0, 1.0, len(frames)).unsqueeze(-1)

    def index(self, task):
        return 0


def test_a_person_labels_what_the_page_shows_without_knowing_the_truth(load, monkeypatch):
    labelled = load("labelled")
    monkeypatch.setattr(labelled, "train_on", lambda *_: GuessingDetector())
    is_place = torch.arange(400) % 2 == 1
    choices = []
    for truth in (torch.zeros, torch.ones):
        pool = labelled.Pool(torch.zeros(400, 1, 1, 1, 3), truth(400, len(labelled.ALL_TASKS)).bool(), is_place)
        tasks = ("lift-any", "place-any")
        generator = torch.Generator().manual_seed(0)
        tests = labelled.set_aside(pool, tasks, 4, generator)
        trains = labelled.view(pool, tests, 50, None, generator)
        choices.append([torch.cat([tests[name], rows]) for name, rows in zip(tasks, trains, strict=True)])
    lift, place = choices[0]
    assert all(torch.equal(first, second) for first, second in zip(*choices, strict=True)), "the truth does not matter"
    assert len(lift.unique()) == len(place.unique()) == 50 and (lift % 2 == 0).all() and (place % 2 == 1).all()
    random, likely, uncertain = lift.split([20, 15, 15])
    left = torch.tensor([row for row in range(0, 400, 2) if row not in random])
    assert_close(likely.sort().values, left[-15:])
    rest = left[:-15]
    assert_close(uncertain.sort().values, rest[(rest / 399 - 0.5).abs().argsort()[:15]].sort().values)
    assert len(place[20:].unique()) == 30 and place[20:].float().std() > 80, "more random ones, not the last rows"


class YesDetector:
    """Says yes to everything, as a new detector of two tasks."""

    taught, tasks = ("lift-any", "place-any"), ("lift-any", "place-any")

    def predict(self, frames, task):
        return torch.ones(len(frames))

    def predict_all(self, frames):
        return torch.ones(len(frames), 2)

    def index(self, task):
        return self.tasks.index(task)

    def threshold_of(self, task):
        return 0.5

    @property
    def used(self):
        return tuple(task for task in self.taught if task not in self.refused)


def test_a_detector_that_is_wrong_on_random_pictures_gives_no_reward(load, monkeypatch):
    labelled = load("labelled")
    detector, trained = YesDetector(), []
    monkeypatch.setattr(labelled, "train_on", lambda pool, tasks, chosen, *_: trained.append(chosen) or detector)
    is_place = torch.arange(400) % 2 == 1
    truth = torch.zeros(400, len(labelled.ALL_TASKS), dtype=torch.bool)
    truth[1::2, labelled.ALL_TASKS.index("place-any")] = True
    pool = labelled.Pool(torch.zeros(400, 1, 1, 1, 3), truth, is_place)
    arguments = argparse.Namespace(labels="person", least_precision=0.5, least_tested=4)
    found = labelled.fit_detector(pool, detector.tasks, 50, arguments, torch.Generator().manual_seed(0))
    assert list(detector.refused) == ["lift-any"] and found.viewed == {"lift-any": 50, "place-any": 50}
    assert labelled.kept_aside(50) == 4 and {len(rows) for rows in trained[-1]} == {46}, "some only measure"
    assert int((~found.is_new).sum()) == 100, "those that measure were seen, too"
    verdicts = labelled.verdicts(detector, pool.frames, detector.tasks)
    assert verdicts.dtype == torch.int8 and (verdicts[:, 0] == -1).all(), "no verdict, which is not a failure"
    assert (verdicts[:, 1] == 1).all()
    arguments.labels, measuring = "detector", []
    monkeypatch.setattr(labelled, "gate", lambda detector, pool, aside, *_: measuring.append(aside["place-any"]))
    labelled.fit_detector(pool, detector.tasks, 350, arguments, torch.Generator().manual_seed(0))
    assert len(measuring[0]) == 28 and not torch.isin(measuring[0], trained[-1][1]).any(), "nor do those train"
    monkeypatch.undo()
    arguments.labels, arguments.least_tested = "person", 5
    monkeypatch.setattr(labelled, "train_on", lambda *_: detector)
    with pytest.raises(UserError, match=r"no task has a reward.*4 random labels measure it, but at least 5 must"):
        labelled.fit_detector(pool, detector.tasks, 50, arguments, torch.Generator().manual_seed(0))


def test_thresholds_reach_the_precision_that_the_study_asks_for(load, monkeypatch):
    labelled, seen = load("labelled"), []
    monkeypatch.setattr(labelled, "train_detector", lambda *given: seen.append(given[3]))
    flags = argparse.ArgumentParser()
    labelled.detector_flags(flags)
    arguments = flags.parse_args(["--least-precision", "0.9"])
    arguments.device = "cpu"
    pool = labelled.Pool(torch.zeros(4, 1, 1, 1, 3), torch.zeros(4, len(labelled.ALL_TASKS)) > 0, torch.zeros(4) > 0)
    labelled.train_on(pool, ("lift-any",), [torch.arange(4)], arguments, torch.Generator())
    assert seen[0].least_precision == 0.9


@pytest.mark.parametrize("source", ["person", "detector"])
def test_pictures_that_measure_one_task_train_no_other(load, monkeypatch, source):
    """The package keeps an episode aside for all tasks: one network learns them all."""
    labelled = load("labelled")
    trained, measured = [], []
    monkeypatch.setattr(labelled, "train_on", lambda pool, tasks, chosen, *_: trained.extend(chosen) or YesDetector())
    monkeypatch.setattr(labelled, "gate", lambda detector, pool, aside, *_: measured.extend(aside.values()))
    monkeypatch.setattr(YesDetector, "refused", {}, raising=False)
    truth = torch.arange(400)[:, None].repeat(1, len(labelled.ALL_TASKS)) % 3 == 0
    pool = labelled.Pool(torch.zeros(400, 1, 1, 1, 3), truth, torch.arange(400) % 2 == 1)
    tasks = ("lift-any", "lift-can", "place-any", "place-bottom")
    arguments = argparse.Namespace(labels=source)
    labelled.fit_detector(pool, tasks, 120, arguments, torch.Generator().manual_seed(0))
    assert [len(rows) for rows in measured] == [10] * 4 and len(trained) == (8 if source == "person" else 4)
    assert not torch.isin(torch.cat(measured), torch.cat(trained)).any()
