"""Settings of runs, and their names."""

import json

import pytest
from helpers.report_runs import settings

from polytask.runs.report.labels import differences, identity, name_settings, portable, setting_of, show_value


def setting(*words, **changes):
    return setting_of({**json.loads(settings(*words)), **changes})


def names(*choices):
    return name_settings([setting(*words.split()) for words in choices])


@pytest.mark.parametrize(
    "word",
    [
        "seed=3",
        "run_dir=elsewhere",
        "threads=1",
        "video=false",
        "wandb=true",
        "tensorboard=true",
        "save_every=3",
        "history.worlds=2",
        "eval_every=3",
        "eval_episodes=3",
        "grads.conflicts_every=2",
    ],
)
def test_seed_folder_and_logging_are_no_part_of_a_setting(word):
    assert identity(setting(word)) == identity(setting())


@pytest.mark.parametrize(
    "word",
    [
        "algo.lr=1e-5",
        "net.hidden=[8]",
        "goals=fixed",
        "num_envs=6",
        "reward=sparse",
        "critic_net=mlp",
        "robot=panda",
        "episode_length=9",
        "success_window=5",
        "max_frames=5",
        "max_iterations=5",
        "max_minutes=5",
    ],
)
def test_everything_else_is(word):
    assert identity(setting(word)) != identity(setting())


def test_the_number_of_a_gpu_and_the_seed_of_a_start_are_no_part_of_a_setting():
    assert identity(setting(device="cuda:0")) == identity(setting(device="cuda:1"))
    assert identity(setting(device="cuda:0")) != identity(setting(device="cpu"))
    starts = [identity(setting(init_from=path)) for path in ("flat/seed-0", "flat/seed-11", "hill/seed-0")]
    assert starts[0] == starts[1] != starts[2]


def test_a_suite_and_its_tasks_are_the_same_setting():
    from polytask.envs.suites import SUITES

    assert identity(setting(tasks=None, suite="mt10")) == identity(setting(tasks=list(SUITES["mt10"])))
    assert identity(setting(tasks=None, suite="mt10")) != identity(setting(tasks=None, suite="mt50"))


def test_keys_that_an_old_run_did_not_save_have_their_defaults():
    config = json.loads(settings())
    del config["reward"], config["algo"]["lr"], config["critic_net"]
    assert identity(setting_of(config)) == identity(setting())


def test_one_setting_is_named_by_its_choices():
    assert names("") == ["reach+push ppo mlp"]
    assert names("net=moore grads=famo critic_net=mlp") == ["reach+push ppo moore critic mlp famo"]


def test_settings_are_named_by_what_differs():
    assert names("", "net=moore") == ["mlp", "moore"]
    assert names("", "grads=pcgrad") == ["mean", "pcgrad"]
    assert names("", "algo.lr=1e-4") == ["lr=0.0005", "lr=0.0001"]
    assert names("", "net=moore", "net=moore net.heads=multi") == ["mlp", "moore heads=single", "moore heads=multi"]


def test_demonstrations_are_always_named():
    one, other = "demos=data/one", "demos=data/other"
    assert names(one) == ["reach+push ppo mlp with demonstrations"]
    assert names(one, "") == ["with demonstrations", "without demonstrations"]
    assert names(f"net=moore {one}", "net=mlp") == ["moore with demonstrations", "mlp without demonstrations"]
    assert names(one, other) == [f"with demonstrations {each}" for each in (one, other)]


def test_a_run_with_demonstrations_is_of_one_setting_before_and_after_it_ends():
    config = json.loads(settings("demos=data/one"))
    assert identity(setting_of(config)) == identity(setting_of(config, is_shown=True))
    start = {**json.loads(settings()), "init_from": "runs/shown"}
    assert name_settings([setting_of(start, is_shown=True), setting_of(start)]) == [
        "with demonstrations", "without demonstrations",
    ]  # fmt: skip


def test_two_rates_are_two_settings_in_a_report_on_networks():
    assert names("", "net=moore", "net=moore algo.lr=1e-4") == ["mlp", "moore lr=0.0005", "moore lr=0.0001"]


def test_a_key_of_two_groups_is_named_with_its_group_only_if_they_differ():
    assert names("critic_net=mlp", "critic_net=mlp critic_net.hidden=[8,8]") == ["hidden=256-128-64", "hidden=2x8"]
    assert names("critic_net=mlp net.hidden=[8]", "critic_net=mlp net.hidden=[9] critic_net.hidden=[8,8]") == [
        "net.hidden=8",
        "net.hidden=9",
    ]


def test_names_are_different_even_if_their_values_look_alike():
    assert names("algo.lr=1e-4", "algo.lr=1.0000001e-4") == ["lr=0.0001", "lr=0.00010000001"]
    long = "runs/" + 50 * "a"
    assert name_settings([setting(init_from=long + "1"), setting(init_from=long + "2")]) == [
        "setting (1)",
        "setting (2)",
    ]


def test_names_of_many_tasks_are_short():
    many = [f"task-number-{number}" for number in range(9)]
    assert name_settings([setting(tasks=many), setting()]) == ["9 tasks", "reach+push"]


def test_differences_inside_a_group_count_only_for_the_same_option():
    found = differences([setting(), setting("net=moore", "num_envs=6"), setting("net=moore")])
    assert found == {"num_envs": [None, 6, None], "net.name": ["mlp", "moore", "moore"]}


def test_values():
    assert [show_value(each) for each in (None, True, 0.5, [3, 3], [3, 4], ["a", "b"], [], "x")] == [
        "default", "true", "0.5", "2x3", "3-4", "a+b", "none", "x",
    ]  # fmt: skip


def test_runs_on_other_machines_are_of_one_published_setting_unless_their_physics_differ():
    def kept(*words):
        return identity(portable(setting(*words)))

    for words in (["sim=cpu"], ["sim=warp"], ["device=cuda"], ["sim.contacts_per_world=99"], ["max_frames=9"]):
        assert kept(*words) == kept()
    assert kept("sim=warp", "sim.iterations=10") == kept()
    assert kept("sim.iterations=3") != kept()
    assert kept("sim=warp", "sim.collision_tolerance=0.1") != kept()
