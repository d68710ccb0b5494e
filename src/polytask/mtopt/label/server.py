"""Run the labelling page until it is stopped."""

from __future__ import annotations

import secrets
import socket
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from polytask.errors import UserError
from polytask.mtopt.config.label import LabelConfig
from polytask.mtopt.label.security import is_loopback
from polytask.mtopt.records import TaskInfo

if TYPE_CHECKING:
    import uvicorn

NEEDS = ("fastapi", "uvicorn", "PIL")
SHORTEST_TOKEN = 16


def serve(config: LabelConfig) -> None:
    """Serve the page until interrupted; its address goes to stdout."""
    config = check(config)
    with listen(config) as listener:
        server = build_server(config, known_tasks())
        sys.stdout.write(f"labelling page: {address(config, listener.getsockname()[1])}\n")
        sys.stdout.flush()
        server.run(sockets=[listener])


def build_server(config: LabelConfig, tasks: dict[str, TaskInfo]) -> uvicorn.Server:
    """Put the page into a web server that is yet to be run."""
    import uvicorn

    from polytask.mtopt.label.app import create_app

    # No access lines: the first would hold the token.
    settings = uvicorn.Config(create_app(config, tasks), log_level="warning", access_log=False, server_header=False)
    return uvicorn.Server(settings)


def check(config: LabelConfig) -> LabelConfig:
    """Refuse settings that cannot work, and add a random token where the page would be open to others."""
    if any(find_spec(name) is None for name in NEEDS):
        raise UserError("the labelling page needs an extra: pip install 'polytask[label]'")
    if not config.run_dir:
        raise UserError("name the folder of the run: run_dir=DIR")
    if not Path(config.run_dir).is_dir():
        raise UserError(f"there is no folder '{config.run_dir}'; collect episodes into it first")
    unknown = [name for name in config.tasks if name not in known_tasks()]
    if unknown:
        raise UserError(f"unknown task '{unknown[0]}'; known: {', '.join(known_tasks())}")
    if config.token and len(config.token) < SHORTEST_TOKEN:
        raise UserError(f"a token needs at least {SHORTEST_TOKEN} characters")
    if not config.token and not is_loopback(config.host):
        config = replace(config, token=secrets.token_urlsafe(24))
    return config


def known_tasks() -> dict[str, TaskInfo]:
    """Name every task that can be labelled."""
    from polytask.mtopt.tasks import TASKS

    return dict(TASKS)


def listen(config: LabelConfig) -> socket.socket:
    """Open the port."""
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((config.host, config.port))
        listener.listen()  # whoever calls before the server runs waits, and is not turned away
    except OSError as error:
        listener.close()
        raise UserError(f"cannot listen on {config.host}, port {config.port}: {error.strerror}") from error
    return listener


def address(config: LabelConfig, port: int) -> str:
    """Write the address that a browser opens, token included."""
    host = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(config.host, config.host)
    host = f"[{host}]" if ":" in host else host
    return f"http://{host}:{port}/" + (f"?token={config.token}" if config.token else "")
