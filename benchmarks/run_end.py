"""Measure what evaluation and video at the end of a run cost: the same run with and without them, in whole seconds.

    python benchmarks/run_end.py --out benchmarks/results/h200_run_end.json preset=mt10_gpu max_frames=20_000_000

The words after the options go to `polytask train`. Both runs are processes of their own, so imports, start-up and
training are in both times. A first run, which is not timed, fills the caches of kernels.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from publish import origin, publish

from polytask.runs.file_names import SUMMARY_FILE

WITHOUT_END = ("eval_episodes=0", "video=false")


def seconds(words: list[str]) -> dict[str, float]:
    """Train in a new process; return the seconds of the process and of its training."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "polytask", "train", *words, f"run_dir={folder}/run"]
        begin = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        process = time.perf_counter() - begin
        summary = json.loads(Path(folder, "run", SUMMARY_FILE).read_text())
    return {"process": round(process, 1), "training": round(summary["seconds"], 1)}


def main() -> None:
    """Measure both and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("words", nargs="+", help="settings of polytask train")
    options = parser.parse_args()
    seconds([*options.words, *WITHOUT_END, "max_frames=null", "max_iterations=2"])
    without, whole = seconds([*options.words, *WITHOUT_END]), seconds(options.words)
    # Two trainings differ by some seconds, so only what is outside of them is compared.
    end = (whole["process"] - whole["training"]) - (without["process"] - without["training"])
    result = {
        "what": "seconds of a run with evaluation and video at its end, and of the same run without them",
        **origin(),
        "words": options.words,
        "whole": whole,
        "without_end": without,
        "end_seconds": round(end, 1),
        "share_of_end": round(end / whole["process"], 3),
    }
    publish(result, options.out)


if __name__ == "__main__":
    main()
