"""A page on which a person labels outcomes as success or failure, and the server behind it.

Only app.py and pictures.py need the extra `label`; nothing imports them before they are used.
"""

from polytask.mtopt.label.server import serve

__all__ = ["serve"]
