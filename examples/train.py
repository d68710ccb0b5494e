"""Train a policy from Python, then read what the run left behind.

python examples/train.py [key=value ...]     takes words of `polytask train`
"""

import sys

from polytask import TrainedRun
from polytask.config.compose import compose
from polytask.config.schema import TrainConfig
from polytask.runs.train import train

# With keywords instead of words: run = polytask.train(preset="cpu_demo", video=False)
result = train(compose(TrainConfig, ["preset=cpu_demo", "video=false", *sys.argv[1:]]))
run = TrainedRun(result.payload["run_dir"])

rows = run.metrics()
print(f"{len(rows)} iterations, {rows[-1]['frames']:,} frames, files in {run.directory}:")
print("  " + ", ".join(sorted(path.name for path in run.directory.iterdir())))
for task, one in run.summary["evaluation"]["tasks"].items():
    print(f"{task:16} success {one['success']:.2f} in noiseless episodes")
