"""Train a policy from Python, then read what the run left behind.

python examples/train.py [key=value ...]     takes the same words as `polytask train`
"""

import json
import sys
from pathlib import Path

from polytask.config.compose import compose
from polytask.config.schema import TrainConfig
from polytask.runs.train import train

config = compose(TrainConfig, ["preset=cpu_demo", "video=false", *sys.argv[1:]])
result = train(config)

run = Path(result.payload["run_dir"])
rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
print(f"{len(rows)} iterations, {rows[-1]['frames']:,} frames, files in {run}:")
print("  " + ", ".join(sorted(path.name for path in run.iterdir())))
for task, one in result.payload["evaluation"]["tasks"].items():
    print(f"{task:16} success {one['success']:.2f} in noiseless episodes")
