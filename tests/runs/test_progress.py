"""What a user sees while a run trains, without a terminal."""

from __future__ import annotations

import pytest

from polytask.runs.progress import ProgressDisplay


def test_rates_of_one_line_have_the_same_number_of_digits(capsys: pytest.CaptureFixture[str]) -> None:
    row = {"iteration": 1, "frames": 64, "success": 0.00952, "success/reach": 0.02, "success/push": None}
    with ProgressDisplay(("reach", "push"), 100) as display:
        display.update(row)
    err = capsys.readouterr().err
    assert "success 0.01  " in err
    assert "[reach 0.02  push -]" in err
