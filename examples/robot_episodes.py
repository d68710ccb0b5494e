"""Write the episodes of a make-believe robot as a folder that `polytask mtopt import from=folder` reads.

Usage: python examples/robot_episodes.py FOLDER [EPISODES]. A hand (grey) moves over a table and closes; it lifts the
block (red) if it closes above it. Your own robot needs to write the same files.
"""

import json
import sys
from pathlib import Path

import numpy as np
from PIL import Image


def draw(hand: np.ndarray, block: np.ndarray, lifted: bool) -> np.ndarray:
    """Draw the table from above."""
    picture = np.full((72, 96, 3), 200, np.uint8)
    for (x, y), colour in ((block, (200, 40, 30)), (hand, (90, 90, 90))):
        row, column = (10 if lifted else int(36 + 24 * y)), int(48 + 24 * x)
        picture[row - 5 : row + 5, column - 5 : column + 5] = colour
    picture[0:4] = (40, 160, 60) if lifted else (120, 120, 120)  # a lamp that shows the weight in the hand
    return picture


root, rng = Path(sys.argv[1]), np.random.default_rng(0)
for number in range(int(sys.argv[2]) if len(sys.argv) > 2 else 150):
    folder, hand, block = root / f"{number:04d}", np.zeros(2), rng.uniform(-1, 1, 2)
    aim = block if number % 2 else rng.uniform(-1, 1, 2)  # half of the attempts go anywhere
    success = bool(np.abs(aim - block).max() < 0.25)
    # dx, dy, dz, sine and cosine of twice the turn, close, open, terminate
    actions = [[*aim.tolist(), 0, 0, 1, 0, 0, 0], [0, 0, -1, 0, 1, 1, 0, 0], [0, 0, 1, 0, 1, 0, 0, 1]]
    frames = [draw(hand, block, False), *[draw(aim, block, False)] * 2, draw(aim, block, success)]
    (folder / "frames").mkdir(parents=True)
    for step, frame in enumerate(frames):
        Image.fromarray(frame).save(folder / "frames" / f"{step:03d}.png")
    about = {"task": "lift-any", "actions": actions, "success": success, "height": [0.2, 0.2, 0.0, 0.2]}
    (folder / "episode.json").write_text(json.dumps(about))
