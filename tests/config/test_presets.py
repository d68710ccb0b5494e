"""Presets: each composes, has a description, differs only in the intended settings, and its learner runs."""

from dataclasses import asdict, replace
from functools import cache

import pytest
import torch

from polytask import make
from polytask.algos import ALGOS
from polytask.algos.ppo import PPOConfig
from polytask.config.compose import compose
from polytask.config.presets import ACTOR_SIZES, BRO_SIZES, presets
from polytask.config.schema import TrainConfig
from polytask.envs.make import resolve
from polytask.envs.options import EnvOptions
from polytask.envs.tasks import TASKS
from polytask.grads import GRADS
from polytask.nets import NETS, build, count_parameters
from polytask.runs.setup import build_algo, world_options

METHODS = ("vanilla", "multihead", "sh_care", "mh_care", "sh_moore", "mh_moore", "paco", "soft_modular")
METHODS += ("pcgrad", "cagrad", "famo")
STUDIES = ("sac", "soft_modular", "care", "care_ptsl_3hidden", "care_ptsl_2hidden")

# One preset for each distinct combination of algorithm, networks and gradient method.
REPRESENTATIVES = (
    *(f"mtbench/mt10_rand/ppo_{name}" for name in METHODS if not name.startswith("mh_")),
    *(f"mtbench/mt10_rand/grpo_{name}" for name in ("vanilla", "famo")),
    *(f"mtbench/mt10_rand/sac_{name}" for name in ("vanilla", "soft_modular")),
    *(f"mtbench/mt10_rand/pqn_{name}" for name in ("vanilla", "soft_modular")),
    *(f"mtbench/mt10_rand/fast_td3_{name}" for name in ("vanilla", "simba_v2")),
    "mtbench/critic_scaling/mlp_768",
    "mtbench/critic_scaling/simba_v2_256",
    "mtbench/bro_scaling/bro_256_te",
    *(f"ptsl/mt10_200k/{name}" for name in ("care", "care_ptsl_3hidden")),
)

# Settings that make each part small enough for a test; all others come from the preset.
TINY_ALGO = {
    "ppo": ("horizon=4", "minibatch=8", "epochs=1"),
    "grpo": ("minibatch=8", "epochs=1"),
    "pqn": ("horizon=4", "minibatches=2", "epochs=1"),
    "sac": ("steps_per_iteration=4", "updates_per_step=0.5", "learning_starts=4", "batch=8", "capacity=64", "n_step=1"),
    "fast_td3": ("steps_per_iteration=4", "updates_per_step=0.5", "learning_starts=4", "batch=8", "capacity=64"),
}
TINY_NET = {
    "mlp": ("hidden=[8,8]",),
    "multihead": ("hidden=[8,8]",),
    "soft_modular": ("width=8", "state_hidden=[8]", "task_hidden=[8]", "feature_dim=8"),
    "care": ("hidden=[8,8]", "context_hidden=[8]"),
    "paco": ("hidden=[8,8]",),
    "moore": ("hidden=[8,8]", "task_hidden=8"),
    "ptsl": ("hidden=8", "rank=4", "context_hidden=[8]"),
    "bro": ("hidden=8",),
    "simba_v2": ("hidden=8",),
}


@cache
def composed(name):
    return compose(TrainConfig, [f"preset={name}"])


def combination(config):
    critic = None if config.critic_net is None else config.critic_net.name
    return config.algo.name, config.net.name, critic, config.grads.name


@pytest.mark.parametrize("name", presets())
def test_every_preset_composes_and_says_what_it_is_for(name):
    config = composed(name)
    assert isinstance(config, TrainConfig)
    assert type(config.algo) is ALGOS[config.algo.name][0]
    assert type(config.net) is NETS[config.net.name][0]
    assert type(config.grads) is GRADS[config.grads.name][0]
    assert config.critic_net is None or type(config.critic_net) is NETS[config.critic_net.name][0]
    assert set(config.task_names) <= set(TASKS)
    assert config.num_envs >= len(config.task_names)
    assert config.max_frames >= 10_000
    assert presets()[name].endswith(".")


def test_presets_for_a_gpu_run_on_a_cpu_with_one_word():
    assert {composed(name).sim.name for name in presets()} == {"auto"}  # Warp on a GPU, MuJoCo on a CPU
    config = compose(TrainConfig, ["preset=mt50_gpu", "device=cpu"])
    assert resolve(EnvOptions(**world_options(config))).sim == "cpu"


def test_no_two_published_presets_are_the_same():
    names = [name for name in presets() if name.startswith(("mtbench/", "ptsl/"))]
    seen = {}
    for name in names:
        seen.setdefault(repr(composed(name)), []).append(name)
    repeated = [group for group in seen.values() if len(group) > 1]
    # A corner of SAC's grid, and the rows for shared projections and for no residual, repeat rows of the main tables.
    assert sorted(repeated) == [
        ["mtbench/mt10_rand/sac_vanilla", "mtbench/sac_grid/updates_4_steps_4"],
        ["ptsl/mt10_200k/care_ptsl_2hidden", "ptsl/projection/shared"],
        ["ptsl/mt10_200k/care_ptsl_3hidden", "ptsl/residual/none"],
    ]


@pytest.mark.parametrize("suite", ["mt10", "mt50"])
def test_methods_of_a_table_differ_in_network_and_gradients_alone(suite):
    vanilla = composed(f"mtbench/{suite}_rand/ppo_vanilla")
    assert (vanilla.suite, vanilla.robot, vanilla.num_envs) == (suite, "panda", 24576)
    assert vanilla.algo == PPOConfig(minibatch=32768)
    for method in METHODS:
        other = composed(f"mtbench/{suite}_rand/ppo_{method}")
        assert replace(other, net=vanilla.net, grads=vanilla.grads) == vanilla


@pytest.mark.parametrize(("suite", "worlds", "iterations"), [("mt10", 5120, 1908), ("mt50", 6400, 1221)])
def test_fixed_goals_change_goals_worlds_and_frames_alone(suite, worlds, iterations):
    for method in METHODS:
        fixed, rand = (composed(f"mtbench/{suite}_{goals}/ppo_{method}") for goals in ("fixed", "rand"))
        assert (fixed.goals, fixed.num_envs, fixed.max_frames) == ("fixed", worlds, worlds * 32 * iterations)
        assert replace(fixed, goals=None, num_envs=rand.num_envs, max_frames=rand.max_frames) == rand


def test_networks_grow_with_the_suite_as_published():
    small, large = (composed(f"mtbench/{suite}_rand/ppo_mh_moore").net for suite in ("mt10", "mt50"))
    assert (small.heads, small.experts, large.heads, large.experts) == ("multi", 4, "multi", 6)
    assert [composed(f"mtbench/{suite}_rand/ppo_paco").net.sets for suite in ("mt10", "mt50")] == [5, 20]


@pytest.mark.parametrize("worlds", [1024, 2048, 4096, 8192, 16384, 32768])
@pytest.mark.parametrize("horizon", [32, 64])
def test_batch_scaling_keeps_the_number_of_updates(worlds, horizon):
    name = f"mtbench/batch_scaling/envs_{worlds}_horizon_{horizon}"
    config = composed(name)
    assert (config.num_envs, config.algo.horizon) == (worlds, horizon)
    assert config.max_frames * config.algo.epochs == 60_000 * config.algo.minibatch
    assert config.max_frames == 393_216_000
    assert "393 M frames of MTBench's script; its thesis gives 500 M" in presets()[name]


@pytest.mark.parametrize(("suite", "tasks"), [("mt10", 10), ("mt50", 50)])
@pytest.mark.parametrize(("budget", "steps"), [("200k", 200_000), ("1m", 1_000_000)])
def test_ptsl_counts_steps_of_every_task(suite, tasks, budget, steps):
    for name in STUDIES:
        config = composed(f"ptsl/{suite}_{budget}/{name}")
        assert (len(config.task_names), config.num_envs, config.max_frames) == (tasks, tasks, tasks * steps)


def test_residual_study_changes_residual_and_width_alone():
    base = asdict(composed("ptsl/mt10_200k/care_ptsl_3hidden").net)
    for residual, width in {"none": 326, "sum": 326, "linear": 326, "project": 321}.items():
        net = asdict(composed(f"ptsl/residual/{residual}").net)
        assert net == {**base, "residual": residual, "hidden": width}


def test_brc_trains_a_small_actor_with_large_categorical_critics():
    small, large = (composed(f"brc_{suite}_gpu") for suite in ("mt10", "mt50"))
    assert (small.algo.critic, small.algo.twin, small.net.task_code) == ("categorical", "mean", "embedding")
    assert replace(small.algo, capacity=large.algo.capacity) == large.algo
    assert (small.net, small.critic_net, small.num_envs) == (large.net, large.critic_net, large.num_envs)
    critic = build(large.critic_net, 39 + 4, large.algo.atoms, 50)
    assert 4e6 < count_parameters(critic) < 5e6
    assert count_parameters(build(large.net, 39, 2 * 4, 50)) < 2e5


def test_representatives_cover_every_combination():
    names = [name for name in presets() if name.startswith(("mtbench/", "ptsl/"))]
    expected = {combination(composed(name)) for name in names}
    assert {combination(composed(name)) for name in REPRESENTATIVES} == expected
    assert len(REPRESENTATIVES) == len(expected)


@pytest.fixture(scope="module")
def env():
    """Build four worlds of two tasks; an episode lasts one iteration, as GRPO needs."""
    return make(tasks=("reach", "drawer-close"), num_envs=4, robot="panda", episode_length=4, stagger=False, threads=1)


def weights(learner):
    """Return all weights of each network as one vector."""
    nets = {name: state["net"] for name, state in learner.state_dict()["learners"].items() if "net" in state}
    return {name: torch.cat([tensor.flatten().double() for tensor in net.values()]) for name, net in nets.items()}


@pytest.mark.parametrize("name", [*REPRESENTATIVES, "brc_mt10_gpu", "fast_td3_mt50_gpu"])
def test_two_iterations_of_every_combination(name, env):
    algo, net, critic, _ = combination(composed(name))
    words = [f"algo.{word}" for word in TINY_ALGO[algo]] + [f"net.{word}" for word in TINY_NET[net]]
    words += [f"critic_net.{word}" for word in (TINY_NET[critic] if critic else ())]
    config = compose(TrainConfig, [f"preset={name}", "device=cpu", "threads=1", *words])
    learner = build_algo(config, env.spec, env.device)
    before = weights(learner)
    for _ in range(2):
        metrics = learner.iterate(env)
    assert all(torch.isfinite(torch.as_tensor(value)).all() for value in metrics.values())
    action = learner.act(env.obs, env.task, explore=False)
    assert action.shape == (4, 4)
    assert torch.isfinite(action).all()
    after = weights(learner)
    assert all(not torch.equal(before[name], after[name]) for name in before), "a network did not learn"


def test_sizes_of_the_other_studies_are_those_of_their_names():
    for name, sizes in (("bro_scaling/bro", BRO_SIZES), ("actor_scaling/mlp", ACTOR_SIZES)):
        for width, text in list(sizes.items())[:3]:
            config = composed(f"mtbench/{name}_{width}")
            net = config.critic_net if name.startswith("bro") else config.net
            suite, outputs = ("mt10", 1) if name.startswith("bro") else ("mt50", 4)
            count = count_parameters(build(net, 39, outputs, len(config.task_names))) / 1e6
            assert config.suite == suite
            assert count == pytest.approx(float(text.removesuffix(" M")), rel=0.05)
    first, new = composed("mtbench/transfer/first_tasks"), composed("mtbench/transfer/new_tasks")
    assert (len(first.task_names), len(new.task_names)) == (45, 5)
    assert not set(first.task_names) & set(new.task_names)
    grid = composed("mtbench/sac_grid/updates_8_steps_64").algo
    assert (grid.updates_per_step, grid.n_step) == (8.0, 64)


def test_tuned_parkour_presets_change_what_their_text_says():
    both = [compose(TrainConfig, [f"preset=parkour/vanilla_hard{end}"]) for end in ("", "_tuned")]
    plain, tuned = map(asdict, both)
    changed = {key for key, value in tuned["algo"].items() if value != plain["algo"][key]}
    assert changed == {"first_lr", "min_lr", "normalize", "obs_clip"}
    assert {key for key, value in tuned.items() if value != plain[key]} == {"algo"}
    assert presets()["parkour/vanilla_hard_tuned"].endswith("adds fixed scales of observations and a low first rate.")
