"""A page on which a person labels outcomes as success or failure, and the server behind it.

Nothing else in `polytask.mtopt` imports the server at its start, because the server needs the extra `label`.
"""

from polytask.mtopt.label.server import serve

__all__ = ["serve"]
