"""Every task agrees with the reference steps of Meta-World, and `verify` detects a task that does not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from polytask.envs.suites import SUITES
from polytask.envs.tasks import TASKS
from polytask.errors import UserError
from polytask.tools.verify import compare, oracle_files

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.mark.parametrize("name", SUITES["mt50"])
def test_observation_reward_and_success_equal_the_recording(name: str) -> None:
    found = compare(TASKS[name], GOLDEN / f"{name}-v3.npz")
    assert found.passed, found
    assert found.steps >= 20


def test_recordings_hold_successes_and_failures() -> None:
    """Check that success varies, because otherwise agreement on success would mean little."""
    successes = [np.load(path)["success"] for path in oracle_files(GOLDEN).values()]
    assert len(successes) == 50
    assert all(0 < flags.mean() < 1 for flags in successes)


def test_a_wrong_reward_or_success_does_not_pass() -> None:
    task = TASKS["reach"]
    shifted = replace(task, reward=lambda s: (task.reward(s)[0] + 0.02, task.reward(s)[1]))
    flipped = replace(task, reward=lambda s: (task.reward(s)[0], ~task.reward(s)[1]))
    moved = replace(task, slots=lambda scene: replace(task.slots(scene), obj=scene.body("obj") + 0.002))
    for wrong in (shifted, flipped, moved):
        assert not compare(wrong, GOLDEN / "reach-v3.npz").passed


def test_the_first_step_of_an_episode_is_read_from_a_recording_that_has_it(tmp_path: Path) -> None:
    record = dict(np.load(GOLDEN / "bin-picking-v3.npz"))  # a recording that begins later: its frames differ
    record["ep_obs0"][:, 18:36] = record["ep_obs0"][:, :18]  # as after a reset
    np.savez(tmp_path / "bin-picking-v3.npz", **record)
    assert compare(TASKS["bin-picking"], tmp_path / "bin-picking-v3.npz").reward_max > 0.1


def test_a_file_that_is_no_recording_is_named(tmp_path: Path) -> None:
    (tmp_path / "reach-v3.npz").write_bytes(b"PK\x03\x04 but cut off")
    with pytest.raises(UserError, match=r"reach-v3\.npz' is not a readable file of reference episodes"):
        compare(TASKS["reach"], tmp_path / "reach-v3.npz")
    with pytest.raises(UserError, match="no folder"):
        oracle_files(tmp_path / "nowhere")
    with pytest.raises(UserError, match="no <task>"):
        oracle_files(tmp_path.parent / tmp_path.name / "..")
