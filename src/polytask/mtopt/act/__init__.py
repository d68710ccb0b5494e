"""Act on a robot of one's own with the weights of a run: in Python (`actor.py`), or over HTTP (`server.py`)."""
