"""A run so small that its whole pipeline takes seconds."""

from polytask.mtopt.config.learning import CEMConfig
from polytask.mtopt.config.run import CollectorConfig, EvaluatorConfig, RunConfig, TrainerConfig
from polytask.mtopt.runtime.checks import prepared

TASKS = ["lift-any", "lift-can", "place-any"]


def tiny(root, **changes):
    """Two worlds, sixteen pixels, three tasks."""
    config = RunConfig(run_dir=str(root), tasks=list(TASKS))
    world = config.world
    world.num_envs, world.image_size, world.outcome_size = 2, 16, 16
    world.assisted, world.reach = True, 0.14
    config.storage.fsync = False
    config.collector = CollectorConfig(episodes=8, round_episodes=4, max_steps=2, hand_over=True)
    config.labels.per_task, config.labels.round_per_task = 4, 1
    config.detector.updates, config.detector.batch = 2, 4
    config.detector.least_tested = 0  # four labels a task test nothing
    config.learner.network.image_size = 16
    config.learner.bellman.cem = CEMConfig(samples=4, elites=2)
    config.replay.capacity = 200
    config.updater.rows = 16
    config.trainer = TrainerConfig(updates=4, round_updates=2, batch=8, publish_every=2, buffer=64)
    config.evaluator = EvaluatorConfig(episodes=1, simple=False, chains=False)
    config.controller.rounds = 1
    for name, value in changes.items():
        setattr(config, name, value)
    return prepared(config)
