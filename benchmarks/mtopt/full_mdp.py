"""Test whether the whole task is learned: offline Q-learning on scripted episodes, then rounds of collection.

Scripted picks fill the buffers. A detector that was trained from a few hundred labels grades them (or the truth does,
to separate errors of the detector from errors of Q). The report has success, length, modes of action and the
calibration of Q over updates and rounds, by the truth of greedy episodes. The same starts are played by the same policy
with one action, by constant commands, by random actions and by the script.
"""

from __future__ import annotations

import argparse
import itertools
from typing import Any

import torch
from experiment import (
    LIFTS,
    QPolicy,
    Report,
    generator_on,
    learner_config,
    learning_flags,
    make_world,
    parser,
    rate,
    run,
    train_updates,
    wait,
)
from labelled import Pool, detector_flags, fit_detector, labels_flag, require_tested, verdicts
from simple import simple_rates
from torch import Tensor

from polytask.mtopt.config.action import ActionConfig
from polytask.mtopt.config.learning import BellmanConfig, CEMConfig, ReplayConfig
from polytask.mtopt.config.world import ScriptConfig
from polytask.mtopt.detector import Detector
from polytask.mtopt.learning.buffers import TaskBuffers
from polytask.mtopt.learning.learner import QLearner
from polytask.mtopt.tasks import ALL_TASKS
from polytask.mtopt.world import EpisodeBatch, ScriptedPick, run_episodes

EVALUATION = 1234  # seed of the drops of every evaluation


class Study:
    """Worlds, buffers and learner of one run."""

    def __init__(self, arguments: argparse.Namespace, report: Report) -> None:
        """Build everything from the flags."""
        self.arguments, self.report = arguments, report
        self.tasks = tuple(arguments.tasks)
        options = {"assisted": arguments.assisted, "reach": arguments.reach, "spread": arguments.spread}
        self.world = make_world(arguments, arguments.seed, **options)
        search = {"modes": arguments.modes, "axes": [1.0, 1.0, 0.0 if arguments.flat else 1.0]}
        cem = CEMConfig(arguments.cem_samples, iterations=arguments.cem_rounds, **search)
        bellman = BellmanConfig(arguments.gamma, arguments.cost, cem)
        learning = {
            "bellman": bellman,
            "polyak": arguments.polyak,
            "lag": arguments.lag,
            "conservatism": arguments.conservatism,
        }
        config = learner_config(arguments, arguments.merge, arguments.reach, arguments.seed, **learning)
        self.learner = QLearner(config, len(self.tasks), arguments.device)
        sharing = ReplayConfig(arguments.capacity, success_ratio=arguments.success_ratio)
        size = (arguments.image_size, arguments.image_size)
        self.buffers = TaskBuffers(self.tasks, size, sharing, arguments.device)
        self.generator = generator_on(arguments.device, arguments.seed + 1)
        self.columns = torch.tensor([ALL_TASKS.index(name) for name in self.tasks], device=arguments.device)
        self.detector: Detector | None = None
        self._number = itertools.count()
        self._updates = train_updates(
            self.learner,
            self._sample,
            generator_on(arguments.device, arguments.seed + 2),
            has_bound=arguments.bound,
            is_eager=arguments.eager,
        )

    def _sample(self) -> Any:
        return self.buffers.sample(self.arguments.batch, self.generator)

    def keep(self, episodes: EpisodeBatch, broken: Tensor) -> dict[str, float]:
        """Grade episodes on all tasks and put them into the buffers; return rates, with the detector's precision.

        Worlds whose physics diverged, `broken` (N,), have no success.
        """
        truth = episodes.truth[:, self.columns]
        said = truth.to(torch.int8)
        if self.detector is not None:
            said = verdicts(self.detector, episodes.outcome, self.tasks)
        said = torch.where(broken[:, None], said.clamp(max=0), said)
        numbers = list(itertools.islice(self._number, len(truth)))
        self.buffers.add_from_device(numbers, episodes, said)
        granted = said == 1
        right, wrong = (granted & truth).sum(), (granted & ~truth).sum()
        return {
            "success": float(truth.float().mean(0)[0]),
            "granted": float(granted.float().mean(0)[0]),
            "precision": float(right / (right + wrong).clamp(min=1)),
            "length": float(episodes.length.float().mean()),
        }

    def scripted(self) -> None:
        """Fill the buffers with scripted picks; the first of them also train the detector."""
        arguments, report = self.arguments, self.report
        policy = self.script()
        waiting: list[tuple[EpisodeBatch, Tensor]] = []
        row: dict[str, float] = {}
        count, start, is_last = 0, report.left, False
        while not is_last:
            if count:
                self.world.reset()
            episodes = run_episodes(self.world, policy, ["lift-any"], arguments.max_steps)
            waiting.append((episodes, self.world.broken.clone()))
            count += self.world.num_envs
            wait(arguments.device)
            is_last = count >= arguments.episodes or start - report.left > start * arguments.collect_share
            if self.detector is None and arguments.labels != "truth":
                if count < arguments.detector_outcomes and not is_last:
                    continue
                self.train_detector([one for one, _ in waiting])
            for one, broken in waiting:
                row = self.keep(one, broken)
            waiting = []
            report.say(f"{count} scripted episodes, {row}")
        report.put("scripted", {"episodes": count, **row, "seconds": start - report.left})
        counts = {name: part._asdict() for name, part in self.buffers.counts().items()}
        report.put("buffers", counts)

    def train_detector(self, episodes: list[EpisodeBatch]) -> None:
        """Train the detector from labels on these episodes."""
        frames = torch.cat([one.outcome for one in episodes])
        truth = torch.cat([one.truth for one in episodes])
        pool = Pool(frames, truth, torch.zeros_like(truth[:, 0]))
        arguments = self.arguments
        labels = arguments.labels_per_task
        found = fit_detector(pool, self.tasks, labels, arguments, self.generator)
        self.detector, is_new = found.detector, found.is_new
        is_right = verdicts(self.detector, frames[is_new], self.tasks) == truth[is_new][:, self.columns]
        rates = zip(self.tasks, is_right.float().mean(0).tolist(), strict=True)
        agreement = {name: value for name, value in rates if name in self.detector.used}
        labelled = {"successes_labelled": found.successes, "pictures_viewed": found.viewed, "agreement": agreement}
        gate = {"taught": self.detector.taught, "refused": self.detector.refused, "judged": self.detector.used}
        self.report.put("detector", {**labelled, **gate})

    def train(self, updates: int, deadline: float) -> dict[str, float]:
        """Take updates until the seconds left fall to the deadline."""
        start, before, metrics = self.report.left, self.learner.step, {}
        for _ in range(updates):
            metrics = next(self._updates)
            if self.learner.step % 20 == 0:
                wait(self.arguments.device)
                if self.report.left < deadline:
                    break
        wait(self.arguments.device)
        row = {name: float(value) for name, value in metrics.items()}
        return {**row, "updates_per_second": (self.learner.step - before) / max(1e-9, start - self.report.left)}

    def play(self, steps: int, epsilon: float = 0.0, noise: float = 0.0) -> tuple[EpisodeBatch, Tensor]:
        """Run one episode in every world from where it is; also return the expected values of the first actions."""
        policy = First(self.learner, self.tasks, self.generator, epsilon=epsilon, noise=noise)
        task = self.columns[torch.arange(self.world.num_envs, device=self.world.device) % len(self.tasks)]
        episodes = run_episodes(self.world, policy, task, steps)
        assert policy.first is not None
        return episodes, policy.first

    def start(self) -> None:
        """Drop the objects as in every evaluation; what is collected afterwards does not depend on it."""
        state = self.world.generator.get_state()
        self.world.generator.manual_seed(EVALUATION)
        self.world.reset()
        self.world.generator.set_state(state)

    def evaluate(self) -> dict[str, Any]:
        """Run greedy episodes and describe them; the same policy with one action shows what several steps add."""
        self.start()
        episodes, value = self.play(self.arguments.max_steps)
        result: dict[str, Any] = {"updates": self.learner.step, **self._rates(episodes)}
        if self.arguments.max_steps > 1:
            self.start()
            result["same_policy_with_one_action"] = self._rates(self.play(1)[0])
        return {**result, **habits(episodes), **calibration(value, own_truth(episodes))}

    def _rates(self, episodes: EpisodeBatch) -> dict[str, Any]:
        own = own_truth(episodes)
        return {
            name: rate(own[episodes.task == index])
            for index, name in zip(self.columns.tolist(), self.tasks, strict=True)
        }

    def baselines(self) -> None:
        """Report what simple policies and the script reach from the starts of the evaluation."""
        rates = simple_rates(self.world, [self.start], self.tasks, self.script(), self.arguments.max_steps)
        self.world.reset()  # collection begins with new episodes
        self.report.put("simple", rates)

    def script(self) -> ScriptedPick:
        """Return the script that collects."""
        arguments = self.arguments
        config = ScriptConfig(detour=arguments.detour, early_end=arguments.early_end, seed=arguments.seed)
        return ScriptedPick(self.world, config)


def own_truth(episodes: EpisodeBatch) -> Tensor:
    """Return the success (N,) of the commanded task of each episode."""
    return episodes.truth.gather(1, episodes.task[:, None]).squeeze(1)


class First(QPolicy):
    """Remembers the expected value of the first action of an episode."""

    first: Tensor | None = None

    def act(self, observation: Any, task: Tensor) -> Tensor:
        """Act as the policy does."""
        action = super().act(observation, task)
        self.first = self.value if self.first is None else self.first
        return action


def habits(episodes: EpisodeBatch) -> dict[str, Any]:
    """Describe the actions of a policy: length, shares of the modes, and the ends of episodes."""
    steps = episodes.actions.shape[1]
    taken = torch.arange(steps, device=episodes.length.device) < episodes.length[:, None]  # (N, T)
    flags = episodes.actions[..., 5:] > 0.5  # (N, T, 3)
    modes = torch.cat([~flags.any(-1, keepdim=True), flags], -1)[taken].float().mean(0).tolist()
    last = flags[torch.arange(len(flags), device=flags.device), (episodes.length - 1).clamp(min=0)]
    return {
        "length": float(episodes.length.float().mean()),
        "modes": dict(zip(ActionConfig().modes, modes, strict=True)),
        "ended_by_terminate": float(last[:, 2].float().mean()),
        "motion": float(episodes.actions[..., :3][taken].abs().mean()),
    }


def calibration(value: Tensor, success: Tensor) -> dict[str, Any]:
    """Compare the expected values (N,) of first actions with the successes (N,), in fifths of the value."""
    order = value.argsort()
    parts = [(float(value[rows].mean()), float(success[rows].float().mean())) for rows in order.chunk(5)]
    return {"promised": float(value.mean()), "promised_and_came": parts}


def body(arguments: argparse.Namespace, report: Report) -> None:
    """Collect, train offline, then rounds."""
    study = Study(arguments, report)
    study.baselines()
    study.scripted()
    stages = [("offline", arguments.updates)]
    stages += [(f"round_{index + 1}", arguments.round_updates) for index in range(arguments.rounds)]
    budget = report.left
    ends = [budget * (1 - arguments.offline_share)]
    ends += [ends[0] * (1 - (index + 1) / max(1, arguments.rounds)) for index in range(arguments.rounds)]
    report.append("curve", {"stage": "untrained", **study.evaluate()})
    for (name, updates), end in zip(stages, ends, strict=True):
        if name != "offline":
            rows = []
            for _ in range(arguments.round_batches):
                study.world.reset()
                episodes, _ = study.play(arguments.max_steps, arguments.epsilon, arguments.noise)
                rows.append(study.keep(episodes, study.world.broken))
            report.append("collected", {"round": name, "episodes": study.world.num_envs * len(rows), **rows[-1]})
        done = 0
        while done < updates and (report.left > end + 3 or not done):
            before = study.learner.step
            row = study.train(min(arguments.every, updates - done), end)
            done += study.learner.step - before
            report.append("training", {"stage": name, "updates": study.learner.step, **row})
            report.append("curve", {"stage": name, **study.evaluate()})


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Read the flags and run."""
    flags = parser(__doc__ or "", seconds=290, worlds=2048)
    learning_flags(flags, updates=20000, batch=512)
    detector_flags(flags)
    add = flags.add_argument
    add("--tasks", nargs="+", default=["lift-any"], help=f"such as {' '.join(LIFTS)}")
    labels_flag(flags)
    add("--detector-outcomes", type=int, default=16384, help="episodes to choose the labelled ones from")
    add("--merge", default="located")
    add("--assisted", action="store_true", help="closing ends the episode; descent is automatic")
    add("--flat", action="store_true", help="search no motion along z; for --assisted, whose data has none")
    add("--max-steps", type=int, default=12)
    add("--detour", type=float, default=0.0, help="chance that a scripted action before the grip goes anywhere")
    add("--early-end", type=float, default=0.02, help="chance that a scripted action ends the episode out of turn")
    add("--reach", type=float, default=0.06)
    add("--spread", type=float, default=0.03)
    add("--episodes", type=int, default=40960, help="scripted")
    add("--collect-share", type=float, default=0.3, help="of the time for scripted episodes, at most")
    add("--offline-share", type=float, default=0.5, help="of the rest for offline training, at most")
    add("--capacity", type=int, default=1_000_000, help="frames")
    add("--rounds", type=int, default=2)
    add("--round-batches", type=int, default=4, help="of one episode in every world")
    add("--round-updates", type=int, default=10000)
    add("--every", type=int, default=2000, help="updates between evaluations")
    add("--epsilon", type=float, default=0.1)
    add("--noise", type=float, default=0.1)
    add("--gamma", type=float, default=0.9)
    add("--cost", type=float, default=0.0)
    add("--polyak", type=float, default=0.9999)
    add("--lag", type=int, default=6000)
    add("--conservatism", type=float, default=0.0)
    add("--bound", action="store_true", help="targets are at least what the episode got")
    add("--success-ratio", type=float, default=0.5)
    add("--cem-samples", type=int, default=64)
    add("--cem-rounds", type=int, default=2)
    add("--modes", type=float, nargs=4, default=[0.55, 0.15, 0.15, 0.15])
    arguments = flags.parse_args(argv)
    require_tested(arguments, flags)
    return run("full_mdp", arguments, body)


if __name__ == "__main__":
    main()
