"""A table of three rows whose runs take a second each, one of them from the networks of another."""

from polytask.runs.reproduce import tables

TINY = ["tasks=[reach,drawer-close]", "num_envs=4", "episode_length=8", "algo.horizon=4", "algo.minibatch=8"]
TINY += ["device=cpu", "sim=cpu", "eval_episodes=0", "threads=1"]
TABLE = """
title: A tiny table
kind: table
source: nobody
paper: success of nobody.
seeds: 2
frames: 480
baseline: start
rows:
  plain: {name: Plain, preset: cpu_demo, success: 0.5, interval: [0.4, 0.6]}
  start: {name: Start, preset: cpu_demo, words: ['net.hidden=[8]']}
  later: {name: Later, preset: cpu_demo, words: ['net.hidden=[8]'], after: start}
"""


def add_table(folder, monkeypatch):
    """Make the tiny table the only one, make a folder the current one, and return the word that chooses the table."""
    (folder / "data" / "some").mkdir(parents=True)
    (folder / "data" / "some" / "table.yaml").write_text(TABLE)
    monkeypatch.setattr(tables, "FOLDER", folder / "data")
    monkeypatch.setattr(tables, "names", lambda: ["some/table"])
    monkeypatch.chdir(folder)
    return "table=some/table"
