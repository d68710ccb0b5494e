"""Measure what evaluation and video at the end of a run cost: a whole run, and one of two iterations without them.

    python benchmarks/run_end.py --out benchmarks/results/h200_run_end.json preset=mt10_gpu eval_episodes=50

The words after the options go to `polytask train`. Both runs are processes of their own. What they need outside of
their training is start-up in both, and in the whole run also its end. A first run, which is not timed, fills the caches
of kernels. `--keep FOLDER` keeps the whole run.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from publish import origin, publish

from polytask.runs.file_names import SUMMARY_FILE

SHORT = ("eval_episodes=0", "video=false", "max_frames=null", "max_iterations=2")


def seconds(words: list[str], folder: Path) -> dict[str, float]:
    """Train in a new process; return the seconds of the process and of its training."""
    command = [sys.executable, "-m", "polytask", "train", *words, f"run_dir={folder}"]
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    process = time.perf_counter() - begin
    summary = json.loads((folder / SUMMARY_FILE).read_text())
    has_video = (folder / "video.mp4").is_file()  # drawing needs OpenGL, which not every machine has
    return {"process": round(process, 1), "training": round(summary["seconds"], 1), "video": has_video}


def main() -> None:
    """Measure both and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--keep", type=Path, help="folder of the whole run (default: it is deleted)")
    parser.add_argument("words", nargs="+", help="settings of polytask train")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        seconds([*options.words, *SHORT], Path(name, "first"))
        short = seconds([*options.words, *SHORT], Path(name, "short"))
        whole = seconds(options.words, options.keep or Path(name, "whole"))
    end = (whole["process"] - whole["training"]) - (short["process"] - short["training"])
    result = {
        "what": "seconds of a run with evaluation and video at its end, and of one of two iterations without them",
        **origin("cuda" if torch.cuda.is_available() else "cpu"),
        "words": options.words,
        "whole": whole,
        "short": short,
        "end_seconds": round(end, 1),
        "share_of_end": round(end / whole["process"], 3),
    }
    publish(result, options.out)


if __name__ == "__main__":
    main()
