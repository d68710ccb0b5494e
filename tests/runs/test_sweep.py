"""Sweeps: the list of runs, the runs that are skipped or continued, and their final status."""

import json
import shlex
from pathlib import Path

import pytest

from polytask.cli.main import main
from polytask.config.schema import SweepConfig
from polytask.errors import UserError
from polytask.result import Result
from polytask.runs.file_names import CHECKPOINT_FILE
from polytask.runs.sweep import plan, select, sweep, words_of

TINY = ["tasks=[reach,drawer-close]", "num_envs=4", "episode_length=8", "algo.horizon=4", "algo.minibatch=8"]
TINY += ["threads=1", "max_iterations=1", "eval_episodes=0", "video=false"]


@pytest.fixture
def config(tmp_path):
    return SweepConfig(presets=["cpu_demo", "grpo_cpu"], seeds=2, output=str(tmp_path / "sweep"))


class FakeTrain:
    """A replacement of `train` that stores its configs and writes a summary."""

    def __init__(self, stop_at=None, fail_at=None):
        self.configs, self.stop_at, self.fail_at = [], stop_at, fail_at

    def __call__(self, config):
        self.configs.append(config)
        if len(self.configs) == self.fail_at:
            raise RuntimeError("out of memory\nof all kinds")
        summary = {"complete": len(self.configs) != self.stop_at, "evaluation": {"mean_success": 0.5}, "success": 0.25}
        directory = Path(config.run_dir)
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "summary.json").write_text(json.dumps(summary))
        (directory / CHECKPOINT_FILE).touch()
        return Result(summary, exit_code=0 if summary["complete"] else 130)


def test_every_preset_is_run_with_every_seed_in_a_folder_of_its_own(config):
    train = FakeTrain()
    result = sweep(config, train)
    assert [(each.algo.name, each.seed) for each in train.configs] == [("ppo", 0), ("grpo", 0), ("ppo", 1), ("grpo", 1)]
    folders = ["cpu_demo/seed-0", "grpo_cpu/seed-0", "cpu_demo/seed-1", "grpo_cpu/seed-1"]
    assert [each.run_dir for each in train.configs] == [f"{config.output}/{folder}" for folder in folders]
    assert [(each["status"], each["success"]) for each in result.payload["runs"]] == [("done", 0.5)] * 4
    assert result.exit_code == 0


def test_what_is_done_is_skipped_and_more_seeds_are_added(config):
    sweep(config, FakeTrain())
    train = FakeTrain()
    config.seeds = 3
    result = sweep(config, train)
    assert [(each.algo.name, each.seed) for each in train.configs] == [("ppo", 2), ("grpo", 2)]
    assert [each["success"] for each in result.payload["runs"]] == [0.5] * 6


def test_a_stopped_run_ends_the_sweep_and_is_continued_by_the_next(config):
    result = sweep(config, FakeTrain(stop_at=2))
    assert [each["status"] for each in result.payload["runs"]] == ["done", "stopped", "new", "new"]
    assert result.exit_code == 130
    train = FakeTrain()
    assert sweep(config, train).exit_code == 0
    assert [each.checkpoint for each in train.configs] == [f"{config.output}/grpo_cpu/seed-0", None, None]


def test_a_failed_run_does_not_end_the_sweep(config):
    train = FakeTrain(fail_at=1)
    result = sweep(config, train)
    assert [each["status"] for each in result.payload["runs"]] == ["failed", "done", "done", "done"]
    assert result.payload["runs"][0]["error"] == "out of memory"
    assert (len(train.configs), result.exit_code) == (4, 2)


def test_a_broken_summary_counts_as_not_done(config):
    folder = Path(config.output) / "cpu_demo" / "seed-0"
    folder.mkdir(parents=True)
    (folder / "summary.json").write_text('{"complete": tr')
    config.dry_run = True
    assert len(sweep(config).payload["commands"]) == 4


def test_changes_go_to_every_run_and_into_the_folder(config):
    config.changes, config.first_seed, config.seeds = ["tasks=[push]", "algo.lr=1e-4"], 42, 1
    train = FakeTrain()
    sweep(config, train)
    assert [(each.tasks, each.algo.lr, each.seed) for each in train.configs] == [(["push"], 1e-4, 42)] * 2
    assert train.configs[0].run_dir == f"{config.output}/cpu_demo/tasks=[push] algo.lr=1e-4/seed-42"


def test_dry_run_prints_commands_that_the_shell_reads_back_and_writes_nothing(config, tmp_path):
    config.dry_run, config.seeds, config.changes = True, 1, ["tasks=[push]"]
    result = sweep(config, FakeTrain())
    run_dir = f"{config.output}/cpu_demo/tasks=[push]/seed-0"
    expected = ["polytask", "train", "preset=cpu_demo", "tasks=[push]", "seed=0", f"run_dir={run_dir}"]
    assert shlex.split(result.lines[0]) == expected
    assert not list(tmp_path.iterdir())


def test_patterns_select_presets_once_and_in_order():
    assert select(["ptsl/residual/sum", "ptsl/residual/*"]) == [
        f"ptsl/residual/{name}" for name in ("sum", "linear", "none", "project")
    ]


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"presets": None}, "name presets"),
        ({"presets": ["cpu_dem"]}, "did you mean 'cpu_demo'?"),
        ({"presets": ["ptsl/nothing/*"]}, "unknown preset 'ptsl/nothing/\\*'"),
        ({"seeds": 0}, "seeds=0 is not valid; it must be at least 1"),
        ({"changes": ["seed=3"]}, "'seed' cannot be given: the sweep sets it"),
        ({"changes": ["algo.minibatches=3"]}, "unknown key 'algo.minibatches'"),
        ({"changes": ["tasks=[rech]"]}, "unknown task 'rech'; did you mean 'reach'?"),
        ({"changes": ["tasks=[rech]"], "dry_run": True}, "unknown task 'rech'; did you mean 'reach'?"),
    ],
)
def test_mistakes_are_found_before_anything_runs(config, changed, line):
    vars(config).update(changed)
    train = FakeTrain()
    with pytest.raises(UserError, match=line):
        sweep(config, train)
    assert not train.configs


def test_command_line_trains_a_table_and_skips_it_the_second_time(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["sweep", "preset=cpu_demo,pqn_cpu", "output=table", *TINY[:3], *TINY[5:], "format=json"]
    assert main([*words, "dry_run=true"]) == 0
    commands = json.loads(capsys.readouterr().out)["commands"]
    assert [shlex.split(command)[2] for command in commands] == ["preset=cpu_demo", "preset=pqn_cpu"]
    assert main(["sweep", "preset=cpu_demo", "output=table", *TINY, "format=json"]) == 0
    (first,) = json.loads(capsys.readouterr().out)["runs"]
    written = Path(first["run_dir"], "summary.json").stat().st_mtime_ns
    assert main(["sweep", "preset=cpu_demo", "output=table", *TINY, "format=json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == [first]
    assert Path(first["run_dir"], "summary.json").stat().st_mtime_ns == written


def test_an_interrupted_run_goes_on_without_starting_from_another_again(config):
    config.seeds, config.changes = 1, ["init_from=runs/flat"]
    item = plan(config)[0]
    assert "init_from=runs/flat" in words_of(item, config)
    item.status = "interrupted"
    assert words_of(item, config)[-1] == f"checkpoint={item.run_dir}"
    assert "init_from=runs/flat" not in words_of(item, config)
