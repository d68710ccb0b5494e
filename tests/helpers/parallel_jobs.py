"""Short jobs that two ranks do together and that a single process does alone: `parallel_jobs.py FOLDER`.

All jobs share one start of the processes, because importing torch takes longer than the jobs.
"""

import sys
from pathlib import Path
from unittest.mock import patch

import torch

from helpers.learning import know_success
from helpers.task_rows import INPUTS, TASKS, HeadPerTask, Rows, squared_error
from polytask.config.compose import compose
from polytask.config.schema import TrainConfig
from polytask.grads import GRADS, Backward, build
from polytask.parallel.ranks import join
from polytask.runs.run import Run, open_run
from polytask.runs.train import train

# Three and five worlds on two ranks are shares of one and two, and of two and three. Episodes end in every iteration.
# Tasks without a free object: the last digits of a puck at rest are noise, and Adam takes whole steps on such inputs.
WORLDS = ("tasks=[drawer-close,window-open]", "envs_per_task=[3,5]", "episode_length=12", "success_window=3")
RUN = ("max_frames=null", "eval_episodes=0", "video=false", "net.hidden=[16]", "threads=1")
ON_POLICY = ("algo.horizon=8", "algo.epochs=2")
OFF_POLICY = (
    "algo.steps_per_iteration=8",
    "algo.learning_starts=4",
    "algo.updates_per_step=1",
    "algo.batch=10",
    "algo.capacity=400",
)
CONFLICTS = ("grads.apply_to=both", "grads.conflicts_every=1")
TRAININGS = {
    "ppo": ("algo=ppo", *ON_POLICY, "goals=fixed"),
    "ppo_cagrad": ("algo=ppo", *ON_POLICY, "grads=cagrad", *CONFLICTS),
    "ppo_options": (
        *("algo=ppo", *ON_POLICY, "algo.schedule=adaptive", "algo.final_std=0.5", "algo.critic=categorical"),
        *("algo.search_correlation=0.9", "algo.search_entropy_coef=0.01", "algo.solved_weight=0.1"),
        *("algo.success_coef=1", "algo.novelty_coef=0.1", "algo.imitation_coef=1", "algo.borrow_share=0.5"),
        "history.worlds=1",
    ),
    "grpo_famo": ("algo=grpo", "algo.epochs=2", "grads=famo", *CONFLICTS),
    "pqn_pcgrad": ("algo=pqn", *ON_POLICY, "grads=pcgrad"),
    "sac_famo": ("algo=sac", *OFF_POLICY, "grads=famo", "grads.apply_to=both"),
    "sac_overlap": ("algo=sac", *OFF_POLICY, "algo.overlap=true"),
    "sac_categorical": (
        *("algo=sac", *OFF_POLICY, "algo.critic=categorical", "algo.twin=mean", "algo.atoms=21"),
        *("critic_net=bro", "critic_net.hidden=16", "critic_net.task_code=embedding"),
        *("tasks=[box-climb,a-frame]", "levels=curriculum"),
    ),
    "fast_td3_upgrad": ("algo=fast_td3", *OFF_POLICY, "algo.atoms=11", "grads=upgrad"),
    "parkour": ("algo=ppo", *ON_POLICY, "tasks=[box-climb,a-frame]", "levels=curriculum"),
    "parkour_fixed": (
        *("algo=ppo", *ON_POLICY, "tasks=[box-climb,a-frame]", "levels=curriculum", "curriculum.revisit=0.5"),
        "algo.normalize=fixed",
    ),
    "ppo_shared": ("algo=ppo", *ON_POLICY, "algo.normalize=shared"),
    "sac_shared": ("algo=sac", *OFF_POLICY, "algo.normalize=shared"),
}
RESUMED = ("ppo_cagrad", "ppo_options", "sac_famo", "parkour_fixed", "ppo_shared")  # also trained in two parts
ITERATIONS = 4
ROWS = 5  # per task, so that the two ranks get two and three


def batch_of(ranks):
    """Draw a batch for `Backward` and return the rows of this rank."""
    generator = torch.Generator().manual_seed(0)
    obs = torch.randn(TASKS, ROWS, INPUTS, generator=generator)
    target = torch.randn(TASKS, ROWS, generator=generator)
    task = torch.arange(TASKS)[:, None].expand(TASKS, ROWS)
    return Rows(*(tensor[:, ranks.share(ROWS)] for tensor in (obs, task, target)))


def gradients(ranks):
    """Return losses, gradients and losses after a step of every gradient method."""
    result = {}
    for name, (config, _) in GRADS.items():
        torch.manual_seed(0)
        net = HeadPerTask()
        method = build(config(), TASKS, torch.device("cpu"), torch.Generator().manual_seed(0))
        backward = Backward(method, net, squared_error, ranks=ranks)
        batch = batch_of(ranks)
        losses = backward(batch)
        backward.after_step(batch)
        grads = {key: parameter.grad for key, parameter in net.named_parameters()}
        result[name] = {"losses": losses, "state": method.state_dict(), "again": backward.task_losses(batch), **grads}
    return result


def exchanges(ranks):
    """Return what every exchange gives this rank."""
    own = torch.tensor([1.0, 10.0]) * (ranks.rank + 1)
    mean, share = ranks.mean(own, rows=ranks.rank + 1)
    return {
        "sum": ranks.sum_(own.clone()),
        "sums": [each.tolist() for each in ranks.sum_all([own, torch.ones(2, 1)])],
        "named": {key: value.tolist() for key, value in ranks.sum_dict({"a": own}).items()},
        "mean": mean,
        "share": float(share),
        "gather": ranks.gather(torch.full((2, 1), ranks.rank)),
        "of_first": ranks.of_first(f"rank {ranks.rank}"),
        "of_all": ranks.of_all(ranks.rank),
        "largest": ranks.largest(10 - ranks.rank),
    }


def train_all(folder):
    """Train every run, and some of them also in two parts."""
    for name, words in TRAININGS.items():
        run(folder / name, *WORLDS, *words, f"max_iterations={ITERATIONS}")
    for name in RESUMED:
        run(folder / f"{name}_parts", *WORLDS, *TRAININGS[name], f"max_iterations={ITERATIONS // 2}")
        run(folder / f"{name}_parts", f"checkpoint={folder / name}_parts", f"max_iterations={ITERATIONS}")


def run(folder, *words):
    """Train one run; a checkpoint contains all other settings."""
    saved = next((word.partition("=")[2] for word in words if word.startswith("checkpoint=")), None)
    settings = None if saved is None else torch.load(f"{saved}/checkpoint.pt", weights_only=True)["config"]
    words = words if saved else (*RUN, *words)
    with patch("polytask.runs.train.open_run", open_with_success):
        train(compose(TrainConfig, [*words, f"run_dir={folder}"], saved=settings))


def open_with_success(config, ranks):
    """Open a run; if it is a new one that borrows, its first task succeeds and its second was shown some steps.

    Otherwise no task would succeed in so few iterations, and there would be nothing to borrow or to imitate.
    """
    run, history = open_run(config, ranks)
    if config.checkpoint is None and getattr(config.algo, "borrow_share", 0) > 0:
        know_success(run.algo, 1.0, 0.0)
        spec, generator = run.env.spec, torch.Generator().manual_seed(0)
        obs, action = (torch.randn(20, width, generator=generator) for width in (spec.obs_dim, spec.action_dim))
        run.algo.imitate(torch.ones(20, dtype=torch.int64), obs, action)
    return run, history


def keep_learners(folder, rank):
    """Let every run save the learner of this rank at its end."""
    close = Run.close

    def save_and_close(self):
        (folder / f"rank-{rank}").mkdir(parents=True, exist_ok=True)
        torch.save(self.algo.state_dict(), folder / f"rank-{rank}" / f"{self.directory.name}.pt")
        close(self)

    Run.close = save_and_close


if __name__ == "__main__":
    ranks, folder = join(), Path(sys.argv[1])
    keep_learners(folder, ranks.rank)
    torch.save(gradients(ranks), folder / f"gradients-{ranks.rank}.pt")
    torch.save(exchanges(ranks), folder / f"exchanges-{ranks.rank}.pt")
    train_all(folder)
    ranks.leave()
