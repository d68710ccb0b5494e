"""Reading training histories: episodes and windows in order of time, and the export to Minari."""

import json
import shutil

import pytest
import torch
from torch.testing import assert_close
from torch.utils.data import DataLoader

from polytask.cli.main import main
from polytask.datasets.history import load_history
from polytask.datasets.minari import to_minari
from polytask.datasets.read import load, stream
from polytask.errors import UserError

WORDS = ["tasks=[reach,push]", "num_envs=4", "episode_length=7", "net.hidden=[16]", "algo.horizon=8", "threads=1"]
WORDS += ["algo.minibatch=16", "max_iterations=5", "save_every=2", "eval_episodes=0", "video=false", "stagger=false"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Train for forty steps of every world, which are five episodes and five steps, in three shards."""
    folder = tmp_path_factory.mktemp("runs") / "one"
    assert main(["train", *WORDS, "history.worlds=2", f"run_dir={folder}"]) == 0
    return folder


@pytest.fixture
def copy(run, tmp_path):
    return shutil.copytree(run, tmp_path / "copy")


def test_episodes_are_sorted_by_world_and_then_by_time(run):
    history = load_history(run)
    data = history.episodes
    assert len(list(stream(run / "history"))) == 3
    assert history.worlds == [("reach", 0), ("reach", 1), ("push", 0), ("push", 1)]
    assert data.task.tolist() == [0] * 10 + [1] * 10
    assert data.world.tolist() == ([0] * 5 + [1] * 5) * 2
    assert data.length.tolist() == [7] * 20
    steps = torch.arange(35)
    assert history.frames.view(4, 35).tolist() == [(4 * steps).tolist()] * 4
    assert history.iteration.view(4, 35).tolist() == [(steps // 8 + 1).tolist()] * 4
    assert history.numbers("push") == list(range(10, 20))
    assert history.numbers("push", 1) == list(range(15, 20))


def test_an_observation_follows_from_the_one_before_over_the_shards(run):
    data = load_history(run).episodes
    for number in range(len(data)):
        obs = data.episode(number).obs  # (8, 39)
        assert_close(obs[1:, 18:36], obs[:-1, 0:18])  # the second frame is the first frame of the previous step


def test_returns_and_successes_are_those_of_the_episodes(run):
    history = load_history(run)
    episodes = [history.episodes.episode(number) for number in range(20)]
    assert_close(history.returns, torch.tensor([episode.reward.double().sum() for episode in episodes]))
    history.episodes.success[36] = True  # of the second world's first episode
    assert history.successes.nonzero()[:, 0].tolist() == [5]


def test_some_episodes_can_be_selected(run):
    data = load_history(run).episodes
    chosen = data.select(torch.tensor([12, 3]))
    assert chosen.task.tolist() == [1, 0]
    for one, other in ((0, 12), (1, 3)):
        assert torch.equal(chosen.episode(one).obs, data.episode(other).obs)
        assert torch.equal(chosen.episode(one).reward, data.episode(other).reward)


def test_windows_reach_over_episodes_but_not_from_world_to_world(run):
    history = load_history(run)
    windows = history.windows(20, stride=4)
    assert len(windows) == 4 * 4  # they start at steps 0, 4, 8 and 12 of each of four worlds
    assert [window.frames[0].item() for window in windows] == [0, 16, 32, 48] * 4
    assert [window.task.item() for window in windows] == [0] * 8 + [1] * 8
    for window in windows:
        assert (window.frames.diff() == 4).all()  # one step of four worlds after the other
        assert window.truncated.sum() in (2, 3)
    assert torch.equal(windows[5].obs, history.episodes.obs[35 + 4 : 35 + 24])
    assert torch.equal(windows[-1].action, history.episodes.action[3 * 35 + 12 : 3 * 35 + 32])
    assert len(history.windows(35)) == 4
    with pytest.raises(IndexError, match="there is no window 16"):
        windows[16]


def test_windows_are_a_data_set_of_torch(run):
    loader = DataLoader(load_history(run).windows(10), batch_size=8, shuffle=True)
    batch = next(iter(loader))
    assert (batch.obs.shape, batch.action.shape, batch.task.shape) == ((8, 10, 39), (8, 10, 4), (8,))


def test_worlds_without_enough_steps_have_no_windows(run):
    history = load_history(run)
    history.episodes.world[4] = 9  # the last episode of the first world is that of a world of its own
    windows = history.windows(10, stride=7)
    assert [window.frames[0].item() for window in windows] == [0, 28, 56] + [0, 28, 56, 84] * 3


@pytest.mark.parametrize(
    ("length", "stride", "line"),
    [
        (36, 1, "no window of 36 steps fits: the longest world has 35"),
        (0, 1, "a length and a stride of at least 1, not 0 and 1"),
        (5, 0, "a length and a stride of at least 1, not 5 and 0"),
    ],
)
def test_impossible_windows_are_one_line(run, length, stride, line):
    with pytest.raises(UserError, match=line):
        load_history(run).windows(length, stride)


def test_unknown_tasks_and_worlds_are_one_line(run):
    history = load_history(run)
    with pytest.raises(UserError, match="the history has no task 'soccer'; it has reach, push"):
        history.numbers("soccer")
    with pytest.raises(UserError, match="the history has no episode of 'push' in world 2"):
        history.numbers("push", 2)


def test_a_run_without_a_history_and_other_data_sets_are_refused(copy, tmp_path):
    shutil.rmtree(copy / "history")
    with pytest.raises(UserError, match=r"history' contains no data set: there is no index\.json"):
        load_history(copy)
    words = ["tasks=[reach]", "policy=random", "episodes=1", "episode_length=5", "threads=1"]
    assert main(["collect", *words, f"output={tmp_path / 'episodes'}"]) == 0
    with pytest.raises(UserError, match="is not the history of a run"):
        load_history(tmp_path / "episodes")


def test_a_damaged_history_is_one_line(copy):
    index = json.loads((copy / "history" / "index.json").read_text())
    index["shards"][1]["steps"] -= 1
    (copy / "history" / "index.json").write_text(json.dumps(index))
    with pytest.raises(UserError, match=r"shard-00001\.npz' is damaged"):
        load_history(copy)
    (copy / "history" / "shard-00000.npz").write_bytes(b"PK")
    with pytest.raises(UserError, match=r"shard-00000\.npz' is missing or damaged"):
        load_history(copy)


def test_the_index_is_json_also_where_a_setting_is_infinite(run):
    def refuse(word):
        raise ValueError(word)

    index = json.loads((run / "history" / "index.json").read_text(), parse_constant=refuse)
    assert index["config"]["grads"]["max_loss"] is None  # infinite


def test_minari_reads_the_export(run, tmp_path, monkeypatch):
    minari = pytest.importorskip("minari")
    names = to_minari(run / "history", str(tmp_path / "minari"))
    assert names == ["polytask/reach/ppo-history-v1", "polytask/push/ppo-history-v1"]
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    dataset, data = minari.load_dataset(names[1]), load(run / "history")
    assert (dataset.total_episodes, dataset.total_steps) == (10, 70)
    for number, mine in enumerate((data.task == 1).nonzero()[:, 0].tolist()):
        assert_close(torch.from_numpy(dataset[number].observations), data.episode(mine).obs)
        assert_close(torch.from_numpy(dataset[number].actions), data.episode(mine).action)
        assert dataset[number].truncations.tolist() == data.episode(mine).truncated.tolist()
