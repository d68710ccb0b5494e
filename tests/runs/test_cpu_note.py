"""A run on the CPU with a batch for GPUs is told which preset is meant for CPUs."""

import pytest
import torch

from polytask.algos.shared.off_policy import OffPolicyConfig
from polytask.cli.main import main
from polytask.config.compose import compose
from polytask.config.groups import GROUPS
from polytask.config.presets import presets
from polytask.config.schema import TrainConfig
from polytask.runs.cpu_note import cpu_note

CPU = torch.device("cpu")


def note_of(*words, device=CPU):
    return cpu_note(compose(TrainConfig, list(words)), device)


@pytest.mark.parametrize(("algo", "batch"), [("sac", 8192), ("fast_td3", 32768)])
def test_the_default_batch_on_a_cpu_names_the_preset(algo, batch):
    line = note_of(f"algo={algo}", "tasks=[reach]", "num_envs=8")
    assert line is not None
    assert line.startswith(f"algo.batch={batch}, the default of {algo}, is meant for a GPU")
    assert f"preset={algo}_cpu" in line
    assert note_of(f"preset={algo}_cpu", "tasks=[reach]", "num_envs=8") is None, "what it names is the way out"


def test_every_off_policy_algorithm_has_a_preset_for_cpus():
    names = {name for name, config in GROUPS["algo"].items() if issubclass(config, OffPolicyConfig)}
    assert names >= {"sac", "fast_td3"}
    assert {f"{name}_cpu" for name in names} <= set(presets())


@pytest.mark.parametrize(
    "words", [["algo=sac", "algo.batch=256"], ["algo=ppo"], ["algo=pqn"], ["preset=sac_mt10_classic"]]
)
def test_other_runs_have_no_note(words):
    assert note_of(*words) is None


def test_a_gpu_has_no_note():
    assert note_of("algo=sac", device=torch.device("cuda")) is None


def test_train_prints_the_note_once_and_not_again_when_it_continues(capsys, tmp_path):
    words = ["tasks=[reach]", "num_envs=2", "net.hidden=[4]", "eval_episodes=0", "video=false", "threads=1"]
    words += [
        "algo=sac",
        "algo.steps_per_iteration=1",
        "algo.capacity=100",
        "episode_length=5",
        f"run_dir={tmp_path}/run",
    ]
    assert main(["train", *words, "max_iterations=1"]) == 0
    assert capsys.readouterr().err.count("preset=sac_cpu") == 1
    assert main(["train", f"checkpoint={tmp_path}/run", "max_iterations=2"]) == 0
    assert "preset=sac_cpu" not in capsys.readouterr().err
    assert main(["train", *words[:-1], "algo.batch=8", f"run_dir={tmp_path}/small", "max_iterations=1"]) == 0
    assert "preset=sac_cpu" not in capsys.readouterr().err
