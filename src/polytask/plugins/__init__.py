"""Plug-ins: modules outside the package that add tasks, robots, networks, gradient methods and algorithms to it."""
