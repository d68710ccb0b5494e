"""Run the labelling page until it is stopped."""

from __future__ import annotations

import secrets
import socket
import sys
from contextlib import AbstractContextManager
from dataclasses import replace
from importlib.util import find_spec
from types import FrameType
from typing import TYPE_CHECKING, TypeVar

from polytask.device import check_device
from polytask.errors import UserError, shown
from polytask.mtopt.config.exchange import ActConfig
from polytask.mtopt.config.label import LabelConfig
from polytask.mtopt.config.run import RunConfig
from polytask.mtopt.run_tasks import tasks_of
from polytask.mtopt.task_table import TaskTable
from polytask.settings import check_values
from polytask.stopping import handled_by
from polytask.web.access import is_loopback, link

if TYPE_CHECKING:
    import uvicorn
    from starlette.types import ASGIApp

NEEDS = ("fastapi", "uvicorn", "PIL")
SHORTEST_TOKEN = 16
Listens = TypeVar("Listens", LabelConfig, ActConfig)  # settings of a server: host, port, token


def serve(config: LabelConfig) -> None:
    """Serve the page until a signal ends it; print its address to stdout."""
    config = prepared(config)
    with listen(config) as listener:
        server = build_server(config, page_tasks(config))
        with ended_by_signals(server):
            sys.stdout.write(f"labelling page: {address(config, listener.getsockname()[1])}\n")
            sys.stdout.flush()
            server.run(sockets=[listener])


def ended_by_signals(server: uvicorn.Server) -> AbstractContextManager[object]:
    """Let SIGINT (Ctrl-C) and SIGTERM end the server, and then the block instead of the process."""

    def end(number: int, frame: FrameType | None) -> None:
        # Uvicorn handles signals while it runs, and sends them again when it has ended.
        server.should_exit = True

    return handled_by(end)


def build_server(config: LabelConfig, tasks: TaskTable) -> uvicorn.Server:
    """Build a web server for the page; the caller runs it."""
    from polytask.mtopt.label.app import create_app

    return server_of(create_app(config, tasks))


def server_of(app: ASGIApp) -> uvicorn.Server:
    """Build a web server for an application."""
    import uvicorn

    # No access log: its first line would contain the token. No websockets: nothing here uses them, and some versions of
    # uvicorn load parts of that library that are deprecated.
    return uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False, server_header=False, ws="none"))


def prepared(config: LabelConfig) -> LabelConfig:
    """Check the settings, and return them with a random token if other machines could reach the page.

    Raises:
        UserError: If a setting is not valid.
    """
    if any(find_spec(name) is None for name in NEEDS):
        raise UserError("the labelling page needs an extra: pip install 'polytask[label]'")
    if not config.root.is_dir():
        raise UserError(
            f"there is no folder '{config.run_dir}'; name the folder of a run that has episodes: run_dir=DIR"
        )
    check_values(config)
    check_device(config.device)
    page_tasks(config).require(config.tasks)
    return with_token(config)


def page_tasks(config: LabelConfig) -> TaskTable:
    """Return the tasks of the run in the page's folder; of a folder without a run, those of the bins."""
    return tasks_of(RunConfig(run_dir=config.run_dir))


def with_token(config: Listens) -> Listens:
    """Return settings with a random token if other machines could reach the server and there is none.

    Raises:
        UserError: If the token is too short.
    """
    if config.token and len(config.token) < SHORTEST_TOKEN:
        raise UserError(f"token=...: at least {SHORTEST_TOKEN} characters are needed")
    if not config.token and not is_loopback(config.host):
        config = replace(config, token=secrets.token_urlsafe(24))
    return config


def listen(config: LabelConfig | ActConfig) -> socket.socket:
    """Open the port.

    Raises:
        UserError: If the system refuses.
    """
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((config.host, config.port))
        listener.listen()  # a client that connects before the server runs waits instead of failing
    except (OSError, ValueError) as error:  # ValueError: a host that cannot be a name
        listener.close()
        reason = error.strerror if isinstance(error, OSError) else "it is not the name or address of a machine"
        raise UserError(f"cannot listen on host={shown(config.host)} port={config.port}: {reason}") from error
    return listener


def address(config: LabelConfig | ActConfig, port: int) -> str:
    """Return the address for a browser, including the token."""
    return link(config.host, port, config.token)
