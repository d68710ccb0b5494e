"""Two real processes give what one process gives, for every algorithm and every gradient method.

Sums in another order change the last bits, and training amplifies them; over these few iterations all numbers agree to
a relative error of 1e-4.
"""

import json

import pytest
import torch
from helpers import parallel_jobs, torchrun
from helpers.parallel_jobs import ITERATIONS, RESUMED, TRAININGS
from torch.testing import assert_close

from polytask.cli.main import main
from polytask.config.compose import compose
from polytask.config.schema import TrainConfig
from polytask.datasets.history import load_history
from polytask.errors import UserError
from polytask.grads import GRADS
from polytask.parallel.ranks import ALONE, Ranks
from polytask.runs.checkpoint import load
from polytask.runs.run import check_ranks
from polytask.runs.train import train

pytestmark = pytest.mark.slow
TOLERANCE = {"rtol": 1e-4, "atol": 1e-5}
CLOCK = ("seconds", "frames_per_second")


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """Return the folder with the results of two ranks."""
    folder = tmp_path_factory.mktemp("two")
    code, _, errors = torchrun.run(parallel_jobs.__file__, folder)
    assert code == 0, "\n".join(errors)
    return folder


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    """Return the folder with the results of this process."""
    folder = tmp_path_factory.mktemp("one")
    for name, words in TRAININGS.items():
        parallel_jobs.run(folder / name, *parallel_jobs.WORLDS, *words, f"max_iterations={ITERATIONS}")
    return folder


def rows_of(folder):
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [{name: value for name, value in json.loads(line).items() if name not in CLOCK} for line in lines]


def compare(one, two, where="", **tolerance):
    """Compare two trees of tensors and plain values, exactly without a tolerance."""
    if isinstance(one, torch.Tensor):
        assert_close(two, one, **(tolerance or {"rtol": 0, "atol": 0}), msg=lambda text: f"{where}: {text}")
    elif isinstance(one, dict):
        assert one.keys() == two.keys(), where
        for key, value in one.items():
            compare(value, two[key], f"{where}.{key}", **tolerance)
    elif isinstance(one, list | tuple):
        assert len(one) == len(two), where
        for index, value in enumerate(one):
            compare(value, two[index], f"{where}.{index}", **tolerance)
    elif isinstance(one, float) and tolerance:
        assert two == pytest.approx(one, rel=tolerance["rtol"], abs=tolerance["atol"]), where
    else:
        assert one == two, where


@pytest.mark.parametrize("name", TRAININGS)
def test_learner_and_metrics_equal_those_of_one_process(one, two, name):
    compare(load(one / name)["algo"], load(two / name)["algo"], **TOLERANCE)
    compare(rows_of(one / name), rows_of(two / name), **TOLERANCE)
    assert len(rows_of(two / name)) == ITERATIONS


def test_tasks_that_fail_borrow_and_imitate(two):
    rows = rows_of(two / "ppo_options")
    assert all(row["per_task/window-open/imitation"] > 0 for row in rows)
    assert any(row["rollout/borrowed"] > 0 for row in rows)
    assert rows[-1]["rollout/bonus"] > 0


@pytest.mark.parametrize("name", TRAININGS)
def test_both_ranks_have_the_same_learner_bit_for_bit(two, name):
    compare(*(torch.load(two / f"rank-{rank}" / f"{name}.pt", weights_only=True) for rank in range(2)))


@pytest.mark.parametrize("name", RESUMED)
def test_a_resumed_run_equals_an_uninterrupted_one_bit_for_bit(two, name):
    whole, parts = load(two / name), load(two / f"{name}_parts")
    for part in ("algo", "env", "window", "frames"):
        compare(whole[part], parts[part])
    assert rows_of(two / name) == rows_of(two / f"{name}_parts")


def history_of(folder):
    history = load_history(folder)
    return {"iteration": history.iteration, "frames": history.frames, **vars(history.episodes), "index": None}


def test_the_first_rank_keeps_the_history_that_one_process_keeps(one, two):
    compare(history_of(one / "ppo_options"), history_of(two / "ppo_options"), **TOLERANCE)
    compare(history_of(two / "ppo_options"), history_of(two / "ppo_options_parts"))


@pytest.mark.parametrize("name", GRADS)
def test_gradients_and_losses_are_averages_over_the_rows_of_both(two, name):
    alone = parallel_jobs.gradients(ALONE)[name]
    ranks = [torch.load(two / f"gradients-{rank}.pt", weights_only=True)[name] for rank in range(2)]
    compare(*ranks)
    compare(alone, ranks[0], rtol=1e-4, atol=1e-6)


def test_exchanges(two):
    first, second = (torch.load(two / f"exchanges-{rank}.pt", weights_only=True) for rank in range(2))
    assert (first.pop("share"), second.pop("share")) == pytest.approx((1 / 3, 2 / 3))
    compare(first, second)
    assert first["sum"].tolist() == [3.0, 30.0]
    assert first["sums"] == [[3.0, 30.0], [[2.0], [2.0]]]
    assert first["named"] == {"a": [3.0, 30.0]}
    assert first["mean"].tolist() == pytest.approx([5 / 3, 50 / 3])  # one row of 1 and 10, two rows of 2 and 20
    assert first["gather"].flatten().tolist() == [0, 0, 1, 1]
    assert (first["of_first"], first["of_all"], first["largest"]) == ("rank 0", [0, 1], 10)


def test_a_checkpoint_counts_all_worlds_and_names_its_ranks(one, two):
    alone, state = load(one / "ppo"), load(two / "ppo")
    assert state["spec"] == alone["spec"]
    assert (state["ranks"], len(state["env"]["ranks"])) == (2, 2)
    assert "ranks" not in alone
    assert json.loads((two / "ppo" / "summary.json").read_text())["ranks"] == 2


def test_a_policy_of_two_ranks_is_evaluated_on_its_goals(two, capsys):
    assert main(["eval", f"checkpoint={two / 'ppo'}", "episodes=2", "threads=1", "format=json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert "new_goals" in result  # a second evaluation, beside that on the goals of training


def test_a_new_run_starts_from_two_ranks(two, tmp_path):
    words = (*parallel_jobs.WORLDS, *parallel_jobs.RUN, *parallel_jobs.ON_POLICY)
    config = compose(
        TrainConfig, [*words, f"init_from={two / 'ppo'}", f"run_dir={tmp_path / 'new'}", "max_iterations=1"]
    )
    assert train(config).exit_code == 0


def test_another_number_of_ranks_is_refused(two):
    with pytest.raises(UserError, match=r"written by 2 .*, but there are 1 now; use torchrun --nproc-per-node=2"):
        train(compose(TrainConfig, [f"checkpoint={two / 'ppo'}"], saved=load(two / "ppo")["config"]))
    with pytest.raises(UserError, match=r"written by 1 .*, but there are 2 now; use a single process"):
        check_ranks(1, Ranks(0, 2, store=object()))
