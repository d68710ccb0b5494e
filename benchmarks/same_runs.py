"""Show that a change is neutral: seeded CPU runs of two source trees give the same bits.

python benchmarks/same_runs.py OLD_TREE NEW_TREE --work FOLDER --out benchmarks/results/same_runs.json

Each tree needs its own .venv (`make install`). The runs cover the five algorithms, all networks and gradient methods,
both domains, both arms, `init_from`, and with `--mtopt` MT-Opt's preset tiny. The commands use the words of
version 0.1, which later versions still accept.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

NETS = ("mlp", "multihead", "independent", "soft_modular", "care", "paco", "moore", "ptsl", "simba_v2", "bro", "film")
GRADS = ("mean", "pcgrad", "cagrad", "famo", "mgda", "upgrad", "imtl_g", "aligned_mtl", "nash_mtl", "uncertainty")
COMMON = "video=false eval_episodes=2 save_every=0"
SMALL = "tasks=[reach,push] num_envs=8 algo.horizon=16 algo.minibatch=64 max_iterations=3"
OFF_POLICY = "tasks=[reach,push] num_envs=8 algo.batch=64 max_iterations=3"
PARKOUR = "suite=parkour-hard-cl num_envs=42 episode_length=40 algo.horizon=16 algo.minibatch=128 max_iterations=3"
RUNS = {
    "ppo": "experiment=cpu_demo max_iterations=6",
    "grpo": "experiment=grpo_cpu max_iterations=3",
    "pqn": "experiment=pqn_cpu max_iterations=4",
    "sac": "experiment=sac_cpu max_iterations=10",
    "fast_td3": "experiment=fast_td3_cpu max_iterations=10",
    "parkour_flat": "experiment=parkour/flat_cpu episode_length=60 max_iterations=3",
    "parkour_curriculum": PARKOUR,
    "panda": "suite=mt10 robot=panda num_envs=10 algo.horizon=16 algo.minibatch=80 max_iterations=2",
    **{f"net_{name}": f"{SMALL} net={name}" for name in NETS},
    **{f"grads_{name}": f"{SMALL} grads={name} grads.conflicts_every=2" for name in GRADS},
    "sac_care": f"{OFF_POLICY} algo=sac net=care",
    "sac_ptsl_pcgrad": f"{OFF_POLICY} algo=sac net=ptsl grads=pcgrad",
    "fast_td3_simba_v2": f"{OFF_POLICY} algo=fast_td3 net=simba_v2 critic_net=bro",
    "init_from": "init_from=ppo suite=mt10 num_envs=20 algo.horizon=16 algo.minibatch=80 max_iterations=2",
}
# What may differ: clocks, places, versions, and texts for people.
SKIPPED = ("seconds", "frames_per_second", "config", "run_dir", "version", "commit", "remark", "checkpoint")


def run(tree: Path, folder: Path, words: list[str]) -> None:
    """Run a command of a tree's polytask in a folder."""
    done = subprocess.run([tree / ".venv/bin/polytask", *words], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{tree}: polytask {' '.join(words)} failed:\n{done.stderr}")


def differences(old: Any, new: Any, path: str) -> Iterator[str]:
    """Name the places where two nested values differ in any bit."""
    if isinstance(old, torch.Tensor) and isinstance(new, torch.Tensor):
        is_same = old.shape == new.shape and old.dtype == new.dtype
        if not is_same or old.numpy().tobytes() != new.numpy().tobytes():
            yield path
    elif isinstance(old, dict) and isinstance(new, dict):
        yield from (f"{path}.{name}" for name in old.keys() ^ new.keys())
        for name in old.keys() & new.keys() - set(SKIPPED):
            yield from differences(old[name], new[name], f"{path}.{name}")
    elif isinstance(old, list | tuple) and isinstance(new, list | tuple) and len(old) == len(new):
        for index, (a, b) in enumerate(zip(old, new, strict=True)):
            yield from differences(a, b, f"{path}[{index}]")
    elif old != new:
        yield path


def content(folder: Path) -> dict[str, Any]:
    """Read what a run left behind: tensors, rows of metrics and the summary."""
    found: dict[str, Any] = {}
    for file in sorted(folder.rglob("*.pt")):
        found[str(file.relative_to(folder))] = torch.load(file, map_location="cpu", weights_only=True)
    for name in ("metrics.jsonl", "summary.json"):
        if (folder / name).is_file():
            text = (folder / name).read_text()
            found[name] = [json.loads(line) for line in text.splitlines()] if name.endswith("l") else json.loads(text)
    return found


def count(value: Any) -> int:
    """Count the tensors inside a value."""
    if isinstance(value, dict | list | tuple):
        return sum(map(count, value.values() if isinstance(value, dict) else value))
    return int(isinstance(value, torch.Tensor))


def main() -> None:
    """Run everything in both trees and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--work", type=Path, required=True, help="folder for the runs; finished ones are kept")
    parser.add_argument("--mtopt", action="store_true", help="also run MT-Opt's preset tiny, some minutes more")
    parser.add_argument("--out", type=Path, help="also write the JSON to this file")
    options = parser.parse_args()
    commands = {name: ["train", *words.split(), *COMMON.split(), f"run_dir={name}"] for name, words in RUNS.items()}
    if options.mtopt:
        commands["mtopt"] = ["mtopt", "run", "preset=tiny", "store=mtopt"]
    report: dict[str, Any] = {"runs": {}}
    for side in ("old", "new"):
        tree = vars(options)[side].resolve()
        folder = options.work / side
        folder.mkdir(parents=True, exist_ok=True)
        describe = ["git", "-C", str(tree), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
        report[f"{side}_commit"] = subprocess.run(describe, capture_output=True, text=True).stdout.strip()
        for name, words in commands.items():
            if not (folder / f"{name}.done").exists():
                run(tree, folder, words)
                (folder / f"{name}.done").touch()
    for name in commands:
        old, new = content(options.work / "old" / name), content(options.work / "new" / name)
        if not count(old) or not count(new):
            sys.exit(f"{name}: no tensors found")
        found = sorted(differences(old, new, name))
        report["runs"][name] = {"tensors": count(new), "differences": len(found), "first": found[:5]}
        print(f"{name:20} {count(new):4} tensors, {len(found)} differences {found[:1]}")
    report["tensors"] = sum(one["tensors"] for one in report["runs"].values())
    report["differences"] = sum(one["differences"] for one in report["runs"].values())
    print(f"{len(commands)} runs, {report['tensors']} tensors, {report['differences']} differences")
    if options.out:
        options.out.write_text(json.dumps(report, indent=1) + "\n")
    sys.exit(bool(report["differences"]))


if __name__ == "__main__":
    main()
