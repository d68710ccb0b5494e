"""A whole run on a CUDA device: every role, a resume, and no wait where the learner must not wait."""

import pytest
import torch
from helpers.tiny_run import tiny

from polytask.mtopt.roles import BellmanUpdater, Trainer
from polytask.mtopt.runtime.local import LocalRuntime

pytest.importorskip("fastapi")
pytestmark = pytest.mark.gpu


def on_cuda(root):
    config = tiny(root, device="cuda")
    config.world.sim, config.world.device = "warp", "cuda"
    config.world.num_envs, config.storage.threads = 8, 4
    config.collector.episodes, config.collector.round_episodes = 32, 16
    return config


def test_a_run_does_everything_and_goes_on_in_another_process(tmp_path):
    first = LocalRuntime(on_cuda(tmp_path), lambda line: None)
    evaluation = first.run()
    assert [row.task for row in evaluation.tasks] == ["lift-any", "lift-can", "place-any"]
    assert len(first._collecting().store) >= 48
    updates = first._training().learner.step
    first.close()
    second = LocalRuntime(on_cuda(tmp_path), lambda line: None)
    assert second.run() == evaluation, "nothing was left to do"
    assert second.train(3)["updates"] == updates + 3
    optimizer = second._training().learner.optimizer
    assert all(value.is_cuda for state in optimizer.state.values() for value in state.values())
    second.close()
    moved = on_cuda(tmp_path)
    moved.device = "cpu"
    assert Trainer(moved).learner.step == updates + 3, "what was saved there is read anywhere"


def test_targets_and_examples_wait_for_nothing(tmp_path, without_waiting):
    runtime = LocalRuntime(on_cuda(tmp_path), lambda line: None)
    runtime.run()
    replay, trainer = runtime._replaying(), runtime._training()
    generator = torch.Generator("cuda").manual_seed(0)

    updater = BellmanUpdater(runtime.config)
    updater.sync()

    def live():
        examples = updater.step(replay.sample(16, generator), replay.detector)
        trainer.push(examples)
        batch, _ = trainer.buffer.sample(8, trainer.generator)
        trainer.learner.update(batch, trainer.generator)

    for _ in range(3):  # libraries are loaded by the first of them
        live()
    with without_waiting():
        live()
    runtime.close()
