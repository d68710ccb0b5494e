"""Compare control steps per second with Meta-World's vector environment, on the same cores in the same run.

Meta-World runs as its users run it, `gymnasium.make_vec("Meta-World/MT10", vector_strategy="async")`, with one process
per task. Our side is `polytask bench what=env suite=mt10 sim=cpu num_envs=64`. The rounds of the two sides alternate,
so that a change of the machine's speed affects both. The result of each side is the median over its rounds.

    python benchmarks/metaworld_speed.py --out benchmarks/results/metaworld_speed_cpu.json
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from typing import Any

from peer import add_arguments, peer_python, start_worker
from publish import origin, publish

TARGET = 5.0  # wanted ratio of our speed to the peer's


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", choices=("mt10", "mt50"), default="mt10", help="task suite")
    parser.add_argument("--num-envs", type=int, default=64, help="number of our worlds; Meta-World has one per task")
    parser.add_argument("--rounds", type=int, default=3, help="alternating measurements of each side")
    parser.add_argument("--steps", type=int, default=400, help="control steps of each environment in a round")
    add_arguments(parser)
    return parser.parse_args()


def measure_ours(options: argparse.Namespace) -> dict[str, Any]:
    """Run our benchmark command in a separate process."""
    words = ["what=env", f"suite={options.suite}", "sim=cpu", f"num_envs={options.num_envs}", "format=json"]
    words += ["warmup=1", "iterations=10", f"steps={max(options.steps // 10, 1)}"]
    command = [sys.executable, "-m", "polytask", "bench", *words]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def main() -> None:
    """Measure the two sides in turn and publish the result."""
    options = parse()
    load = os.getloadavg()[0]  # a load favours the peer: its ten processes get a larger share of the cores than our one
    worker = start_worker(peer_python(options.peer_python))
    versions = worker.ask({"ask": "versions"})
    question = {"ask": "speed", "name": f"Meta-World/{options.suite.upper()}"}
    num_envs = worker.ask({**question, "steps": 10})["num_envs"]  # starts and warms up the processes
    ours, theirs = [], []
    for _ in range(options.rounds):
        answer = worker.ask({**question, "steps": options.steps})
        theirs.append(answer["frames"] / answer["seconds"])
        ours.append(measure_ours(options)["frames_per_second"])
        print(f"ours {ours[-1]:,.0f}/s  peer {theirs[-1]:,.0f}/s", file=sys.stderr, flush=True)
    worker.close()
    fast, slow = statistics.median(ours), statistics.median(theirs)
    result = {
        "what": "control steps per second over all worlds, random actions",
        **origin(),
        "peer": versions,
        "load_average_before": round(load, 2),
        "suite": options.suite,
        "num_envs": {"ours": options.num_envs, "peer": num_envs},
        "frames_per_second": {"ours": round(fast), "peer": round(slow)},
        "rounds": {"ours": [round(each) for each in ours], "peer": [round(each) for each in theirs]},
        "ratio": round(fast / slow, 2),
        "target": TARGET,
    }
    publish(result, options.out)


if __name__ == "__main__":
    main()
