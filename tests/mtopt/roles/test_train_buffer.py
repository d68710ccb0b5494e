"""The ring of examples."""

import pytest
import torch
from helpers.transitions import transitions

from polytask.mtopt.roles import Examples, TrainBuffer


def test_the_train_buffer_is_a_ring_that_remembers_versions():
    def examples(value, rows, **changes):
        batch = transitions(rows)
        known = {"weights": 7, "detector": "a", **changes}
        target = torch.full((rows,), value)
        seen = (batch.image, batch.closed, batch.height, batch.task, torch.ones(rows, 8) * value)
        return Examples(*seen, target, batch.pose, batch.policy, **known)

    buffer = TrainBuffer(4, (16, 16))
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
