"""A network with a head per task, a loss and the rows of a batch, for tests of gradients."""

from typing import NamedTuple

from torch import Tensor, nn

TASKS, ROWS, INPUTS = 4, 6, 3


class Rows(NamedTuple):
    obs: Tensor
    task: Tensor
    target: Tensor


class HeadPerTask(nn.Module):
    """Shared layers and a head per task."""

    def __init__(self):
        super().__init__()
        self.torso = nn.Sequential(nn.Linear(INPUTS, 8), nn.Tanh())
        self.heads = nn.Linear(8, TASKS)

    def forward(self, obs, task):
        return self.heads(self.torso(obs)).gather(-1, task[:, None]).squeeze(-1)


def squared_error(net, rows):
    return (net(rows.obs, rows.task) - rows.target).square()
