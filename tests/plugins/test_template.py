"""The template of a plug-in is installed as a package of its own, found by polytask and used by its commands."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TEMPLATE = Path(__file__).parents[2] / "examples" / "plugin"
TINY = ["num_envs=4", "episode_length=12", "algo.horizon=8", "algo.minibatch=16", "threads=1", "max_iterations=1"]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Install the template into a folder and return the folder."""
    copy = tmp_path_factory.mktemp("copy") / "plugin"
    shutil.copytree(TEMPLATE, copy)  # a build writes into its source
    target = tmp_path_factory.mktemp("site")
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check", "-q"]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(target), str(copy)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return target


def run(folder: Path, *words: str, site: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command of polytask in a folder, with or without the installed plug-in."""
    paths = [str(site)] if site else []
    paths += [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-m", "polytask", *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def test_an_installed_plug_in_is_used_and_missed(installed, tmp_path):
    help_text = run(tmp_path, "train", "--help", "net=gated", "grads=inverse_norm", site=installed).stdout
    assert "net=gated: Settings." in help_text
    assert "net.width" in help_text
    assert "grads.eps" in help_text

    (plugin,) = json.loads(run(tmp_path, "list", "plugins", "format=json", site=installed).stdout)["plugins"]
    assert plugin == {"name": "polytask_hover", "adds": "net gated, task hover, suite hover-reach, grads inverse_norm"}

    words = ["suite=hover-reach", "net=gated", "net.width=16", "grads=inverse_norm", "grads.apply_to=both"]
    done = run(tmp_path, "train", *words, *TINY, "eval_episodes=1", "video=false", "run_dir=run", site=installed)
    assert done.returncode == 0, done.stderr
    done = run(tmp_path, "eval", "checkpoint=run", "episodes=1", "format=json", site=installed)
    assert json.loads(done.stdout)["tasks"].keys() == {"hover", "reach"}

    missing = run(tmp_path, "eval", "checkpoint=run")
    assert (missing.returncode, missing.stderr.count("\n")) == (2, 1)
    assert "needs the net 'gated' of the plug-in 'polytask_hover', which is not loaded" in missing.stderr
    assert "add plugins=[polytask_hover]" in missing.stderr


def test_the_expert_of_the_template_solves_its_task(installed, tmp_path):
    words = ["policy=scripted", "tasks=[hover]", "episodes=4", "threads=1", "format=json"]
    done = run(tmp_path, "eval", *words, site=installed)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["mean_success"] == 1.0
