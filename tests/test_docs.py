"""The Python code in README and docs runs."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from helpers.scripts import load_script

import polytask
from polytask.cli.main import main
from polytask.envs.manipulation.tasks import TASKS as MANIPULATION
from polytask.envs.scripted import ScriptedPolicy
from polytask.envs.tasks import TASKS
from polytask.grads import Backward
from polytask.nets.layers import NetShape

ROOT = Path(__file__).parents[1]
CPU = torch.device("cpu")


def blocks(page: str) -> list[str]:
    """Return the Python blocks of a page."""
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


def run(code: str) -> dict[str, Any]:
    """Run a block as a separate module, which dataclasses need, and return its names."""
    module = ModuleType("snippet")
    sys.modules["snippet"] = module
    exec(compile(code, "snippet", "exec"), module.__dict__)
    return vars(module)


def test_readme_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    run(blocks("README.md")[0])
    assert "reach" in capsys.readouterr().out


def test_gymnasium_example_of_the_docs_runs(capsys: pytest.CaptureFixture[str]) -> None:
    run(blocks("docs/adapters.md")[0])
    assert capsys.readouterr().out.startswith("[0 0 0 0 1 1 1 1")


def test_gradient_method_of_the_docs_weighs_by_inverse_length() -> None:
    names = run(blocks("docs/extending.md")[0])
    method = names["InverseNorm"](names["InverseNormConfig"](), 2, CPU, torch.Generator())
    gram = torch.tensor([[4.0, 0.0], [0.0, 1.0]])
    torch.testing.assert_close(method.weights(torch.ones(2), gram), torch.tensor([1 / 3, 2 / 3]))
    net = torch.nn.Linear(3, 1)
    backward = Backward(method, net, lambda net, batch: net(batch[0]).squeeze(-1).square())
    backward((torch.randn(2, 5, 3),))
    assert net.weight.grad is not None


def test_training_history_of_the_docs_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["tasks=[reach,push]", "num_envs=2", "episode_length=6", "stagger=false", "net.hidden=[16]", "threads=1"]
    words += ["algo.horizon=32", "algo.minibatch=32", "max_iterations=1", "eval_episodes=0", "history.worlds=1"]
    assert main(["train", *words, "run_dir=runs/history"]) == 0
    capsys.readouterr()
    names = run(blocks("docs/collect.md")[1])
    assert re.findall(r"^(\w+) \[(?:\d+, ){4}\d+\]$", capsys.readouterr().out, re.MULTILINE) == ["reach", "push"]
    assert names["window"].obs.shape == (24, 39)


def test_network_of_the_docs_tells_tasks_apart() -> None:
    names = run(blocks("docs/extending.md")[1])
    net = names["Gated"](names["GatedConfig"](), NetShape(7, 4, 3), torch.Generator().manual_seed(0))
    x = torch.randn(1, 7).expand(3, -1)
    out = net(x, torch.arange(3))
    assert out.shape == (3, 4)
    assert not torch.equal(out[0], out[1])


def test_task_of_the_docs_is_solved_by_its_expert(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TASKS, "lift", run(blocks("docs/extending.md")[2])["TASK"])
    env = polytask.make(tasks=["lift"], num_envs=8, threads=1, stagger=False)
    policy = ScriptedPolicy(env)
    for _ in range(150):
        env.step(policy(env.obs, env.task))
    assert env.pop_metrics()["success"].item() >= 7


def test_stages_of_the_docs_are_those_of_the_tasks() -> None:
    _, _, table = (ROOT / "docs/shaped_reward.md").read_text().partition("## Stages of each task")
    rows = re.findall(r"^\| ([a-z-]+) \| (.+) \|$", table, re.MULTILINE)
    expected = {name: " → ".join(task.shaped.words) for name, task in MANIPULATION.items() if task.shaped is not None}
    assert {name: words for name, words in rows if name != "task"} == expected


def test_pages_link_to_existing_files() -> None:
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")]:
        for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}"


def test_the_page_of_mt50s_tasks_has_the_numbers_of_the_raw_files() -> None:
    script = load_script("write_mt50_tasks")
    assert script.PAGE.read_text() == script.page(), "run python tools/write_mt50_tasks.py"
    cells = ["stick-pull", "0.93", "0.00", "0.00", "0.31", "[0.00, 1.00]", "0.33", "0.32, 0.32", "0.00", "0.00"]
    assert f"| {' | '.join(cells)} |" in script.rows()
