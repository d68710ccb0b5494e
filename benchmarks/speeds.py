"""Measure the speed of several environments and learners on one GPU: they start together, and are timed one at a time.

Most of a short measurement is its start: kernels are loaded, graphs captured, updates compiled. So several cases start
at once, each in a process of its own, and wait for each other. Then one after the other is timed while the rest wait.
`--at-once` cases hold their memory at the same time; thirteen did not fit into 140 GB.

    python benchmarks/speeds.py --out benchmarks/results/h200_speeds.json
    python benchmarks/speeds.py --cases mt10_mlp mt10_moore --set device=cuda
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from publish import origin, publish
from turns import mark_ready, turn

from polytask.config.compose import compose
from polytask.config.schema import BenchConfig
from polytask.tools.bench import bench

TRAIN = ("what=train", "warmup=2", "iterations=5")
# The preset mt50_gpu of 0.2.0, with which the published figures were timed.
MT50 = ("preset=mt10_gpu", "suite=mt50", "num_envs=24576", "algo.search_entropy_coef=0.03", "algo.solved_weight=0.1")
FAST_TD3 = ("preset=mtbench/mt10_rand/fast_td3_simba_v2", "robot=sawyer", "algo.bf16=true")
CASES: dict[str, tuple[str, ...]] = {
    "mt10_env": ("what=env", "suite=mt10", "num_envs=24576"),
    "mt50_env": ("what=env", "suite=mt50", "num_envs=24576"),
    "mt50_env_scripted": ("what=env", "suite=mt50", "num_envs=24576", "policy=scripted", "iterations=4"),
    "mt50_env_49152": ("what=env", "suite=mt50", "num_envs=49152"),
    "mt10_mlp": (*TRAIN, "preset=mt10_mlp_gpu"),
    "mt10_simba_v2": (*TRAIN, "preset=mt10_gpu", "num_envs=24576"),
    "mt10_moore": (*TRAIN, "preset=mt10_mlp_gpu", "net=moore", "net.heads=multi"),
    "mt10_moore_bf16": (*TRAIN, "preset=mt10_mlp_gpu", "net=moore", "net.heads=multi", "algo.bf16=true"),
    "mt50_simba_v2": (*TRAIN, *MT50),
    "mt50_simba_v2_49152": (*TRAIN, *MT50, "num_envs=49152", "algo.minibatch=65536"),
    "mt10_sac": (*TRAIN, "preset=sac_mt10_gpu"),
    "mt10_sac_overlap": (*TRAIN, "preset=sac_mt10_gpu", "algo.overlap=true"),
    "mt10_fast_td3": (*TRAIN, *FAST_TD3, "iterations=2"),
    "mt10_fast_td3_overlap": (*TRAIN, *FAST_TD3, "iterations=2", "algo.overlap=true"),
}


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES), help="what to measure")
    parser.add_argument("--set", nargs="*", default=["device=cuda"], help="more settings of every case, as key=value")
    parser.add_argument("--at-once", type=int, default=5, help="cases that start together")
    parser.add_argument("--out", type=Path, help="also write the JSON to this file")
    parser.add_argument("--one", choices=list(CASES), help=argparse.SUPPRESS)  # a child measures one case
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)  # where the children meet
    return parser.parse_args()


def device_of(cases: list[str], words: list[str]) -> str:
    """Return the device that is timed; it is that of all cases, or of the first if some name another."""
    return str(compose(BenchConfig, [*CASES[cases[0]], *words]).device)


def measure(case: str, words: list[str], folder: Path, total: int) -> None:
    """Measure one case and write its result."""
    try:
        config = compose(BenchConfig, [*CASES[case], *words])
        result = bench(config, alone=lambda: turn(folder, case, total))
    finally:
        mark_ready(folder, case)  # the others do not wait for a case that failed
    (folder / f"{case}.json").write_text(json.dumps(result.payload))


def measure_together(cases: list[str], words: list[str]) -> dict[str, Any]:
    """Start some cases and return their results."""
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        children = {}
        for case in cases:
            command = [sys.executable, __file__, "--one", case, "--folder", name, "--cases", *cases, "--set", *words]
            children[case] = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        for case, child in children.items():
            child.wait()
            path = Path(name) / f"{case}.json"
            results[case] = json.loads(path.read_text()) if path.is_file() else {"failed": child.returncode}
            results[case]["words"] = " ".join(CASES[case])
    return results


def main() -> None:
    """Measure all cases and publish their results."""
    options = parse()
    if options.one is not None:
        measure(options.one, options.set, options.folder, len(options.cases))
        return
    results: dict[str, Any] = {}
    for first in range(0, len(options.cases), options.at_once):
        results |= measure_together(options.cases[first : first + options.at_once], options.set)
    what = "frames per second; cases start together and are timed alone"
    publish({"what": what, **origin(device_of(options.cases, options.set)), "tasks": results}, options.out)


if __name__ == "__main__":
    main()
