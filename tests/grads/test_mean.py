import torch
from torch.testing import assert_close


def test_weighs_all_tasks_equally(make):
    method = make("mean", 4)
    assert not method.needs_gram
    assert_close(method.weights(torch.tensor([1.0, -2.0, 3.0, 0.0]), None), torch.full((4,), 0.25))
