"""Run the roles in parallel under Ray, on one machine or several; any worker may die.

The driver holds the controller. It gives jobs to the workers and forwards *references*, never the data: the data of a
collector or an updater goes from its machine directly to the writer or the trainer. A worker that dies is replaced, and
its job is issued again. The roles that need the run's folder (writer, replay, trainer, labeller, evaluator) run on the
driver's machine. Collectors and updaters run anywhere and need no shared disk.
"""
