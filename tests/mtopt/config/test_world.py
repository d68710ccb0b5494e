"""Settings of the scripts."""

import pytest

from polytask.errors import UserError
from polytask.mtopt.config.world import ScriptConfig


@pytest.mark.parametrize("chances", [{"early_grip": 0.5, "early_end": 0.1}, {"early_end": -0.1}])
def test_chances_that_are_not_valid_are_refused(chances):
    with pytest.raises(UserError, match=r"2 \* early_grip \+ early_end at most 1"):
        ScriptConfig(**chances)
