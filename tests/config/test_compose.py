"""Composition of settings: words of the command line give typed dataclasses, or a one-line error."""

from dataclasses import fields, is_dataclass

import pytest
import yaml

from polytask.algos.ppo import PPOConfig
from polytask.cli.commands import COMMANDS
from polytask.config.compose import compose, register, to_plain, to_yaml
from polytask.config.groups import GROUPS
from polytask.config.schema import CollectConfig, EvalConfig, TrainConfig
from polytask.config.values import quote
from polytask.envs.options import ROBOT_NAMES
from polytask.errors import UserError
from polytask.nets.mlp import MlpConfig
from polytask.robots import ROBOTS
from polytask.settings import default_of


def test_defaults_are_typed():
    config = compose(TrainConfig, [])
    assert isinstance(config, TrainConfig)
    assert isinstance(config.algo, PPOConfig)
    assert config.algo == PPOConfig()
    assert config.net == MlpConfig()
    assert config.critic_net is None
    assert (config.suite, config.robot, config.sim.name, config.grads.name) == ("mt10", None, "auto", "mean")


def test_overrides_reach_groups_and_their_settings():
    words = ["tasks=[reach,push]", "algo.gamma=0.9", "net=multihead", "net.hidden=[32,16]", "critic_net=mlp", "seed=7"]
    config = compose(TrainConfig, words)
    assert config.tasks == ["reach", "push"]
    assert (config.algo.gamma, config.net.name, config.net.hidden, config.seed) == (0.9, "multihead", [32, 16], 7)
    assert (config.critic_net.name, config.critic_net.hidden) == ("mlp", MlpConfig().hidden)


def test_a_changed_config_changes_no_later_one():
    first = compose(TrainConfig, [])
    first.net.hidden.append(7)
    first.algo.gamma = 0.0
    second = compose(TrainConfig, [])
    assert (second.net, second.algo) == (MlpConfig(), PPOConfig())


def test_the_last_word_on_a_key_wins():
    assert compose(TrainConfig, ["seed=1", "net=moore", "seed=2", "net=mlp"]).seed == 2


@pytest.mark.parametrize("group", ["sim", "algo", "net", "critic_net", "grads"])
def test_every_option_of_every_group_composes(group):
    for name in register(TrainConfig)[group]:
        option = getattr(compose(TrainConfig, [f"{group}={name}"]), group)
        assert option.name == name


@pytest.mark.parametrize("robot", ROBOTS)
def test_every_robot_is_a_choice(robot):
    assert compose(TrainConfig, [f"robot={robot}"]).robot == robot
    assert len(ROBOT_NAMES) == len(ROBOTS)


def test_collecting_has_its_own_number_of_worlds():
    saved = {"num_envs": 24576, "suite": "mt10", "seed": 3}
    config = compose(CollectConfig, ["checkpoint=runs/mine"], saved=saved)
    assert (config.num_envs, config.seed) == (None, 3)


def test_a_word_beats_a_preset():
    assert compose(TrainConfig, ["num_envs=20", "preset=cpu_demo"]).num_envs == 20


@pytest.mark.parametrize(
    "path", ["runs/a b", "runs/(x)=1", "~/it's", "C:\\runs", "[odd]", "{a,b}", "${oc.env:HOME}", "???", "null "]
)
def test_any_path_can_be_named(path):
    assert compose(TrainConfig, [f"run_dir={path}"]).run_dir == path


@pytest.mark.parametrize(
    ("word", "name", "value"),
    [
        ("tasks=reach", "tasks", ["reach"]),
        ("tasks=reach,push", "tasks", ["reach", "push"]),
        ("tasks=[ reach , 'push' ]", "tasks", ["reach", "push"]),
        ("tasks=${seed}", "tasks", ["${seed}"]),
        ("max_frames=1e6", "max_frames", 1_000_000),
        ("max_frames=2_000", "max_frames", 2000),
        ("max_minutes=1", "max_minutes", 1.0),
        ("envs_per_task=[1,2]", "envs_per_task", [1, 2]),
        ("video=FALSE", "video", False),
        ("run_dir='it\\'s'", "run_dir", "it's"),
        ("stagger=null", "stagger", None),
    ],
)
def test_values_are_read_as_their_type(word, name, value):
    found = getattr(compose(TrainConfig, [word]), name)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("text", ["plain", "it's", 'a"b', "C:\\runs\\", "[a,b]", "tasks=[a,'b']", ""])
def test_quoted_text_is_read_back(text):
    assert compose(TrainConfig, [f"tasks=[{quote(text)},{quote(text)}]"]).tasks == [text, text]


def test_path_may_be_null():
    assert compose(TrainConfig, ["checkpoint=null"]).checkpoint is None


@pytest.mark.parametrize(
    ("word", "line"),
    [
        ("sed=1", "unknown key 'sed'; did you mean 'seed'?"),
        ("algo.epoch=3", "unknown key 'algo.epoch'; did you mean 'algo.epochs'?"),
        ("seed.deep=1", "unknown key 'seed.deep'; 'seed' has no settings"),
        ("algo.name=other", "unknown key 'algo.name'"),
        ("algo=pp0", "unknown algo 'pp0'; did you mean 'ppo'?"),
        ("suite=mt11", "did you mean 'mt10'?"),
        ("preset=mt10_gp", "unknown preset 'mt10_gp'; did you mean 'mt10_gpu', 'mt50_gpu' or 'sac_mt10_gpu'?"),
        ("lr=1", "unknown key 'lr'; did you mean 'algo.lr'?"),
        ("hidden=1", "unknown key 'hidden'; did you mean 'net.hidden'?"),
        ("critic_net.hidden=1", "critic_net is empty; choose an option with critic_net=NAME"),
        ("net=null", "unknown net 'null'"),
        ("seed=1.5", "seed=1.5 is not valid; it must be a whole number"),
        ("seed=null", "seed=null is not valid; it must be a whole number"),
        ("seed=-1", "seed=-1 is not valid; it must be at least 0 and at most 4294967295"),
        ("stagger=perhaps", "stagger=perhaps is not valid; it must be true or false"),
        ("net.hidden=wide", "net.hidden=wide is not valid; it must be a list of whole numbers"),
        ("net.hidden=[8,0]", "net.hidden=0 is not valid; it must be at least 1"),
        ("tasks=[reach", "tasks=[reach is not valid; it must be a list of texts"),
        ("algo.lr=nan", "algo.lr=nan is not valid; it must be at least 0.0"),
        ("algo.min_std=3", "algo.min_std=3.0 is not valid; it must be at most algo.initial_std=1.0"),
        ("run_dir=", "run_dir is empty"),
        ("run_dir=~nouser/x", "there is no user 'nouser'"),
        ("init_from=" + 300 * "x", "is too long"),
        ("tasks=[a\0]", "NUL"),
        ("+extra=1", "none can be added or removed"),
        ("~seed=1", "none can be added or removed"),
        ("seed", "'seed' is not of the form key=value"),
        ("reward=dens", "reward=dens is not valid; did you mean 'dense'?"),
        ("grads.apply_to=all", "grads.apply_to"),
    ],
)
def test_mistakes_are_explained_in_one_line(word, line):
    with pytest.raises(UserError) as caught:
        compose(TrainConfig, [word])
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_preset_and_an_option_that_do_not_go_together_are_both_named():
    with pytest.raises(UserError) as caught:
        compose(TrainConfig, ["preset=parkour/go1_real_cpu", "algo=sac"])
    line = "preset=parkour/go1_real_cpu does not go with algo=sac: it sets algo.horizon, which algo=sac does not have"
    assert str(caught.value) == line


def test_a_key_of_another_command_is_unknown():
    with pytest.raises(UserError, match="unknown key 'num_envs'"):
        compose(EvalConfig, ["num_envs=3"])


@pytest.fixture
def saved():
    words = ["tasks=[push,reach]", "net=multihead", "net.hidden=[8]", "num_envs=6", "sim=cpu", "seed=5", "format=json"]
    return to_plain(compose(TrainConfig, [*words, "run_dir=elsewhere"]))


def test_saved_config_survives_the_round_trip(saved):
    assert to_plain(compose(TrainConfig, ["format=json", "run_dir=elsewhere"], saved=saved)) == saved


def test_words_beat_the_saved_config(saved):
    config = compose(TrainConfig, ["seed=6", "net.heads=single"], saved=saved)
    assert (config.seed, config.net.heads, config.net.hidden, config.tasks) == (6, "single", [8], ["push", "reach"])


def test_another_option_does_not_inherit_saved_settings(saved):
    assert compose(TrainConfig, ["net=mlp"], saved=saved).net.hidden == MlpConfig().hidden


def test_where_and_how_to_print_is_not_inherited(saved):
    config = compose(TrainConfig, [], saved=saved)
    assert (config.run_dir, config.format) == (None, "table")


@pytest.mark.parametrize(
    ("word", "void"), [("suite=mt10", "tasks"), ("envs_per_task=[1,2]", "num_envs"), ("device=cuda", "sim")]
)
def test_a_word_voids_the_saved_rival(saved, word, void):
    value = getattr(compose(TrainConfig, [word], saved=saved), void)
    assert value is None or value.name == "auto"


def test_a_word_beats_the_presets_other_way_to_say_the_same():
    config = compose(TrainConfig, ["preset=cpu_demo", "envs_per_task=[1,2,3,4]"])
    assert (config.num_envs, config.envs_per_task) == (None, [1, 2, 3, 4])
    assert compose(TrainConfig, ["preset=cpu_demo", "suite=mt25"]).tasks is None
    with pytest.raises(UserError, match="give only one of them"):
        compose(TrainConfig, ["num_envs=4", "envs_per_task=[4]"])


@pytest.mark.parametrize("path", ["${x", "${oc.env:HOME}", "???"])
def test_nothing_saved_is_interpolated(saved, path):
    config = compose(TrainConfig, [f"init_from={path}"])
    assert yaml.safe_load(to_yaml(to_plain(config)))["init_from"] == path
    assert compose(TrainConfig, [], saved={**saved, "device": path}).device == path


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("num_envs", "many", "the saved setting num_envs=many cannot be used; it must be a whole number"),
        ("num_envs", True, "num_envs=True"),
        ("tasks", [1], "the saved setting tasks=1 cannot be used; it must be a text"),
        ("video", 1, "video=1 cannot be used; it must be true or false"),
        (
            "net",
            {"name": "mlp", "hidden": "wide"},
            "net.hidden=wide cannot be used; it must be a list of whole numbers",
        ),
    ],
)
def test_a_saved_value_of_another_type_is_named(saved, name, value, line):
    with pytest.raises(UserError) as caught:
        compose(TrainConfig, [], saved={**saved, name: value})
    assert line in str(caught.value)


def test_a_saved_whole_number_may_stand_for_a_float(saved):
    config = compose(TrainConfig, [], saved={**saved, "max_minutes": 3, "unknown": 1})
    assert (config.max_minutes, type(config.max_minutes)) == (3.0, float)


def test_a_preset_replaces_the_saved_config(saved):
    assert to_plain(compose(TrainConfig, ["preset=cpu_demo"], saved=saved)) == to_plain(
        compose(TrainConfig, ["preset=cpu_demo"])
    )


def test_evaluation_takes_its_keys_from_a_saved_run(saved):
    config = compose(EvalConfig, ["episodes=3"], saved=saved)
    assert isinstance(config, EvalConfig)
    assert (config.tasks, config.sim.name, config.seed, config.episodes) == (["push", "reach"], "cpu", 5, 3)


def test_a_key_of_version_0_1_still_works_and_says_its_new_name(capsys):
    config = compose(TrainConfig, ["experiment=cpu_demo"])
    assert config == compose(TrainConfig, ["preset=cpu_demo"])
    assert capsys.readouterr().err == "experiment= is now called preset=\n"


def test_settings_that_version_0_1_saved_are_read():
    saved = {"suite": {"name": "mt25"}, "robot": {"name": "panda"}, "goals": "random", "seed": 4}
    config = compose(TrainConfig, [], saved=saved)
    assert (config.suite, config.robot, config.goals, config.seed) == ("mt25", "panda", None, 4)
    # Version 0.1 also saved manipulation's robot and goals for Parkour.
    saved = {"suite": {"name": "parkour-hard"}, "robot": {"name": "sawyer"}, "goals": "random"}
    config = compose(EvalConfig, [], saved=saved)
    assert (config.suite, config.robot, config.goals) == ("parkour-hard", None, None)


def _configs(schema):
    """Yield a class of settings, and the classes inside it and in its groups."""
    yield schema
    for each in fields(schema):
        if each.metadata.get("group"):
            for config in GROUPS[each.metadata["group"]].values():
                yield from _configs(config)
        elif is_dataclass(default_of(each)):
            yield from _configs(type(default_of(each)))


@pytest.mark.parametrize("command", COMMANDS)
def test_every_setting_has_a_line_of_help(command):
    for config in _configs(COMMANDS[command].schema):
        missing = [each.name for each in fields(config) if each.name != "name" and not each.metadata.get("about")]
        assert not missing, f"{config.__name__} does not explain {missing}"
