"""Tables whose runs take a second each: one of three rows, one of them from the networks of another, and a chain."""

from polytask.runs.reproduce import tables

TINY = ["num_envs=4", "episode_length=8", "algo.horizon=4", "algo.minibatch=8"]
TINY += ["device=cpu", "sim=cpu", "eval_episodes=0", "threads=1"]
TABLE = """
title: A tiny table
kind: table
source: nobody
paper: success of nobody.
seeds: 2
frames: 480
words: ['tasks=[reach,drawer-close]']
baseline: start
rows:
  plain: {name: Plain, preset: cpu_demo, success: 0.5, interval: [0.4, 0.6]}
  start: {name: Start, preset: cpu_demo, words: ['net.hidden=[8]']}
  later: {name: Later, preset: cpu_demo, words: ['net.hidden=[8]'], after: start}
"""
CHAIN = """
title: A chain
kind: table
source: nobody
frames: 480
words: ['tasks=[reach,drawer-close]']
rows:
  third: {name: Third, preset: cpu_demo, words: ['net.hidden=[8]'], after: second}
  second: {name: Second, preset: cpu_demo, words: ['net.hidden=[8]'], after: first}
  first: {name: First, preset: cpu_demo, words: ['net.hidden=[8]']}
  also_third: {name: Also third, preset: cpu_demo, words: ['net.hidden=[8]', 'algo.lr=1e-4'], after: second}
"""


def add_table(folder, monkeypatch, table=TABLE):
    """Make a tiny table the only one, make a folder the current one, and return the word that chooses the table."""
    (folder / "data" / "some").mkdir(parents=True)
    (folder / "data" / "some" / "table.yaml").write_text(table)
    monkeypatch.setattr(tables, "FOLDER", folder / "data")
    monkeypatch.setattr(tables, "source_texts", lambda: {"nobody": "nobody"})
    monkeypatch.setattr(tables, "names", lambda: ["some/table"])
    monkeypatch.chdir(folder)
    return "table=some/table"
