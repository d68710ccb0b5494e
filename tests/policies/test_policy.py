"""A loaded policy acts as the algorithm that trained it, and takes observations as users have them."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from helpers.checkpoints import TASKS, rows, write_checkpoint

import polytask
from polytask.algos import ALGOS
from polytask.envs.layouts import MANIPULATION, PARKOUR, layout_of
from polytask.errors import UserError
from polytask.nets import NETS
from polytask.policies.files import open_info, open_policy, save_policy
from polytask.runs.checkpoint import load, save

PARKOUR_TASKS = ("flat", "beam")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Return the checkpoint of a small policy and its algorithm."""
    path = tmp_path_factory.mktemp("policy") / "run" / "checkpoint.pt"
    return path, write_checkpoint(path, "net.hidden=[16]")


def acts_alike(path, algo, *, tasks=3):
    obs, task = rows(algo, tasks)
    policy = polytask.load_policy(path)
    expected = algo.act(obs, task, explore=False)
    assert expected.std() > 0.01
    torch.testing.assert_close(policy(obs, task), expected, rtol=0, atol=0)
    return policy


@pytest.mark.parametrize("name", ALGOS)
def test_the_policy_of_every_algorithm_acts_as_it_does(tmp_path, name):
    path = tmp_path / "run" / "checkpoint.pt"
    acts_alike(path, write_checkpoint(path, f"algo={name}"))


@pytest.mark.parametrize("kind", ["shared", "fixed", "none"])
def test_other_ways_to_normalize_are_part_of_the_policy(tmp_path, kind):
    path = tmp_path / "run" / "checkpoint.pt"
    acts_alike(path, write_checkpoint(path, f"algo.normalize={kind}"))


@pytest.mark.parametrize("two_heads", [True, False])
def test_the_heads_of_sacs_simba_v2_are_part_of_the_policy(tmp_path, two_heads):
    path, words = tmp_path / "run" / "checkpoint.pt", ("algo=sac", "net=simba_v2", f"net.two_heads={two_heads}")
    algo = write_checkpoint(path, *words, "net.hidden=16")
    policy = acts_alike(path, algo)
    assert len(policy.actor.net.other_heads) == two_heads
    save_policy(tmp_path / "x.safetensors", policy)
    obs, task = rows(algo)
    torch.testing.assert_close(polytask.load_policy(tmp_path / "x.safetensors")(obs, task), policy(obs, task))


def test_a_policy_of_sac_and_simba_v2_of_an_earlier_version_has_one_head(tmp_path):
    path = tmp_path / "run" / "checkpoint.pt"
    algo = write_checkpoint(path, "algo=sac", "net=simba_v2", "net.two_heads=false", "net.hidden=16")
    state = load(path)
    del state["config"]["net"]["two_heads"]  # it did not exist
    save(path, state)
    policy = acts_alike(path, algo)
    del policy.info.net["two_heads"]
    save_policy(tmp_path / "x.safetensors", policy)
    obs, task = rows(algo)
    torch.testing.assert_close(polytask.load_policy(tmp_path / "x.safetensors")(obs, task), policy(obs, task))


@pytest.mark.parametrize("name", NETS)
def test_the_policy_of_every_network_acts_as_it_does_and_survives_a_file(tmp_path, name):
    path = tmp_path / "run" / "checkpoint.pt"
    algo = write_checkpoint(path, f"net={name}")
    policy = acts_alike(path.parent, algo)
    save_policy(tmp_path / "x.safetensors", policy)
    obs, task = rows(algo)
    again = polytask.load_policy(tmp_path / "x.safetensors")
    torch.testing.assert_close(again(obs, task), policy(obs, task), rtol=0, atol=0)
    assert again.info == policy.info


def test_a_parkour_policy_acts_as_its_algorithm(tmp_path):
    path = tmp_path / "checkpoint.pt"
    algo = write_checkpoint(path, "algo=pqn", tasks=PARKOUR_TASKS, sizes=(212, 12))
    policy = acts_alike(path, algo, tasks=2)
    assert policy(np.zeros(212), "beam").shape == (12,)
    assert (policy.info.robot, policy.info.control_rate) == ("go1", 50.0)


def test_arrays_give_arrays_and_tensors_give_tensors(saved):
    path, algo = saved
    policy = polytask.load_policy(path)
    obs, task = rows(algo)
    expected = policy(obs, task)
    array = policy(obs.double().numpy(), task.numpy())
    assert (type(array), array.dtype) == (np.ndarray, np.float32)
    np.testing.assert_array_equal(array, expected.numpy())
    one = policy(obs[4].numpy(), "push")  # row 4 is of task 1
    assert one.shape == (4,)
    np.testing.assert_allclose(one, expected[4].numpy(), atol=1e-6)
    named = policy(obs, [TASKS[number] for number in task.tolist()])
    torch.testing.assert_close(named, expected, rtol=0, atol=0)
    same = policy(obs, 2)
    torch.testing.assert_close(same[2::3], expected[2::3])
    assert policy(obs.view(5, 3, 39), task.view(5, 3)).shape == (5, 3, 4)
    assert policy(obs[:1].tolist(), 0).shape == (1, 4)
    assert not expected.requires_grad


@pytest.mark.parametrize(
    ("size", "task", "line"),
    [
        (38, 0, "an observation has 39 numbers, not [38]"),
        (39, "pull", "unknown task 'pull'"),
        (39, 3, "this policy has the tasks 0 to 2: reach, push, drawer-open"),
        (39, -1, "this policy has the tasks 0 to 2"),
        (39, 0.5, "a task is a name or a whole number"),
        (39, [0, 1], "give one for each"),
    ],
)
def test_what_does_not_fit_is_one_line(saved, size, task, line):
    policy = polytask.load_policy(saved[0])
    with pytest.raises(UserError) as error:
        policy(np.zeros(size), task)
    assert line in str(error.value)
    assert "\n" not in str(error.value)


def test_an_environment_may_have_some_of_the_tasks_in_another_order(saved):
    path, algo = saved
    policy = polytask.load_policy(path)
    obs, _ = rows(algo)
    act = policy.for_tasks(("drawer-open", "reach"))
    torch.testing.assert_close(act(obs[:2], torch.tensor([0, 1])), policy(obs[:2], ["drawer-open", "reach"]))
    with pytest.raises(UserError, match="it was not trained on 'assembly', only on reach, push, drawer-open"):
        policy.for_tasks(("reach", "assembly"))


def test_neither_loading_nor_acting_imports_the_simulator(saved, tmp_path):
    path, _ = saved
    save_policy(tmp_path / "p.safetensors", polytask.load_policy(path))
    code = (
        "import sys, numpy, polytask\n"
        "assert 'torch' not in sys.modules\n"
        f"for path in ({str(path)!r}, {str(tmp_path / 'p.safetensors')!r}):\n"
        "    polytask.load_policy(path)(numpy.zeros(39), 'reach')\n"
        "print([name for name in ('mujoco', 'warp', 'gymnasium') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_half_precision_halves_the_file_and_keeps_the_statistics(saved, tmp_path):
    path, algo = saved
    policy = polytask.load_policy(path)
    save_policy(tmp_path / "whole.safetensors", policy)
    save_policy(tmp_path / "half.safetensors", policy, half=True)
    half = open_policy(tmp_path / "half.safetensors")
    weights = sum(tensor.numel() for tensor in policy.actor.net.state_dict().values())
    whole, small = ((tmp_path / f"{name}.safetensors").stat().st_size for name in ("whole", "half"))
    assert whole - small == pytest.approx(2 * weights, abs=64)
    torch.testing.assert_close(half.actor.mean, policy.actor.mean, rtol=0, atol=0)
    torch.testing.assert_close(half.actor.scale, policy.actor.scale, rtol=0, atol=0)
    obs, task = rows(algo)
    assert 0 < (half(obs, task) - policy(obs, task)).abs().max() < 0.01


def test_the_description_names_what_a_user_must_know(saved):
    info = polytask.load_policy(saved[0]).info
    assert info.tasks == TASKS
    assert (info.algo, info.robot, info.control_rate) == ("ppo", "sawyer", 80.0)
    assert info.observation[0] == {"name": "hand position", "start": 0, "size": 3, "unit": "m"}
    assert info.observation[-1]["start"] + info.observation[-1]["size"] == 39
    assert [entry["name"] for entry in info.action] == ["hand x", "hand y", "hand z", "gripper"]
    assert (info.run["name"], info.run["frames"], info.run["seed"]) == ("run", 96, 0)


def test_layouts_are_those_of_the_worlds():
    env = polytask.make(tasks=["push"], num_envs=1, stagger=False, threads=1)
    group = env.groups[0]
    assert (MANIPULATION.obs_dim, len(MANIPULATION.action)) == (env.spec.obs_dim, env.spec.action_dim)
    parts = {part["name"]: slice(part["start"], part["start"] + part["size"]) for part in MANIPULATION.observation()}
    things = ("hand position", "first object position", "second object position")
    assert env.spec.places == tuple(parts[name].start for name in things)
    for _ in range(3):
        env.step(torch.ones(1, 4))
    state = group.tasks[0].state
    torch.testing.assert_close(env.obs[:, parts["hand position"]], state.hand)
    torch.testing.assert_close(env.obs[:, parts["gripper openness"]], state.openness[:, None])
    torch.testing.assert_close(env.obs[:, parts["first object position"]], state.obj)
    torch.testing.assert_close(env.obs[:, parts["goal position"]], state.target)
    step = 5 * group.batch.model.opt.timestep
    assert pytest.approx(1 / step) == MANIPULATION.control_rate


def test_the_layout_of_parkour_is_that_of_its_worlds():
    env = polytask.make(tasks=["flat"], num_envs=1, stagger=False, threads=1)
    group = env.groups[0]
    assert (PARKOUR.obs_dim, len(PARKOUR.action)) == (env.spec.obs_dim, env.spec.action_dim)
    parts = {part["name"]: slice(part["start"], part["start"] + part["size"]) for part in PARKOUR.observation()}
    for _ in range(3):
        env.step(torch.full((1, 12), 0.1))
    torch.testing.assert_close(env.obs[:, parts["last action"]], torch.full((1, 12), 0.1))
    torch.testing.assert_close(env.obs[:, parts["height scan"]], group.episode.scan)
    torch.testing.assert_close(env.obs[:, parts["commanded speed"]], group.episode.command[:, None])
    body = env.obs[:, parts["load, shift of its centre and friction"]]
    torch.testing.assert_close(body[:, :1], group.body.load)
    torch.testing.assert_close(body[:, 4:], group.body.friction)
    step = 4 * group.batch.model.opt.timestep
    assert pytest.approx(1 / step) == PARKOUR.control_rate
    assert layout_of(7, 3) is None


@pytest.mark.parametrize(
    ("damage", "line"),
    [
        (lambda data: data[: len(data) // 2], "cannot be read: it is damaged or not a safetensors file"),
        (lambda data: b"", "cannot be read"),
        (lambda data: data.replace(b'\\"out_dim\\": 4', b'\\"out_dim\\": 5'), "does not fit its own description"),
        (lambda data: data.replace(b'\\"format\\": 1', b'\\"format\\": 9'), "not a policy of this version"),
        (lambda data: data.replace(b'\\"decode\\": \\"clip\\"', b'\\"decode\\": \\"clop\\"'), "unknown decoder 'clop'"),
        (lambda data: data.replace(b'\\"obs_dim\\": 39', b'\\"obs_dim\\": \\"3'), "is damaged"),
    ],
)
def test_a_damaged_file_is_one_line(saved, tmp_path, damage, line):
    file = tmp_path / "p.safetensors"
    save_policy(file, polytask.load_policy(saved[0]))
    data = file.read_bytes()
    assert damage(data) != data
    file.write_bytes(damage(data))
    with pytest.raises(UserError) as error:
        polytask.load_policy(file)
    assert line in str(error.value)
    assert "\n" not in str(error.value)


def test_a_missing_file_and_a_foreign_one_are_one_line(tmp_path):
    with pytest.raises(UserError, match="no policy at"):
        polytask.load_policy(tmp_path / "none.safetensors")
    with pytest.raises(UserError, match="no checkpoint at"):
        polytask.load_policy(tmp_path / "none")
    with pytest.raises(UserError, match="is for other programs"):
        polytask.load_policy("policy.onnx")
    with pytest.raises(UserError, match="no policy at"):
        open_info(tmp_path / "none.safetensors")
