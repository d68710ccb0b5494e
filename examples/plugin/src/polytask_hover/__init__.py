"""A plug-in for polytask. Importing it registers a task, a suite, a network and a gradient method."""

from polytask_hover import gated, hover, inverse_norm

__all__ = ["gated", "hover", "inverse_norm"]
