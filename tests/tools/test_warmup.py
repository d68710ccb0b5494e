"""`polytask warmup`: what it says, and what it does on the CPU."""

from __future__ import annotations

import json

import pytest

from polytask.cli.main import main
from polytask.envs.warmup import Compilation
from polytask.tools import warmup


def test_the_cpu_backend_has_nothing_to_compile(capsys: pytest.CaptureFixture) -> None:
    assert main(["warmup", "suite=mt10"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("nothing to compile: sim=cpu")
    assert out.count("\n") == 1


def test_the_result_is_one_line_or_one_object(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    asked = []

    def compile_kernels(config: object) -> Compilation:
        asked.append(config)
        return Compilation(2, 43, 40, 16, 31.4, (("wp_smooth", 12.5),))

    monkeypatch.setattr(warmup, "compile_kernels", compile_kernels)
    words = ["warmup", "tasks=[reach,drawer-open]", "sim=warp", "robot=panda", "sim.iterations=5"]
    assert main(words) == 0
    assert capsys.readouterr().out == "compiled 40 of 43 modules for 2 batches in 31 s, with 16 processes\n"
    assert main([*words, "format=json"]) == 0
    payload = json.loads(capsys.readouterr().out)
    assert (payload["sim"], payload["compiled"], payload["slowest"]) == ("warp", 40, [["wp_smooth", 12.5]])
    assert [(config.robot.file, config.sim_config.iterations) for config in asked] == [("panda.xml", 5)] * 2


@pytest.mark.parametrize(
    ("done", "line"),
    [
        (Compilation(0, 0, 0, 0, 0.1), "nothing to compile: the cache has the kernels of every batch"),
        (Compilation(3, 43, 0, 16, 9.0), "nothing to compile: the cache has all 43 modules (9 s to look)"),
        (Compilation(1, 43, 1, 1, 9.0), "compiled 1 of 43 modules for 1 batch in 9 s, with 1 process"),
    ],
)
def test_the_line_tells_why_nothing_was_compiled(done: Compilation, line: str) -> None:
    assert warmup.summary(done) == line


def test_without_warp_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    def missing(config: object) -> Compilation:
        raise ImportError("no mujoco_warp")

    monkeypatch.setattr(warmup, "compile_kernels", missing)
    assert main(["warmup", "tasks=[reach]", "sim=warp"]) == 2
    assert "pip install 'polytask[gpu]'" in capsys.readouterr().err
