"""A run of MT-Opt as one JSON file."""

import importlib.util
import json
from pathlib import Path

import pytest
from helpers.tiny_run import tiny

from polytask.errors import UserError
from polytask.mtopt.runtime.local import LocalRuntime

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "mtopt" / "run_json.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("mtopt_run_json", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    pytest.importorskip("fastapi")  # the stand-in labels through the page
    root = tmp_path_factory.mktemp("json") / "bins"
    runtime = LocalRuntime(tiny(root), lambda line: None)
    evaluation = runtime.run()
    runtime.close()
    return root, evaluation


def test_the_file_has_what_a_published_number_must_name(script, run, tmp_path):
    root, evaluation = run
    out = tmp_path / "results" / "run.json"
    words = [str(root), "--command", "polytask mtopt run", "--commit", "abc", "--note", "alone", "--out", str(out)]
    script.main(words)
    found = json.loads(out.read_text(encoding="utf-8"))
    head = {key: found[key] for key in ("name", "command", "commit", "note", "complete")}
    assert head == {
        "name": "mtopt run",
        "command": "polytask mtopt run",
        "commit": "abc",
        "note": "alone",
        "complete": True,
    }
    assert found["device"] and found["torch"] and found["settings"]["trainer"]["updates"] == 4
    assert "run_dir" not in found["settings"] and str(root) not in out.read_text(encoding="utf-8")
    assert [job["kind"] for job in found["jobs"]][:2] == ["collect", "collect"]
    assert {job["kind"] for job in found["jobs"]} == {"collect", "label", "detector", "grade"}
    assert [row["updates"] for row in found["training"]] == [2, 4, 6], "four updates, then two of the round"
    assert [row["round"] for row in found["rounds"]] == [0, 1]
    rows = {row["task"]: row["success"] for row in found["evaluation"]["tasks"]}
    assert rows == {row.task: pytest.approx(row.success, rel=1e-3) for row in evaluation.tasks}
    assert found["seconds"] > 0


def test_a_run_from_a_gpu_is_described_on_a_machine_without_one_and_without_its_episodes(script, run, tmp_path):
    for name in ("run.json", "tasks.json", "metrics.jsonl"):
        (tmp_path / name).write_bytes((run[0] / name).read_bytes())
    state = json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))
    state["config"]["device"] = "cuda:7"  # neither this machine nor a test machine with a GPU has it
    (tmp_path / "run.json").write_text(json.dumps(state), encoding="utf-8")
    words = [str(tmp_path), "--command", "a", "--commit", "abc", "--device", "NVIDIA H200", "--out"]
    found = script.main([*words, str(tmp_path / "out.json")])
    assert (found["device"], found["commit"], found["torch"]) == ("NVIDIA H200", "abc", None)
    assert found["complete"] and len(found["rounds"]) == 2


def test_a_stopped_run_is_not_complete(script, tmp_path):
    pytest.importorskip("fastapi")
    runtime = LocalRuntime(tiny(tmp_path / "bins"), lambda line: None)
    runtime.run(stops=[15])
    runtime.close()
    found = script.described(tmp_path / "bins")
    assert not found["complete"] and found["evaluation"] is None and len(found["jobs"]) <= 1


def test_another_folder_is_refused(script, tmp_path):
    with pytest.raises(UserError):
        script.described(tmp_path)
