"""Commands that repeat a run."""

import shlex

import pytest

from polytask.config.compose import compose, to_plain
from polytask.config.schema import TrainConfig
from polytask.runs.commands import command_of, plugin_words

PRESET = "mtbench/mt10_rand/ppo_mh_moore"


@pytest.mark.parametrize(
    "words",
    [
        [],
        [
            "tasks=[reach,push]",
            "seed=3",
            "net=moore",
            "net.hidden=[8,8]",
            "critic_net=mlp",
            "num_envs=6",
            "video=false",
        ],
        ["algo=sac", "algo.lr=1e-5", "goals=fixed", "init_from='a b,c'"],
        [f"preset={PRESET}", "seed=2", "max_frames=null", "max_iterations=3", "grads=famo"],
        ["preset=cpu_demo"],
    ],
)
@pytest.mark.parametrize("preset", [None, PRESET])
def test_the_command_repeats_the_settings(words, preset):
    config = compose(TrainConfig, words)
    program, command, *found = shlex.split(command_of(to_plain(config), preset))
    assert (program, command) == ("polytask", "train")
    assert to_plain(compose(TrainConfig, found)) == to_plain(config)


def test_a_preset_makes_the_command_short():
    config = to_plain(compose(TrainConfig, [f"preset={PRESET}", "seed=2", "run_dir=here"]))
    assert command_of(config, PRESET) == f"polytask train preset={PRESET} seed=2"


def test_settings_that_this_version_does_not_have_give_no_command():
    config = to_plain(compose(TrainConfig, []))
    assert command_of({**config, "net": {"name": "forgotten"}}) is None


def test_only_plug_ins_that_are_not_installed_are_named(monkeypatch):
    monkeypatch.setattr("polytask.runs.commands.installed", lambda: {"a_package"})
    assert plugin_words({}) == []
    assert plugin_words({"net a": "a_package", "task b": "__main__"}) == []
    (word,) = plugin_words({"net a": "mine", "net b": "mine", "algo c": "my code.py"})
    assert shlex.split(word) == ["plugins=[mine,'my code.py']"]
