"""Measure how fast one process with all cores trains, and as many ranks as cores with one thread each.

    python benchmarks/ranks_speed.py --out benchmarks/results/cpu_ranks_speed.json suite=mt10 num_envs=160

The words after the options go to `polytask train`. The speed of a run is the median over its iterations; the first two
are left out, because they include the start.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from publish import origin, publish

COMMON = ("max_frames=null", "eval_episodes=0", "video=false", "save_every=0")


def speed(words: list[str], ranks: int, cores: int, iterations: int) -> float:
    """Train for some iterations with this many ranks, and return the frames per second."""
    with tempfile.TemporaryDirectory() as folder:
        launcher = ["-m", "torch.distributed.run", f"--nproc-per-node={ranks}"] if ranks > 1 else []
        own = [f"threads={cores // ranks}", f"max_iterations={iterations}", f"run_dir={folder}/run"]
        command = [sys.executable, *launcher, "-m", "polytask", "train", *COMMON, *own, *words]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        rows = [json.loads(line) for line in Path(folder, "run", "metrics.jsonl").read_text().splitlines()]
    return statistics.median(row["frames_per_second"] for row in rows[2:])


def main() -> None:
    """Measure both, several times in turn, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--iterations", type=int, default=12)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("words", nargs="*", default=["suite=mt10", "num_envs=160"])
    options = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    runs: dict[int, list[float]] = {1: [], cores: []}
    for _ in range(options.repeats):
        for ranks, speeds in runs.items():
            speeds.append(speed(options.words, ranks, cores, options.iterations))
            print(f"{ranks} rank(s), {cores // ranks} thread(s) each: {speeds[-1]:,.0f} frames/s", flush=True)
    result = {
        "what": "frames per second of training: one process with all cores, and one rank per core",
        **origin(),
        "words": options.words,
        "cores": cores,
        "iterations": options.iterations,
        "frames_per_second": {str(ranks): speeds for ranks, speeds in runs.items()},
        "median": {str(ranks): statistics.median(speeds) for ranks, speeds in runs.items()},
    }
    publish(result, options.out)


if __name__ == "__main__":
    main()
