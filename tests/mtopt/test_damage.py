"""Every file of a run, damaged in every way: a command answers in one line, and a checksum notices every change."""

import json
import math
import re
import shutil
from pathlib import Path

import pytest
import torch

from polytask.files import save_tensors


def empty(path):
    path.write_bytes(b"")


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def not_utf8(path):
    path.write_bytes(b"\xff\xfe\x80" * 100)


def folder(path):
    path.unlink()
    path.mkdir()


def files_of(root):
    """List the files of a run, one of each kind: names that differ only in a number are of one kind."""
    names = sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
    return list({re.sub(r"\d+", "N", name): name for name in names if not name.endswith("lock")}.values())


@pytest.mark.parametrize("damage", [empty, cut, not_utf8, folder])
def test_a_damaged_file_is_answered_in_one_line(call, finished_run, tmp_path, damage):
    for number, name in enumerate(files_of(finished_run)):
        root = Path(shutil.copytree(finished_run, tmp_path / str(number)))
        damage(root / name)
        code, _, err = call("mtopt", "check", f"run_dir={root}")
        assert code in (0, 1), (name, err)
        code, _, err = call("mtopt", "status", f"run_dir={root}")
        assert code in (0, 2), (name, err)
        assert code == 0 or err.splitlines()[-1].startswith("polytask: "), (name, err)


def test_a_flipped_byte_in_shards_and_tensors_is_noticed(call, run_copy):
    for name in files_of(run_copy):
        whole = (run_copy / name).read_bytes()
        for place in (100, len(whole) // 2, len(whole) - 1500) if name.endswith((".pt", ".tar")) else ():
            content = bytearray(whole)
            content[place] ^= 0x04
            (run_copy / name).write_bytes(content)
            assert call("mtopt", "check", f"run_dir={run_copy}")[0] == 1, (name, place)
        (run_copy / name).write_bytes(whole)


def spoil(value):
    """Write NaN into the first tensor of floats inside a value; return whether there is one."""
    if isinstance(value, torch.Tensor):
        if value.is_floating_point() and value.numel():
            value.view(-1)[0] = math.nan
            return True
        return False
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return any(spoil(part) for part in parts)


def test_weights_that_are_not_finite_are_noticed_although_the_checksum_is_right(call, run_copy):
    names = [name for name in files_of(run_copy) if name.endswith(".pt")]
    assert len(names) >= 3  # the learner, its published weights, the detector
    for name in names:
        path = run_copy / name
        whole, state = path.read_bytes(), torch.load(path, weights_only=True)
        assert spoil(state)
        save_tensors(path, state)
        code, out, _ = call("mtopt", "check", f"run_dir={run_copy}")
        assert (code, "non-finite" in out) == (1, True), (name, out)
        path.write_bytes(whole)


def fields(value, path=()):
    """List the paths to all fields of the tables in a value, without those of the settings."""
    parts = value.items() if isinstance(value, dict) and path != ("config",) else ()
    return [place for name, part in parts for place in ((*path, name), *fields(part, (*path, name)))]


def test_every_field_of_the_state_is_named_when_it_is_missing_or_of_another_type(call, run_copy):
    path = run_copy / "run.json"
    whole = path.read_text()
    for place in fields(json.loads(whole)):
        for wrong in ([], "text", "REMOVED"):
            state = json.loads(whole)
            parent = state
            for name in place[:-1]:
                parent = parent[name]
            if wrong == "REMOVED":
                del parent[place[-1]]
            else:
                parent[place[-1]] = wrong
            path.write_text(json.dumps(state))
            code, _, err = call("mtopt", "status", f"run_dir={run_copy}")
            assert code in (0, 2), (place, wrong)
            assert code == 0 or (err.count("\n") == 1 and "run.json' " in err), (place, wrong, err)
            if code == 0:
                assert isinstance(wrong, str) or place[0] in ("evaluation", "config", "controller"), (place, wrong)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"x" * 5000, b"../../run-1", b"missing/run-1", b"", b"run-9"])
def test_a_name_of_the_detector_in_use_that_cannot_be_right_is_one_line(call, run_copy, content):
    (run_copy / "detectors" / "in_use").write_bytes(content)
    for words in (("status",), ("train", "trainer.updates=1")):
        code, out, err = call("mtopt", words[0], f"run_dir={run_copy}", *words[1:])
        assert (code, out, err.count("\n")) == (2, "", 1), (words, err)
        assert "in_use" in err or "run-9 is in use" in err
