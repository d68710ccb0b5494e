"""From settings to worlds and policy, and runs that are followed."""

import pytest
import torch
from helpers.checkpoints import write_checkpoint

from polytask.cli.main import main
from polytask.config.compose import compose
from polytask.config.watching import PlayConfig
from polytask.errors import UserError
from polytask.viewer import source


def settings(*words):
    config = compose(PlayConfig, list(words))
    saved = source.saved_settings(config)
    return source.checked(compose(PlayConfig, list(words), saved=saved) if saved else config)


def built(config):
    session = source.build(config)
    session.close()
    return session


def test_there_is_at_least_one_world_per_task():
    assert built(settings("policy=scripted", "tasks=[reach,push,door-open]", "worlds=2")).env.spec.num_envs == 3
    assert built(settings("policy=scripted", "tasks=[reach,push]", "worlds=5")).env.spec.envs_per_task == (3, 2)


def test_a_single_task_gets_all_worlds():
    session = built(settings("policy=pretrained", "task=push", "worlds=3", "speed=0.5"))
    assert session.env.spec.tasks == ("push",)
    assert session.env.spec.num_envs == 3
    assert session.clock.speed == 0.5


def test_another_policy_and_task_can_be_chosen():
    config = settings("policy=pretrained", "worlds=2")
    assert source.policies(config) == ["pretrained", "scripted", "random"]
    assert source.tasks()[0] == source.ALL_TASKS
    other = source.chosen(config, "scripted", "reach")
    assert (other.policy, other.task) == ("scripted", "reach")
    back = source.chosen(config, "pretrained", source.ALL_TASKS)
    assert (back.policy, back.task, back.suite) == ("pretrained", None, "mt10")


def test_worlds_that_do_not_fit_are_refused_and_freed(monkeypatch):
    closed = []
    monkeypatch.setattr("polytask.envs.multi_task.MultiTaskEnv.close", lambda env: closed.append(env))
    with pytest.raises(UserError, match="no scripted experts"):
        source.build(source.chosen(settings("policy=scripted", "worlds=1"), "scripted", "flat"))
    assert len(closed) == 1


def test_one_policy_must_be_named(tmp_path):
    with pytest.raises(UserError, match="name one policy"):
        settings("task=reach")
    with pytest.raises(UserError, match="leave out checkpoint= and policy="):
        settings("run=runs/a", "policy=random")


def test_a_curriculum_is_for_training():
    assert settings("policy=random", "tasks=[flat]", "levels=curriculum").levels == "hard"


def test_a_run_is_followed(tmp_path):
    write_checkpoint(tmp_path / "checkpoint.pt")
    config = settings(f"run={tmp_path}", "task=push", "worlds=2")
    assert config.checkpoint == str(tmp_path)
    assert source.policies(config)[0] == source.CHECKPOINT
    assert source.chosen(config, "random", "reach").checkpoint is None
    session, follower = source.build(config), source.Follower(config)
    env = session.env
    before = session.policy(env.obs, env.task)
    assert follower.newer(env) is None
    write_checkpoint(tmp_path / "checkpoint.pt", "seed=7")
    policy = follower.newer(env)
    assert not torch.equal(policy(env.obs, env.task), before)
    assert follower.newer(env) is None  # until the next one
    (tmp_path / "checkpoint.pt").unlink()
    with pytest.raises(UserError, match="no checkpoint"):
        follower.newer(env)
    session.close()


def test_a_missing_extra_is_one_clear_line(monkeypatch, capsys):
    monkeypatch.setattr("polytask.viewer.server.find_spec", lambda name: None)
    assert main(["play", "policy=random", "task=reach"]) == 2
    assert "pip install 'polytask[viewer]'" in capsys.readouterr().err
