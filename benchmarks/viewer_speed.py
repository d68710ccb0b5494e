"""Measure what the viewer costs beside the worlds it shows: the processor time of a picture.

No browser is connected, so what a picture takes is copying the state, computing the poses and preparing the message.
The time is that of the thread which does this, so other programs on the same cores hardly change it.

    python benchmarks/viewer_speed.py --out benchmarks/results/cpu_viewer.json
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch
from publish import origin, publish

from polytask.config.watching import PlayConfig
from polytask.viewer import source
from polytask.viewer.page import Page
from polytask.viewer.server import close_server, guard_of, open_server


def main() -> None:
    """Take control steps, draw each, and publish the times of drawing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", type=int, default=16, help="number of worlds")
    parser.add_argument("--steps", type=int, default=500, help="control steps, one picture each")
    parser.add_argument("--out", type=Path, help="also write the JSON to this file")
    options = parser.parse_args()
    torch.set_num_threads(1)  # as `polytask play` does
    config = source.checked(PlayConfig(policy="pretrained", worlds=options.worlds, port=0))
    server = open_server(config, guard_of(config))
    page = Page(server, config, source.build(config))
    seconds = []
    for _ in range(options.steps):
        page.session.step()
        start = time.thread_time()
        page.draw()
        seconds.append(time.thread_time() - start)
    page.session.close()
    close_server(server)
    seconds.sort()
    result = {
        "what": "processor time of a picture of all worlds, in milliseconds: tenth, fiftieth and ninetieth percentile",
        **origin(),
        "suite": config.suite,
        "worlds": options.worlds,
        "pictures": options.steps,
        "milliseconds": [round(1e3 * seconds[len(seconds) * part // 10], 2) for part in (1, 5, 9)],
    }
    publish(result, options.out)


if __name__ == "__main__":
    main()
