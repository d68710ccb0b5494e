"""Settings and devices that cannot work are refused in one line."""

import pytest
from helpers.tiny_run import tiny

from polytask.config.compose import compose
from polytask.config.presets import CONF
from polytask.errors import UserError
from polytask.mtopt.config.run import RunConfig, TeacherConfig
from polytask.mtopt.runtime.checks import check_devices, prepared


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda config: config.tasks.append("lift-moon"), "unknown task 'lift-moon'"),
        (lambda config: setattr(config.trainer, "batch", 1), "trainer.batch=1 is not valid; it must be at least 2"),
        (
            lambda config: setattr(config.trainer, "buffer", 4),
            "trainer.batch=8 is not valid; it must be at most trainer.buffer=4",
        ),
        (lambda config: setattr(config.trainer, "reuse", 0.0), "trainer.reuse=0.0"),
        (lambda config: setattr(config.trainer, "keep", 1), "trainer.keep=1 is not valid; 0 keeps all versions"),
        (lambda config: setattr(config.trainer, "keep", -1), "trainer.keep=-1"),
        (
            lambda config: setattr(config.learner.network, "image_size", 32),
            "needs pictures of 32 pixels, the world renders 16",
        ),
    ],
)
def test_settings_that_cannot_work_are_refused(tmp_path, change, line):
    config = tiny(tmp_path)
    change(config)
    with pytest.raises(UserError, match=line):
        prepared(config)


def test_labels_that_can_test_no_task_are_refused_before_anything_is_collected(tmp_path):
    """Of labels drawn at random, a fifth tests a detector; of those in later passes and rounds, 0.3 are drawn so."""

    def tested(who="stand-in", least=20, rounds=0, **labels):
        config = tiny(tmp_path)
        config.labels, config.detector.least_tested = TeacherConfig(who, **labels), least
        config.controller.rounds = rounds
        return prepared(config)

    with pytest.raises(UserError, match=r"labels.per_task=60 is not valid; about 12 .* labels.per_task=98 or more"):
        tested(per_task=60)
    tested(per_task=98)
    with pytest.raises(UserError, match=r"about 13 .* labels.per_task=150 or more"):
        tested(per_task=100, passes=2)
    tested(per_task=150, passes=2)
    with pytest.raises(UserError, match=r"about 18 .* labels.per_task=68 or more"):
        tested(per_task=60, rounds=1, round_per_task=100)
    tested(per_task=68, rounds=1, round_per_task=100)
    tested(per_task=60, least=12)
    tested("person", per_task=60)
    tested(per_task=0)


@pytest.mark.parametrize("name", sorted(path.stem for path in (CONF / "mtopt_preset").glob("*.yaml")))
def test_presets_have_enough_labels(name, tmp_path):
    prepared(compose(RunConfig, [f"preset={name}", f"run_dir={tmp_path}"]))


def test_the_network_gets_the_reach_of_the_world(tmp_path):
    config = tiny(tmp_path)
    config.world.reach = 0.07
    before = config.learner.network.camera.reach
    assert prepared(config).learner.network.camera.reach == 0.07
    assert config.learner.network.camera.reach == before, "what was given is not changed"


def test_devices_that_do_not_exist_are_refused():
    check_devices({"device": "cpu"})
    with pytest.raises(UserError, match="unknown device 'gpu'; valid: cpu, cuda, cuda:N"):
        check_devices({"device": "cpu", "world.device": "gpu"})
    with pytest.raises(UserError, match=r"device 'cuda:99' does not exist: this machine has .*; use world.device=cpu"):
        check_devices({"device": "cpu", "world.device": "cuda:99"})
