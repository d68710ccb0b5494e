"""Settings of the scripts."""

import pytest

from polytask.errors import UserError
from polytask.mtopt.config.world import ScriptConfig
from polytask.settings import check_values


@pytest.mark.parametrize(
    ("chances", "line"),
    [
        ({"early_grip": 0.5, "early_end": 0.1}, r"2 \* early_grip \+ early_end must be at most 1"),
        ({"early_end": -0.1}, "script.early_end=-0.1 is not valid; it must be at least 0"),
    ],
)
def test_chances_that_are_not_valid_are_refused(chances, line):
    with pytest.raises(UserError, match=line):
        check_values(ScriptConfig(**chances), "script.")
