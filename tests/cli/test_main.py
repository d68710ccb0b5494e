"""The command line. Most tests call it in this process, because importing torch takes longer than most tests."""

import json
import subprocess
import sys
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf

from polytask.cli.commands import COMMANDS
from polytask.cli.main import main
from polytask.config.compose import names_of
from polytask.errors import UserError
from polytask.files.json_files import finite
from polytask.runs.checkpoint import load, save
from polytask.tools.verify import Comparison

TINY = [
    "tasks=[reach,drawer-close]",
    "num_envs=4",
    "episode_length=12",
    "algo.horizon=8",
    "algo.minibatch=16",
    "threads=1",
]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Train for two iterations and return the run directory."""
    directory = tmp_path_factory.mktemp("runs") / "trained"
    assert main(["train", *TINY, "max_iterations=2", "eval_episodes=2", "video=false", f"run_dir={directory}"]) == 0
    return directory


def test_help_names_every_command(run):
    code, out, _ = run("--help")
    assert code == 0
    assert all(f"  {name} " in out for name in COMMANDS)
    assert run()[1] == run("-h")[1] == out


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_names_every_key(run, command):
    code, out, _ = run(*command.split(), "--help")
    assert code == 0
    assert all(f"  {key} " in out for key in names_of(COMMANDS[command].schema))
    assert f"polytask {command} " in out


@pytest.mark.parametrize(
    "words",
    [
        *(
            ["--help"],
            ["--version"],
            ["train", "--help"],
            ["mtopt", "run", "--help"],
            ["mtopt", "run", "--help", "learner"],
        ),
        *(["trian"], ["train", "sed=1"], ["mtopt", "run", "sed=1"]),
    ],
)
def test_help_and_misspelt_keys_do_not_wait_for_torch(words):
    code = "import sys; from polytask.cli.main import main; main(sys.argv[1:]); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


def test_help_lists_the_settings_of_groups_and_parts(run):
    code, out, _ = run("train", "--help", "algo=sac", "net=moore")
    assert code == 0
    assert "algo=sac: " in out
    assert any(line.split()[:2] == ["algo.tau", "0.01"] for line in out.splitlines())
    assert any(line.split()[:2] == ["net.experts", "4"] for line in out.splitlines())
    out = run("mtopt", "run", "--help", "learner.network")[1]
    assert any(line.split()[:2] == ["learner.network.size", "small"] for line in out.splitlines())
    code, _, err = run("train", "--help", "algo=sak")
    assert (code, err) == (2, "polytask: unknown algo 'sak'; did you mean 'sac'?\n")
    code, _, err = run("train", "--help", "seed")
    assert code == 2
    assert "'seed' has no nested settings" in err
    assert run("train", "--help", "algo.lr")[2] == "polytask: 'algo.lr' has no nested settings\n"


def test_help_can_be_added_to_any_command_line(run):
    for words in (
        ["list", "tasks"],
        ["train", "preset=cpu_demo"],
        ["train", "algo.lr=1e-3"],
        ["mtopt", "run", "seed=1"],
    ):
        command = " ".join(words[:2]) if words[0] == "mtopt" else words[0]
        assert run(*words, "--help") == run(*command.split(), "--help")
    assert run("show", "mtopt", "run", "--help") == run("mtopt", "run", "--help")


def test_show_prints_what_a_preset_and_words_amount_to(run):
    code, out, _ = run("show", "preset=cpu_demo", "algo.lr=0.25", "format=json")
    shown = json.loads(out)
    assert code == 0
    assert (shown["tasks"][0], shown["algo"]["name"], shown["algo"]["lr"]) == ("reach", "ppo", 0.25)
    text = run("show", "preset=cpu_demo", "algo.lr=0.25")[1]
    assert finite(OmegaConf.to_container(OmegaConf.create(text))) == {**shown, "format": "table"}
    shown = json.loads(run("show", "mtopt", "run", "preset=tiny", "seed=3", "format=json")[1])
    assert (shown["seed"], shown["world"]["assisted"]) == (3, True)
    assert json.loads(run("show", "list", "nets", "format=json")[1])["kind"] == "nets"
    shown = json.loads(run("show", "sweep", "preset=cpu_demo,pqn_cpu", "seed=1", "format=json")[1])
    assert shown["grid"] == ["preset=cpu_demo,pqn_cpu", "seed=1"]


def test_the_module_runs_as_a_program():
    done = subprocess.run([sys.executable, "-m", "polytask", "train", "sed=1"], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == "polytask: unknown key 'sed'; did you mean 'seed'?\n"


MISTAKES = [
    (["trian"], "unknown command 'trian'; did you mean 'train'?"),
    (["train", "tasks=[reech]"], "unknown task 'reech'; did you mean 'reach'?"),
    (["train", "suite=mt1"], "suite=mt1 is not valid"),
    (["train", "alg.lr=1"], "unknown key 'alg.lr'; did you mean 'algo'?"),
    (["train", "algo.lrr=1"], "unknown key 'algo.lrr'; did you mean 'algo.lr'?"),
    (["train", "device=gpu"], "unknown device 'gpu'"),
    (["train", "device=cuda:99"], "device 'cuda:99' does not exist"),
    (["train", "num_envs=3"], "num_envs=3 is too few for 10 tasks"),
    (["train", "tasks=[reach,push]", "envs_per_task=[4]"], "envs_per_task has 1 entries for 2 tasks"),
    (["train", "tasks=[reach,push]", "envs_per_task=[4,4]", "num_envs=8"], "give only one of them"),
    (["train", "max_frames=null"], "set max_frames or max_iterations"),
    (["train", "save_every=-1"], "save_every=-1"),
    (["train", "max_minutes=0"], "max_minutes=0"),
    (["train", "checkpoint=nowhere"], "no checkpoint at 'nowhere'"),
    (["train", "tasks=[reach]", "max_iterations=1", "run_dir=/dev/null/run"], "cannot make the folder"),
    (["eval"], "name one policy"),
    (["eval", "policy=clever"], "policy=clever is not valid"),
    (["eval", "policy=random", "episodes=0"], "episodes=0"),
    (["eval", "checkpoint=nowhere.pt"], "no checkpoint at 'nowhere.pt'"),
    (["list"], "name what to list: tasks, suites"),
    (["list", "task"], "kind=task is not valid; did you mean 'tasks'?"),
    (["list", "tasks", "params=true"], "params=true is valid only for"),
    (["list", "robots", "suite=mt10"], "suite= is valid only for 'polytask list tasks'"),
    (["bench", "what=everything"], "what=everything is not valid"),
    (["bench", "what=grads", "device=gpu"], "unknown device 'gpu'"),
    (
        ["sweep", "preset=cpu_demo", "robot=sawyerr", "dry_run=true"],
        "robot=sawyerr is not valid; did you mean 'sawyer'?",
    ),
    (["train", "store=x"], "unknown key 'store'"),
    (["bench", "iterations=0"], "iterations=0 is not valid; it must be at least 1"),
    (["record", "policy=scripted", "task=reach", "output=no/such/folder.mp4"], "there is no folder 'no/such'"),
    (["record", "policy=scripted", "task=reech"], "unknown task 'reech'"),
    (["verify"], "oracle=DIR"),
    (["verify", "oracle=nowhere"], "nowhere"),
    (["report"], "runs=[runs/a,runs/b]"),
    (["report", "runs=[nowhere]"], "there is no folder 'nowhere'"),
]


@pytest.mark.parametrize(("words", "line"), MISTAKES, ids=[" ".join(words) for words, _ in MISTAKES])
def test_a_mistake_is_one_line_and_exit_code_2(run, tmp_path, words, line):
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert err.startswith("polytask: ")
    assert line in err
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir()), "something was written"


def test_the_debug_variable_shows_the_traceback(run, monkeypatch):
    monkeypatch.setenv("POLYTASK_DEBUG", "1")
    with pytest.raises(UserError):
        run("train", "sed=1")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["num_envs=6"], "was trained with num_envs=4; leave num_envs out, or start a new run with init_from="),
        (["tasks=[reach,push]"], "was trained with tasks=[reach,drawer-close]; leave tasks out"),
        (["net.hidden=[32]"], "was trained with net.hidden=[256,128,64]; leave net.hidden out"),
        (["net=moore"], "was trained with net=mlp; leave net out"),
        (["algo=sac"], "was trained with algo=ppo; leave algo out"),
        (["suite=mt50"], "was trained with tasks=[reach,drawer-close]; leave suite out"),
        (["suite=parkour-easy"], "was trained with tasks=[reach,drawer-close]; leave suite out"),
        (["robot=panda"], "was trained with the default robot; leave robot out"),
    ],
)
def test_a_checkpoint_of_another_shape_is_refused(run, trained, tmp_path, words, line):
    before = {path.name: path.read_bytes() for path in trained.iterdir()}
    code, out, err = run("train", f"checkpoint={trained}", *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert line in err
    assert {path.name: path.read_bytes() for path in trained.iterdir()} == before
    assert not list(tmp_path.iterdir())


def test_a_run_continues_with_other_settings_that_only_its_algorithm_has(run, tmp_path):
    words = ["tasks=[reach]", "num_envs=2", "threads=1", "max_iterations=1", "eval_episodes=0", "video=false"]
    sizes = ["algo.batch=8", "algo.capacity=100", "algo.steps_per_iteration=2", "algo.n_step=1"]
    assert run("train", *words, "algo=sac", *sizes, "run_dir=run")[0] == 0
    assert run("train", "checkpoint=run", "max_iterations=2", "algo.tau=0.5")[0] == 0
    assert run("train", "checkpoint=run", "algo.capacity=50")[2] == (
        "polytask: the checkpoint does not fit algo.capacity 100 -> 50; leave algo.capacity out\n"
    )
    algo = OmegaConf.load(tmp_path / "run" / "config.yaml").algo
    assert (algo.tau, algo.capacity) == (0.5, 100)


@pytest.mark.parametrize("command", ["train", "eval", "record"])
def test_a_truncated_checkpoint_is_refused(run, trained, tmp_path, command):
    data = (trained / "checkpoint.pt").read_bytes()
    (tmp_path / "cut.pt").write_bytes(data[: len(data) // 2])
    code, out, err = run(command, "checkpoint=cut.pt")
    assert (code, out) == (2, "")
    assert err == "polytask: 'cut.pt' cannot be read: it is truncated or not a polytask checkpoint\n"


def test_a_run_is_not_overwritten(run, trained):
    code, _, err = run("train", *TINY, f"run_dir={trained}")
    assert code == 2
    assert "already contains a run" in err


def test_training_leaves_everything_behind(run, trained, tmp_path):
    code, out, err = run(
        "train", *TINY, "max_iterations=2", "eval_every=1", "eval_episodes=2", "video=false", "run_dir=here"
    )
    assert code == 0
    names = {path.name for path in (tmp_path / "here").iterdir()}
    assert {"checkpoint.pt", "config.yaml", "metrics.jsonl", "summary.json", "curves.png"} <= names
    assert not [name for name in names if name.endswith(".part")]
    assert "drawer-close" in out
    assert "run: here" in out
    assert "iteration 1  32 frames" in err
    records = [json.loads(line) for line in (tmp_path / "here" / "metrics.jsonl").read_text().splitlines()]
    assert [record["frames"] for record in records] == [32, 64]
    assert {"success", "success/reach", "success_at_end/reach", "return/reach", "eval/success"} <= records[0].keys()
    summary = json.loads((tmp_path / "here" / "summary.json").read_text())
    assert summary["complete"]
    assert summary["evaluation"]["tasks"].keys() == {"reach", "drawer-close"}
    assert summary["parameters"].keys() == {"actor", "critic"}
    assert min(summary["parameters"].values()) > 0


def test_a_missing_video_is_one_line_and_training_succeeds(run, monkeypatch):
    monkeypatch.setattr("polytask.envs.video.find_spec", lambda name: None)
    code, out, _ = run("train", *TINY, "max_iterations=1", "eval_episodes=0", "run_dir=here")
    assert code == 0
    assert "no video: it needs an extra, pip install 'polytask[video]'" in out.splitlines()


def test_a_missing_figure_is_one_line_and_training_succeeds(run, monkeypatch, tmp_path):
    monkeypatch.setattr("polytask.runs.report.canvas.find_spec", lambda name: None)
    code, out, _ = run("train", *TINY, "max_iterations=1", "eval_episodes=0", "video=false", "run_dir=here")
    assert code == 0
    assert "no figure: it needs an extra, pip install 'polytask[report]'" in out.splitlines()
    assert not (tmp_path / "here" / "curves.png").exists()


def test_the_default_run_directory_names_tasks_and_algorithm(run, tmp_path):
    assert run("train", *TINY, "max_iterations=1", "eval_episodes=0", "video=false")[0] == 0
    (directory,) = (tmp_path / "runs").iterdir()
    assert directory.name.endswith("-2tasks-ppo-mlp-seed0")


def test_max_frames_rounds_up_to_whole_iterations(run):
    words = ["max_frames=33", "eval_episodes=0", "video=false", "run_dir=here", "format=json"]
    assert json.loads(run("train", *TINY, *words)[1])["frames"] == 64


def test_json_is_one_object_on_stdout(run, trained):
    code, out, err = run(
        "train", f"checkpoint={trained}", "max_iterations=3", "run_dir=on", "video=false", "format=json"
    )
    assert code == 0
    assert json.loads(out)["iterations"] == 3
    assert "iteration 3" in err


def test_eval_of_a_checkpoint(run, trained):
    code, out, _ = run("eval", f"checkpoint={trained}", "episodes=3", "format=json")
    result = json.loads(out)
    assert code == 0
    assert result["tasks"].keys() == {"reach", "drawer-close"}
    for one in result["tasks"].values():
        assert one.keys() == {"success", "success_at_end", "return", "interval"}
        assert one["interval"][0] <= one["success"] <= one["interval"][1]
    assert result["mean_success"] == np.mean([one["success"] for one in result["tasks"].values()])
    assert run("eval", f"checkpoint={trained}", "episodes=3", "format=json")[1] == out


def test_eval_of_one_of_the_tasks(run, trained):
    result = json.loads(run("eval", f"checkpoint={trained}", "tasks=[drawer-close]", "episodes=2", "format=json")[1])
    assert list(result["tasks"]) == ["drawer-close"]
    assert "not trained on 'push'" in run("eval", f"checkpoint={trained}", "tasks=[push]", "episodes=2")[2]


def test_the_scripted_policy_beats_the_random_one(run):
    success = {}
    for policy in ("scripted", "random"):
        out = run("eval", f"policy={policy}", "tasks=[reach]", "episodes=4", "episode_length=100", "format=json")[1]
        success[policy] = json.loads(out)["mean_success"]
    assert success == {"scripted": 1.0, "random": 0.0}


def test_eval_prints_a_table(run):
    code, out, _ = run("eval", "policy=random", "tasks=[reach]", "episodes=2", "episode_length=3")
    assert code == 0
    assert "95 % interval" in out
    assert "reach" in out


@pytest.mark.parametrize("what", ["sim", "env", "train"])
def test_bench(run, what):
    words = ["bench", f"what={what}", *TINY, "iterations=2", "warmup=1", "steps=3"]
    code, out, _ = run(*words, "format=json")
    result = json.loads(out)
    assert code == 0
    assert (result["what"], result["sim"], result["num_envs"]) == (what, "cpu", 4)
    assert result["frames"] == 2 * 4 * (8 if what == "train" else 3)
    assert result["frames_per_second"] == pytest.approx(result["frames"] / result["seconds"])
    assert result["peak_memory_mib"] > 50
    assert result.keys() >= {"suite", "device", "version", "commit"}


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [("obs_max", 1e-3, 0), ("obs_max", 1.1e-3, 1), ("reward_max", 0.011, 1), ("success_agreement", 0.998, 1)],
)
def test_verify_fails_beyond_the_tolerances(run, monkeypatch, name, value, code):
    good = Comparison(steps=5, obs_max=0.0, obs_mean=0.0, reward_max=0.0, reward_mean=0.0, success_agreement=1.0)
    found = {"reach": good, "push": replace(good, **{name: value})}
    monkeypatch.setattr(
        "polytask.tools.verify.oracle_files", lambda folder: {**dict.fromkeys(found, folder), "alien": folder}
    )
    monkeypatch.setattr("polytask.tools.verify.compare", lambda task, path: found[task.name])
    assert run("verify", "oracle=x")[0] == code
    result = run("verify", "oracle=x", "format=json")
    assert (result[0], json.loads(result[1])) == (code, {"tasks": {task: asdict(one) for task, one in found.items()}})
    assert run("verify", "oracle=x", "tasks=[reach]")[0] == 0
    assert "no episode of 'door-open'" in run("verify", "oracle=x", "tasks=[door-open]")[2]


def test_report_pools_seeds(run, trained, tmp_path):
    words = ["max_iterations=2", "eval_episodes=2", "video=false", "seed=1"]
    assert run("train", *TINY, *words, "run_dir=other")[0] == 0
    code, out, _ = run("report", f"runs=[{trained},other]", "output=report", "format=json")
    assert code == 0
    ((name, setting),) = json.loads(out)["settings"].items()
    assert name == "reach+drawer-close ppo mlp"
    assert (setting["seeds"], setting["frames"]) == ([0, 1], [64, 64])
    assert setting["tasks"].keys() == {"reach", "drawer-close"}
    files = {path.name for path in (tmp_path / "report").iterdir()}
    assert {"report.md", "report.tex", "report.csv", "tasks.csv", "index.html", "bars.png", "bars.pdf"} <= files
    assert (tmp_path / "report" / "report.md").read_text().splitlines()[4].startswith(f"| {name} | 2 |")


def test_a_checkpoint_without_its_parts_is_refused(run, trained, tmp_path):
    state = load(trained)
    del state["algo"]["learners"]["critic"]
    save(tmp_path / "half.pt", {name: value for name, value in state.items() if name != "format"})
    code, _, err = run("eval", "checkpoint=half.pt", "episodes=1")
    assert code == 2
    assert "its algorithm has another shape" in err


def test_saved_weights_are_what_eval_uses(run, trained, tmp_path):
    state = load(trained)
    for tensor in state["algo"]["learners"]["actor"]["net"].values():
        tensor.copy_(torch.zeros_like(tensor))
    save(tmp_path / "zero.pt", {name: value for name, value in state.items() if name != "format"})
    results = [
        json.loads(run("eval", f"checkpoint={path}", "episodes=1", "format=json")[1])["tasks"]["reach"]["return"]
        for path in (trained, "zero.pt")
    ]
    assert results[0] != results[1]
