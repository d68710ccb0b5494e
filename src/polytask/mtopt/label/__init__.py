"""A page on which a person says what success looks like, and the server behind it.

Nothing here is imported with `polytask.mtopt`: the server needs the extra `label`.
"""

from polytask.mtopt.config.label import LabelConfig
from polytask.mtopt.label.server import serve

__all__ = ["LabelConfig", "serve"]
