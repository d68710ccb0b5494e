"""Read a data set with LeRobot's own loader, which may be installed for another interpreter only.

`LEROBOT_PYTHON` names that interpreter; by default it is the one that runs the tests. LeRobot 0.4 does not allow the
torch of this project, hence the second environment.
"""

import json
import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

SCRIPT = """
import json, sys
from lerobot.datasets.lerobot_dataset import LeRobotDataset
data = LeRobotDataset("local/test", root=sys.argv[1])
rows = [data[index] for index in range(len(data))]
ahead = LeRobotDataset("local/test", root=sys.argv[1], delta_timestamps={"action": [0.0, 1 / data.fps]}, episodes=[1])
print(json.dumps({
    "version": data.meta.info["codebase_version"],
    "episodes": data.num_episodes,
    "tasks": [row["task"] for row in rows],
    "shapes": {name: list(value.shape) for name, value in rows[0].items() if hasattr(value, "shape")},
    "action": [row["action"].tolist() for row in rows],
    "cameras": sorted(data.meta.camera_keys),
    "brightness": [[float(row[name].mean()) for name in sorted(data.meta.camera_keys)] for row in rows],
    "stats": sorted(data.meta.stats),
    "chunk": list(ahead[0]["action"].shape),
}))
"""


def read(root):
    """Read a data set, or skip the test if there is no LeRobot."""
    python = os.environ.get("LEROBOT_PYTHON") or sys.executable
    if python == sys.executable and find_spec("lerobot") is None:
        pytest.skip("LeRobot is not installed, and LEROBOT_PYTHON names no interpreter that has it")
    settings = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": ""}
    command = [python, "-c", SCRIPT, str(root)]
    done = subprocess.run(command, env=settings, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)
