"""Our worlds as an environment of TorchRL."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from polytask import adapters
from polytask.envs.multi_task import MultiTaskEnv

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
envs = pytest.importorskip("torchrl.envs", exc_type=ImportError)

LENGTH = 5


@pytest.mark.parametrize("task_code", ["none", "onehot"])
def test_the_specs_are_right(make: Callable[..., MultiTaskEnv], task_code: str) -> None:
    envs.check_env_specs(adapters.TorchRLEnv(make(), task_code))


def test_a_rollout_goes_on_after_the_end_of_episodes(make: Callable[..., MultiTaskEnv]) -> None:
    worlds = make()
    env = adapters.TorchRLEnv(worlds)
    data = env.rollout(2 * LENGTH + 1, break_when_any_done=False)
    done = data["next", "done"].squeeze(-1)
    assert done.tolist() == [[(step + 1) % LENGTH == 0 for step in range(2 * LENGTH + 1)]] * 4
    assert torch.equal(data["next", "truncated"].squeeze(-1), done)
    same = (data["observation"][:, 1:] == data["next", "observation"][:, :-1]).all(-1)
    assert torch.equal(
        same, ~done[:, :-1]
    )  # only an end separates what came after a step from what comes before the next
    assert worlds.pop_metrics()["length"].sum() == 4 * 2 * LENGTH  # no world was reset twice


def test_a_partial_reset_starts_the_chosen_worlds(make: Callable[..., MultiTaskEnv]) -> None:
    worlds = make()
    env = adapters.TorchRLEnv(worlds)
    state = env.rollout(2)[:, -1]["next"].clone()
    state["_reset"] = torch.tensor([True, False, False, True])[:, None]
    after = env.reset(state)
    assert worlds.episode_step.tolist() == [0, 2, 2, 0]
    assert torch.equal(after["observation"][1], state["observation"][1])


def test_a_seed_repeats_an_episode(make: Callable[..., MultiTaskEnv]) -> None:
    env = adapters.TorchRLEnv(make())
    starts = []
    for _ in range(2):
        env.set_seed(7)
        starts.append(env.reset()["observation"])
    assert torch.equal(*starts)
