"""The bins on a CUDA device: what they do there is what they do on the CPU, from the default stream too."""

import pytest
import torch

from polytask.mtopt.config.world import ScriptConfig, WorldConfig
from polytask.mtopt.world import BinWorld, ScriptedPick, run_episodes

pytestmark = pytest.mark.gpu


def test_an_episode_on_the_default_stream():
    world = BinWorld(WorldConfig(16, "warp", "cuda", image_size=32, outcome_size=32, assisted=True, reach=0.14))
    script = ScriptConfig(noise=0.0, early_end=0.0, early_grip=0.0, margin=0.02)
    episodes = run_episodes(world, ScriptedPick(world, script), ["lift-any"], max_steps=1)
    assert not world.broken.any()
    assert episodes.images.float().std() > 5 and episodes.outcome.float().std() > 5  # not blank
    assert (episodes.images[0, 0] != episodes.images[1, 0]).any()  # every world has its own objects
    assert (episodes.length == 1).all() and world.done.all()


def test_looking_and_acting_wait_for_nothing(without_waiting):
    world = BinWorld(WorldConfig(8, "warp", "cuda", image_size=32, outcome_size=32))
    action = torch.zeros(8, 8, device="cuda")

    def live():
        world.observe()
        world.step(action)
        world.present()
        world.reset()

    for _ in range(4):  # kernels are loaded and graphs captured by the first of them
        live()
    with without_waiting():
        live()
