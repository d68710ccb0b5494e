"""Clone the demonstrations of a data set and nothing else: what a run with `demos=FOLDER` must beat.

    python benchmarks/cloning.py DATA --words "tasks=[disassemble] net.hidden=[256,256]" --out FILE

The policy is that of a run with these words. It learns from the steps that such a run would imitate, up to each
episode's last success, by the squared difference of actions, and never acts before it is evaluated without noise, from
the starts of the evaluation of a run with the same seed.
"""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from polytask.algos.ppo import PPO
from polytask.config.compose import compose
from polytask.config.schema import TrainConfig
from polytask.files import finite, write_text
from polytask.runs.demonstrations import Demonstrations, read_demonstrations
from polytask.runs.evaluate import Evaluator
from polytask.runs.provenance import provenance
from polytask.runs.setup import build_algo, build_train_env

BATCH, RATE = 256, 1e-3


def clone(algo: PPO, shown: Demonstrations, updates: int, seed: int) -> float:
    """Fit the policy's mean to the demonstrated actions; return the mean squared difference of the last batch."""
    generator, loss = torch.Generator().manual_seed(seed), torch.zeros(())
    optimizer = torch.optim.Adam(algo.policy.parameters(), lr=RATE)
    algo.obs_norm.update(shown.obs, shown.task)
    for _ in range(updates):
        rows = torch.randint(len(shown.task), (BATCH,), generator=generator)
        mean, _ = algo.actor.at(shown.obs[rows], shown.task[rows])
        loss = (mean - shown.action[rows]).square().sum(dim=-1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def cloned(words: list[str], folder: str, updates: int, episodes: int) -> dict[str, Any]:
    """Return what the cloned policy of one seed reaches."""
    config = compose(TrainConfig, words)
    env = build_train_env(config)
    algo, shown = build_algo(config, env.spec, env.device), read_demonstrations(folder, env)
    assert isinstance(algo, PPO)
    loss = clone(algo, shown, updates, config.seed)
    evaluator = Evaluator(config, episodes)
    summary = evaluator.run(lambda obs, task: algo.act(obs, task, explore=False))
    evaluator.close()
    env.close()
    return {"seed": config.seed, "episodes_shown": shown.episodes, "loss": loss, "evaluation": summary}


def main(argv: Sequence[str] | None = None) -> None:
    """Clone with one seed after the other and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="folder of a data set")
    parser.add_argument("--words", default="", help="words of `polytask train` that describe worlds and policy")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--updates", type=int, default=4000)
    parser.add_argument("--episodes", type=int, default=50, help="evaluation episodes of each task")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args(argv)
    words = shlex.split(arguments.words)
    rows = [
        cloned([*words, f"seed={seed}"], arguments.data, arguments.updates, arguments.episodes)
        for seed in arguments.seeds
    ]
    seeds = " ".join(map(str, arguments.seeds))
    command = (
        f"python benchmarks/cloning.py DATA --words '{arguments.words}' --seeds {seeds} "
        f"--updates {arguments.updates} --episodes {arguments.episodes}"
    )
    result = {"command": command, "rows": rows, **provenance(torch.device("cpu"))}
    text = json.dumps(finite(result), indent=1) + "\n"
    print(text)
    if arguments.out is not None:
        write_text(arguments.out, text)


if __name__ == "__main__":
    main()
