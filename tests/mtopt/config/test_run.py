"""The settings of a run: presets, derived paths, and what `--help` needs."""

import subprocess
import sys
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

from polytask.config.compose import compose
from polytask.config.presets import presets
from polytask.mtopt.config import EvaluateConfig, ExportConfig, LabelConfig, RelabelConfig, RunConfig, StatusConfig
from polytask.mtopt.config.network import CameraConfig, NetworkConfig
from polytask.mtopt.runtime.checks import prepared
from polytask.mtopt.tasks import MAIN_TASKS

PRESETS = presets(RunConfig.preset_folder)


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_composes_and_says_what_it_is_for(name):
    config = compose(RunConfig, [f"preset={name}"])
    assert isinstance(config, RunConfig)
    prepared(config)
    assert PRESETS[name].endswith(".")


def test_presets_exist():
    assert {"tiny", "small", "gpu"} <= set(PRESETS)


def test_paths_lie_in_the_folder_of_the_run():
    config = RunConfig(run_dir="~/bins")
    assert config.root == Path.home() / "bins"
    assert (config.weights, config.detectors) == (config.root / "weights", config.root / "detectors")
    assert config.learned == MAIN_TASKS
    assert RunConfig(tasks=["lift-any"]).learned == ("lift-any",)


def test_help_needs_no_torch():
    code = "import sys, polytask.mtopt.config; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def undocumented(config, prefix=""):
    """List the settings without a line of help, also of the configs inside."""
    found = []
    for each in fields(config):
        value = getattr(config, each.name)
        found += [] if each.metadata.get("about") else [f"{prefix}{each.name}"]
        found += undocumented(value, f"{prefix}{each.name}.") if is_dataclass(value) else []
    return found


@pytest.mark.parametrize("schema", [RunConfig, LabelConfig, EvaluateConfig, ExportConfig, RelabelConfig, StatusConfig])
def test_every_setting_has_a_line_of_help(schema):
    assert undocumented(schema()) == []


def test_a_camera_in_a_file_is_a_dictionary():
    assert NetworkConfig("small", camera={"reach": 0.2}).camera == CameraConfig(reach=0.2)
