"""The solution that CAGrad and MGDA start from is part of their state."""

import pytest
import torch
from torch.testing import assert_close

every_method = pytest.mark.parametrize("name", ["cagrad", "mgda"])


@every_method
def test_the_first_update_starts_from_the_centre(make, name):
    assert make(name, 4).simplex.tolist() == [0.25] * 4


@every_method
def test_a_loaded_state_goes_on_from_the_last_solution(make, draw, name):
    jacobian, losses = draw(8, "uneven"), torch.ones(8)
    gram = jacobian @ jacobian.T
    method, resumed, fresh = (make(name, 8, iterations=1) for _ in range(3))
    method.weights(losses, gram)
    place = resumed.simplex.data_ptr()
    resumed.load_state_dict(method.state_dict())
    assert resumed.simplex.data_ptr() == place, "a captured graph may hold the address"
    expected = method.weights(losses, gram)
    assert_close(resumed.weights(losses, gram), expected, rtol=0, atol=0)
    assert not torch.equal(fresh.weights(losses, gram), expected), "one step from the centre is another point"
