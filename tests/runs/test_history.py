"""A training history contains what worlds and policy did from the first step on, and learning does not notice it."""

import json
import re
import shutil

import numpy as np
import pytest
import torch
from helpers.toy import PointMass

from polytask.cli.main import main
from polytask.config.compose import compose
from polytask.config.schema import TrainConfig
from polytask.datasets.history import load_history
from polytask.envs.multi_task import MultiTaskEnv
from polytask.errors import UserError
from polytask.runs import train as train_module
from polytask.runs.checkpoint import load
from polytask.runs.history import writer as writer_module
from polytask.runs.history.recorder import Recorder, build_recorder
from polytask.runs.setup import build_train_env
from polytask.runs.train import iterate, train

# Episodes of eleven steps never end with an iteration of eight, so checkpoints cut through them.
WORLDS = ["tasks=[reach,drawer-close]", "envs_per_task=[3,2]", "episode_length=11", "net.hidden=[16]", "threads=1"]
WORDS = [*WORLDS, "eval_episodes=0", "video=false", "max_frames=null", "max_iterations=6", "save_every=2"]
ON_POLICY = ["algo.horizon=8", "algo.minibatch=16", "algo.epochs=1"]
OFF_POLICY = ["algo.steps_per_iteration=8", "algo.learning_starts=4", "algo.updates_per_step=1", "algo.batch=8"]
OFF_POLICY += ["algo.capacity=200"]
ALGOS = {
    "ppo": ON_POLICY,
    "grpo": ["algo.minibatch=16", "algo.epochs=1"],
    "pqn": ["algo.horizon=8", "algo.minibatches=2", "algo.epochs=1"],
    "sac": OFF_POLICY,
    "fast_td3": [*OFF_POLICY, "algo.atoms=11"],
}
STEPS = ("obs", "action", "reward", "success", "terminated", "truncated")


def run(folder, *words):
    return train(compose(TrainConfig, [*WORDS, *words, f"run_dir={folder}"])).payload


def resume(folder, *words):
    return train(compose(TrainConfig, [f"checkpoint={folder}", *words], saved=load(folder)["config"])).payload


def ppo(folder, *words):
    return run(folder, *ON_POLICY, "history.worlds=2", *words)


def same(one, other):
    """Check that two trees of tensors and plain values are equal bit for bit."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other


def rows(folder):
    """Return the rows of metrics without those of the clock."""
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [{name: row[name] for name in row if name not in ("seconds", "frames_per_second")} for row in lines]


def columns(history):
    """Return everything that a history says about steps and episodes."""
    data = history.episodes
    names = (*STEPS, "task", "world", "seed", "length", "last_obs")
    return {name: getattr(data, name) for name in names} | {"iteration": history.iteration, "frames": history.frames}


class Spy:
    """Keeps what the training environment was told and what it answered."""

    def __init__(self, monkeypatch):
        self.steps, self.resets = [], []
        step, reset = MultiTaskEnv.step, MultiTaskEnv.reset

        def spied_step(env, action):
            before = env.obs.cpu().clone()
            answer = step(env, action)
            kept = (answer.reward, answer.success, answer.terminated, answer.truncated, answer.next_obs)
            self.steps.append((before, action.cpu().clone().clamp(-1, 1), *(each.cpu().clone() for each in kept)))
            return answer

        def spied_reset(env, *arguments, **options):
            self.resets.append(len(self.steps))
            return reset(env, *arguments, **options)

        monkeypatch.setattr(MultiTaskEnv, "step", spied_step)
        monkeypatch.setattr(MultiTaskEnv, "reset", spied_reset)

    def episodes(self, world):
        """Return the whole episodes of a world: (number of the first step, columns and the last observation)."""
        found, begin = [], 0
        for number, (*_, terminated, truncated, next_obs) in enumerate(self.steps):
            if number in self.resets:
                begin = number
            if terminated[world] | truncated[world]:
                taken = [
                    torch.stack([step[place][world] for step in self.steps[begin : number + 1]]) for place in range(6)
                ]
                found.append((begin, taken, next_obs[world]))
                begin = number + 1
        return found


def assert_kept(folder, spy):
    """Check that the history of two worlds of each task is what the environment was told and answered."""
    history = load_history(folder)
    data, per_iteration = history.episodes, len(spy.steps) // 6
    assert history.worlds == [("reach", 0), ("reach", 1), ("drawer-close", 0), ("drawer-close", 1)]
    for (task, world), number in zip(history.worlds, (0, 1, 3, 4), strict=True):  # the third world of reach is not kept
        expected, own = spy.episodes(number), history.numbers(task, world)
        assert len(own) == len(expected) >= 3
        for index, (begin, taken, last_obs) in zip(own, expected, strict=True):
            episode, first = data.episode(index), int(data.start[index])
            for name, column in zip(STEPS, taken, strict=True):
                assert torch.equal(getattr(episode, name)[: len(column)], column), name
            assert torch.equal(episode.obs[-1], last_obs)
            times = range(begin, begin + len(taken[0]))
            assert history.iteration[first:][: len(times)].tolist() == [time // per_iteration + 1 for time in times]
            assert history.frames[first:][: len(times)].tolist() == [5 * time for time in times]


@pytest.mark.parametrize("algo", ALGOS)
def test_the_history_is_what_happened_and_learning_does_not_notice(tmp_path, monkeypatch, algo):
    words = [f"algo={algo}", *ALGOS[algo]]
    run(tmp_path / "plain", *words)
    spy = Spy(monkeypatch)
    run(tmp_path / "kept", *words, "history.worlds=2")
    assert_kept(tmp_path / "kept", spy)
    assert rows(tmp_path / "kept") == rows(tmp_path / "plain")
    plain, kept = load(tmp_path / "plain"), load(tmp_path / "kept")
    assert same(plain["algo"], kept["algo"]) and same(plain["env"], kept["env"])
    assert "history" not in plain and not (tmp_path / "plain" / "history").exists()


@pytest.mark.gpu
def test_the_history_of_a_gpu_is_what_happened(tmp_path, monkeypatch):
    spy = Spy(monkeypatch)
    run(tmp_path / "run", *ON_POLICY, "device=cuda", "history.worlds=2")
    assert_kept(tmp_path / "run", spy)


def test_without_a_history_the_algorithm_gets_the_environment_itself(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(train_module, "iterate", lambda run: seen.append((run.recorded_env, run.env)) or iterate(run))
    run(tmp_path / "run", *ON_POLICY, "max_iterations=1")
    assert seen[0][0] is seen[0][1]


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    folder = tmp_path_factory.mktemp("everything") / "run"
    ppo(folder)
    return folder


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    folder = tmp_path_factory.mktemp("unbroken") / "run"
    ppo(folder, "history.every=2")
    return folder


def test_a_run_in_two_parts_has_the_same_history(unbroken, tmp_path):
    ppo(tmp_path / "run", "history.every=2", "max_iterations=3")
    resume(tmp_path / "run", "max_iterations=6")
    assert same(columns(load_history(tmp_path / "run")), columns(load_history(unbroken)))
    assert same(load(tmp_path / "run")["history"]["open"], load(unbroken)["history"]["open"])
    one, other = (
        json.loads((folder / "history" / "index.json").read_text()) for folder in (tmp_path / "run", unbroken)
    )
    assert one["tasks"].keys() == other["tasks"].keys()
    assert all(one["tasks"][task] == pytest.approx(other["tasks"][task]) for task in one["tasks"])


@pytest.mark.parametrize(("every", "saved"), [(2, 4), (0, 0)])
def test_a_crash_after_a_shard_leaves_no_gap_and_no_repeat(everything, tmp_path, monkeypatch, every, saved):
    folder = tmp_path / "run"

    def crash(run):
        row = iterate(run)
        if run.iteration == 5:
            (folder / "history" / f".shard-00009.npz.{2**22 + 1}.part").write_bytes(b"half")  # of a killed process
            raise RuntimeError("killed")
        return row

    with monkeypatch.context() as patch:
        patch.setattr(writer_module, "SHARD_BYTES", 1)  # a shard after every iteration
        patch.setattr(train_module, "iterate", crash)
        with pytest.raises(RuntimeError, match="killed"):
            ppo(folder, f"save_every={every}")
    ahead = json.loads((folder / "history" / "index.json").read_text())["shards"]
    assert load(folder)["iteration"] == saved and ahead[-1]["iteration"] == 5
    with monkeypatch.context() as patch:
        patch.setattr(train_module, "iterate", lambda run: 1 / 0)  # again, before it has recorded anything
        with pytest.raises(ZeroDivisionError):
            resume(folder)
    if saved:
        assert load_history(folder).iteration.max() == saved
    else:
        assert not list((folder / "history").iterdir())
    resume(folder)
    assert same(columns(load_history(folder)), columns(load_history(everything)))
    shards = json.loads((folder / "history" / "index.json").read_text())["shards"]
    files = {path.name for path in (folder / "history").iterdir()}
    assert files == {"index.json", *(shard["file"] for shard in shards)}


def test_a_run_that_continues_elsewhere_takes_its_history_along(unbroken, tmp_path):
    ppo(tmp_path / "one", "history.every=2", "max_iterations=4")
    before = {path.name: path.read_bytes() for path in (tmp_path / "one" / "history").iterdir()}
    resume(tmp_path / "one", "max_iterations=6", f"run_dir={tmp_path / 'two'}")
    assert same(columns(load_history(tmp_path / "two")), columns(load_history(unbroken)))
    assert {path.name: path.read_bytes() for path in (tmp_path / "one" / "history").iterdir()} == before


def test_every_second_episode_is_kept_from_the_first_on(everything, unbroken):
    whole, half = load_history(everything), load_history(unbroken)
    for task, world in whole.worlds:
        every, kept = whole.numbers(task, world)[::2], half.numbers(task, world)
        assert len(kept) == len(every)
        for one, other in zip(every, kept, strict=True):
            assert torch.equal(whole.episodes.episode(one).obs, half.episodes.episode(other).obs)


def test_the_size_is_said_at_the_start_and_kept(tmp_path, capsys):
    ppo(tmp_path / "run", "history.every=3", "max_iterations=30", "save_every=0", "stagger=false")
    line, folder = capsys.readouterr().err.splitlines()[0], tmp_path / "run" / "history"
    about = "history: one in 3 episodes of 2 worlds of each of 2 tasks, about (.+) MB before compression, in (.+)"
    said, where = re.fullmatch(about, line).groups()
    assert where == str(folder)
    assert [path.name for path in sorted(folder.iterdir())] == ["index.json", "shard-00000.npz"]
    with np.load(folder / "shard-00000.npz") as arrays:
        size = sum(arrays[name].nbytes for name in arrays.files)
    # 240 steps of each world are 21 whole episodes, of which seven are kept; the line allows for 7.3.
    assert size / 1e6 == pytest.approx(float(said) * 21 / 22, rel=0.02)


def test_unfinished_rows_in_memory_are_only_those_of_running_episodes(unbroken):
    rows = load(unbroken)["history"]["open"]
    assert torch.bincount(rows["slot"], minlength=4).max() < 11
    assert not (rows["terminated"] | rows["truncated"]).any()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["history.worlds=3"], "history.worlds=3 is too many: task 'drawer-close' has 2 worlds"),
        (["history.worlds=-1"], "history.worlds=-1 is not valid; it must be at least 0"),
        (["history.worlds=1", "history.every=0"], "history.every=0 is not valid; it must be at least 1"),
        (["history=true"], "'history' is a group of settings; set one of them"),
        (["history.world=1"], "unknown key 'history.world'; did you mean 'history.worlds'?"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing(capsys, tmp_path, words, line):
    assert main(["train", *WORDS, *ON_POLICY, *words, f"run_dir={tmp_path / 'run'}"]) == 2
    error = capsys.readouterr().err
    assert line in error and error.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["history.worlds=1"], "history.worlds=1 does not fit: the run was started with 2"),
        (["history.every=3"], "history.every=3 does not fit: the run was started with 2"),
    ],
)
def test_a_history_cannot_change_in_the_middle(unbroken, words, line):
    before = (unbroken / "history" / "index.json").read_bytes()
    with pytest.raises(UserError, match=line):
        resume(unbroken, "max_iterations=7", *words)
    assert (unbroken / "history" / "index.json").read_bytes() == before


def test_a_history_cannot_begin_in_the_middle_but_it_can_end_there(tmp_path):
    ppo(tmp_path / "run", "max_iterations=2")
    files = {path.name: path.read_bytes() for path in (tmp_path / "run" / "history").iterdir()}
    resume(tmp_path / "run", "max_iterations=3", "history.worlds=0")
    assert {path.name: path.read_bytes() for path in (tmp_path / "run" / "history").iterdir()} == files
    with pytest.raises(UserError, match="the checkpoint has no history, which must begin with its run"):
        resume(tmp_path / "run", "max_iterations=4", "history.worlds=2")


def test_a_lost_shard_is_named(unbroken, tmp_path):
    folder = shutil.copytree(unbroken, tmp_path / "run")
    (folder / "history" / "shard-00000.npz").unlink()
    with pytest.raises(UserError, match=r"the history lacks 'shard-00000.npz'; use history.worlds=0"):
        resume(folder, f"run_dir={folder}", "max_iterations=7")


def test_another_data_set_is_never_overwritten(unbroken, tmp_path):
    shutil.copytree(unbroken / "history", tmp_path / "run" / "history")
    with pytest.raises(UserError, match="already contains a data set; name another run_dir"):
        ppo(tmp_path / "run")
    assert (tmp_path / "run" / "history" / "shard-00000.npz").exists()


class Kept:
    """Takes what a recorder hands over."""

    def __init__(self):
        self.calls = []

    def add(self, steps, iteration, frames):
        self.calls.append((steps["obs"][:, :, 0].tolist(), iteration, frames.tolist()))

    def cut(self):
        self.calls.append("cut")

    def relieve(self, iteration):
        self.calls.append(("relieve", iteration))


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_a_reset_of_all_worlds_cuts_the_rows_where_it_happens(device, without_waiting):
    env, writer = PointMass((2, 2), device=device), Kept()
    recorder = Recorder(env, torch.tensor([1, 2], device=device), (16, 4), writer)
    seen, action = [], torch.full((4, 2), 0.1, device=device)
    for number in range(4):
        if number == 3:
            recorder.reset()
        seen.append(env.obs[[1, 2], 0].tolist())
        recorder.step(action)
    recorder.fetch()
    recorder.keep(7, 100)
    assert writer.calls == [(seen[:3], 7, [100, 104, 108]), "cut", (seen[3:], 7, [112]), ("relieve", 7)]
    with pytest.raises(UserError, match="an iteration takes more than the 4 steps"):
        [recorder.step(action) for _ in range(5)]


def test_an_episode_that_a_reset_cuts_off_is_not_kept(tmp_path):
    config = compose(TrainConfig, [*WORLDS, "history.worlds=1", "stagger=false"])
    env = build_train_env(config)
    recorder = build_recorder(config, env, 20 * env.num_envs)
    recorder.writer.open(tmp_path / "history", None)
    for number in range(15):
        if number == 4:
            start = recorder.reset().clone()
        recorder.step(torch.zeros(env.num_envs, env.spec.action_dim))
    recorder.fetch()
    recorder.keep(1, 0)
    recorder.writer.flush(1)
    env.close()
    history = load_history(tmp_path)
    assert history.episodes.length.tolist() == [11, 11]
    assert history.frames.tolist() == list(range(20, 75, 5)) * 2  # from the fifth step on
    assert torch.equal(history.episodes.obs[::11], start[[0, 3]])


def test_every_without_episodes_to_keep_is_refused(capsys, tmp_path):
    assert main(["train", "tasks=[reach]", "history.every=2", f"run_dir={tmp_path / 'x'}"]) == 2
    line = "polytask: history.every=2 does not apply: history.worlds=0 keeps no episodes; set it, too\n"
    assert capsys.readouterr().err == line


@pytest.mark.gpu
def test_recording_never_waits_for_the_gpu(without_waiting):
    env, writer = PointMass((2, 2), device="cuda"), Kept()
    recorder = Recorder(env, torch.tensor([0, 3], device="cuda"), (32, 4), writer)
    action = torch.zeros(4, 2, device="cuda")
    for iteration in range(2):
        with without_waiting():
            for _ in range(8):
                recorder.step(action)
            recorder.fetch()
        recorder.keep(iteration, 0)
    assert len(writer.calls) == 4
