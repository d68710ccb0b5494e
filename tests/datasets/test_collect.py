"""Collecting data sets and reading them."""

import errno
import json
import os
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import polytask
from polytask.cli.main import main
from polytask.datasets.collect import play, seed_of
from polytask.datasets.read import load, stream
from polytask.errors import UserError
from polytask.runs import episode_data

WORDS = ["tasks=[reach,drawer-close]", "policy=scripted", "episode_length=12", "threads=1"]


def run(*words):
    return main(["collect", *WORDS, *(str(word) for word in words)])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Collect three episodes of each of two tasks, in shards of two episodes per task."""
    path = tmp_path_factory.mktemp("data_sets") / "one"
    assert run("episodes=3", "num_envs=4", f"output={path}", "format=json") == 0
    return path


def test_the_shards_hold_whole_episodes(folder):
    assert sorted(path.name for path in folder.iterdir()) == ["index.json", "shard-00000.npz", "shard-00001.npz"]
    index = json.loads((folder / "index.json").read_text())
    assert [(one["episodes"], one["steps"]) for one in index["shards"]] == [(4, 48), (2, 24)]
    assert index["tasks"]["reach"]["version"] == 1
    assert index["tasks"]["reach"]["episodes"] == 3
    assert index["config"]["policy"] == "scripted"
    assert index["robot"] == "sawyer"


def test_a_recording_reads_back(folder):
    data = load(folder)
    assert data.tasks == ("reach", "drawer-close")
    assert data.task.tolist() == [0, 0, 1, 1, 0, 1]
    assert data.world.tolist() == [0, 1, 0, 1, 0, 0]
    assert data.length.tolist() == [12] * 6
    assert data.start.tolist() == [0, 12, 24, 36, 48, 60]
    assert (data.obs.shape, data.action.shape, data.last_obs.shape) == ((72, 39), (72, 4), (6, 39))
    assert data.step_task.tolist() == [task for task in data.task.tolist() for _ in range(12)]
    assert data.truncated.nonzero()[:, 0].tolist() == [11, 23, 35, 47, 59, 71]
    assert not data.terminated.any()
    assert len(list(stream(folder))) == 2


def test_an_observation_follows_from_the_one_before(folder):
    data = load(folder)
    for number in range(len(data)):
        obs = data.episode(number).obs  # (13, 39)
        assert_close(obs[1:, 18:36], obs[:-1, 0:18])  # the second frame is the first frame of the previous step
    assert_close(data.next_obs[11], data.last_obs[0])
    assert_close(data.next_obs[:11], data.obs[1:12])


def test_recorded_actions_lead_to_what_was_recorded(folder):
    data = load(folder)
    env = polytask.make(tasks=data.tasks, num_envs=4, episode_length=12, stagger=False, threads=1)
    env.seed(int(data.seed[0]))
    env.reset()
    episodes = [data.episode(number) for number in range(4)]
    for step in range(12):
        outcome = env.step(torch.stack([episode.action[step] for episode in episodes]))
        assert torch.equal(outcome.next_obs, torch.stack([episode.obs[step + 1] for episode in episodes]))
        assert torch.equal(outcome.reward, torch.stack([episode.reward[step] for episode in episodes]))


def test_a_world_that_ends_early_gives_a_short_episode():
    env = polytask.make(tasks=["reach"], num_envs=3, episode_length=10, stagger=False, threads=1)
    step = env.step

    def interrupted(action):
        outcome = step(action)
        if interrupted.count == 4:
            outcome.truncated[1] = True
        interrupted.count += 1
        return outcome

    interrupted.count = 0
    env.step = interrupted
    episodes = play(env, lambda obs, task: torch.full((3, 4), 2.0), seed=0)
    assert episodes.length.tolist() == [10, 5, 10]
    assert float(episodes.steps["action"].max()) == 1.0, "actions are written as applied, clipped"
    assert_close(episodes.last_obs[1, 18:36], episodes.steps["obs"][4, 1, 0:18])


def test_a_trained_policy_is_recorded_in_the_environment_it_was_trained_in(tmp_path):
    train = ["tasks=[reach]", "num_envs=2", "episode_length=9", "algo.horizon=4", "algo.minibatch=8", "threads=1"]
    ends = ["max_iterations=1", "eval_episodes=0", "video=false", "format=json"]
    assert main(["train", *train, *ends, f"run_dir={tmp_path / 'run'}"]) == 0
    words = ["episodes=2", f"checkpoint={tmp_path / 'run'}", f"output={tmp_path / 'episodes'}", "format=json"]
    assert main(["collect", *words]) == 0
    data = load(tmp_path / "episodes")
    assert data.tasks == ("reach",)
    assert data.length.tolist() == [9, 9]


def test_neighbouring_seeds_share_no_episodes():
    seeds = [seed_of(seed, number) for seed in range(3) for number in range(3)]
    assert len(set(seeds)) == 9


def test_the_same_seed_records_the_same(tmp_path):
    for name, seed in (("a", 5), ("b", 5), ("c", 6)):
        assert run("episodes=1", "policy=random", f"seed={seed}", f"output={tmp_path / name}", "format=json") == 0
    a, b, c = (load(tmp_path / name) for name in "abc")
    assert torch.equal(a.obs, b.obs)
    assert torch.equal(a.action, b.action)
    assert not torch.equal(a.obs[0], c.obs[0])


def test_one_episode_and_one_shard_are_singular(capsys, tmp_path):
    assert run("episodes=1", "num_envs=2", f"output={tmp_path / 'x'}") == 0
    out = capsys.readouterr().out
    assert "1 episode per task" in out
    assert f"data set: {tmp_path / 'x'} (1 shard)" in out


def test_a_kill_leaves_what_was_whole(tmp_path, monkeypatch):
    save = np.savez_compressed

    def killed(file, **arrays):
        if arrays["seed"][0] == seed_of(0, 1):
            file.write(b"half a shard")
            raise KeyboardInterrupt
        save(file, **arrays)

    monkeypatch.setattr(np, "savez_compressed", killed)
    assert run("episodes=2", "num_envs=2", f"output={tmp_path / 'cut'}") == 130
    assert len(load(tmp_path / "cut")) == 2


def test_a_full_disk_is_one_line_and_keeps_what_was_whole(capsys, tmp_path, monkeypatch):
    save = np.savez_compressed

    def full(file, **arrays):
        if arrays["seed"][0] == seed_of(0, 1):
            file.write(b"half a shard")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        save(file, **arrays)

    monkeypatch.setattr(np, "savez_compressed", full)
    assert run("episodes=2", "num_envs=2", f"output={tmp_path}") == 2
    path = tmp_path / "shard-00001.npz"
    assert capsys.readouterr().err == f"polytask: cannot write '{path}': No space left on device\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index.json", "shard-00000.npz"]
    assert len(load(tmp_path)) == 2


def test_a_folder_that_refuses_files_is_named_before_anything_is_played(capsys, tmp_path, monkeypatch):
    def refuse(dir):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr("polytask.datasets.collect.TemporaryFile", refuse)
    monkeypatch.setattr("polytask.datasets.collect.play", None)
    assert run("episodes=2", f"output={tmp_path}") == 2
    assert capsys.readouterr().err == f"polytask: cannot write '{tmp_path}': Read-only file system\n"


def test_a_changed_task_is_refused(folder, monkeypatch):
    monkeypatch.setattr(episode_data, "TASKS", {})
    with pytest.raises(UserError, match="has version 1 of 'reach', which is unknown now"):
        load(folder)
    assert len(load(folder, any_version=True)) == 6


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], "output=DIR"),
        (["output=x", "episodes=0"], "episodes=0"),
        (["output=x", "num_envs=0"], "num_envs=0 is not valid"),
        (["output=x", "num_envs=3"], "num_envs=3 must be a multiple of the number of tasks, 2"),
        (["output=x", "export=csv"], "export=csv is not valid"),
        (["output=/dev/null/x"], "cannot make the folder"),
        (["output=x", "policy=null"], "name one policy"),
    ],
)
def test_a_mistake_is_one_line(capsys, monkeypatch, tmp_path, words, line):
    monkeypatch.chdir(tmp_path)
    assert run(*words) == 2
    assert line in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_recording_is_never_overwritten(capsys, folder):
    before = (folder / "index.json").read_bytes()
    assert run("episodes=1", f"output={folder}") == 2
    assert "already contains a data set" in capsys.readouterr().err
    assert (folder / "index.json").read_bytes() == before


@pytest.mark.parametrize("content", [None, b"not a zip file", b"PK"])
def test_a_missing_or_damaged_shard_is_named(folder, tmp_path, content):
    (tmp_path / "index.json").write_bytes((folder / "index.json").read_bytes())
    if content is not None:
        (tmp_path / "shard-00000.npz").write_bytes(content)
    with pytest.raises(UserError, match=r"shard-00000\.npz' is missing or damaged"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("content", "line"), [(None, "contains no data set"), ("{", "cannot be read"), ("{}", "field 'format' is missing")]
)
def test_a_folder_without_a_good_index_is_refused(tmp_path, content, line):
    if content is not None:
        (tmp_path / "index.json").write_text(content)
    with pytest.raises(UserError, match=line):
        load(tmp_path)


def test_a_missing_extra_is_named_before_anything_is_recorded(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("polytask.datasets.minari.find_spec", lambda name: None)
    assert run("episodes=1", f"output={tmp_path / 'x'}", "export=minari") == 2
    assert capsys.readouterr().err == "polytask: Minari data sets need an extra: pip install 'polytask[export]'\n"
    assert not list(tmp_path.iterdir())


def test_minari_reads_the_export(tmp_path, monkeypatch):
    out = tmp_path / "exported"
    assert run("episodes=2", f"output={out}", "export=minari", "format=json") == 0
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(out / "minari"))
    import minari

    dataset, data = minari.load_dataset("polytask/drawer-close/scripted-v1"), load(out)
    assert (dataset.total_episodes, dataset.total_steps) == (2, 24)
    assert_close(torch.from_numpy(dataset[1].observations), data.episode(3).obs)
    assert_close(torch.from_numpy(dataset[1].actions), data.episode(3).action)
    assert dataset[1].truncations.tolist() == data.episode(3).truncated.tolist()
    with dataset.recover_environment() as env:
        assert (env.spec.id, env.spec.kwargs["robot"]) == ("polytask/drawer-close-v0", data.index["robot"])
        obs, _ = env.reset(seed=0)
        assert dataset.observation_space.contains(obs)
        ends = [env.step(env.action_space.sample())[3] for _ in range(12)]
    assert ends == [False] * 11 + [True]  # an episode has the length that the data have


def no_space(monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=40_000))


def full_disk(monkeypatch):
    def fail(*arguments, **options):
        raise RuntimeError("Can't flush (file write failed: errno = 28, error message = 'No space left on device')")

    monkeypatch.setattr("minari.create_dataset_from_buffers", fail)


@pytest.mark.parametrize("fault", [no_space, full_disk])
def test_minari_on_a_full_disk_is_one_line_and_the_data_set_stays(capsys, tmp_path, monkeypatch, fault):
    fault(monkeypatch)
    out = tmp_path / "exported"
    assert run("episodes=2", f"output={out}", "export=minari") == 2
    assert capsys.readouterr().err == f"polytask: cannot write '{out / 'minari'}': No space left on device\n"
    assert not (out / "minari").exists()
    assert len(load(out)) == 4


def test_other_errors_of_minari_are_not_hidden(tmp_path, monkeypatch):
    def fail(*arguments, **options):
        raise RuntimeError("something else")

    monkeypatch.setattr("minari.create_dataset_from_buffers", fail)
    with pytest.raises(RuntimeError, match="something else"):
        run("episodes=2", f"output={tmp_path / 'x'}", "export=minari")
