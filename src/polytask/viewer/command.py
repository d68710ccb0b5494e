"""`polytask play`: watch a policy."""

from __future__ import annotations

from dataclasses import replace

import torch

from polytask.config.watching import PlayConfig
from polytask.result import Result, note
from polytask.stopping import stop_requests
from polytask.viewer import native, source
from polytask.web.access import link


def play(config: PlayConfig) -> Result:
    """Run `polytask play` until a signal ends it."""
    config = source.checked(config)
    if config.threads is None:
        torch.set_num_threads(1)  # for so few observations, more threads only wait, on the cores of the physics
    if config.viewer == "native":
        native.check_display()
        return _play_in_window(config)
    return _play_on_page(config)


def _play_in_window(config: PlayConfig) -> Result:
    session = source.build(replace(config, worlds=1))  # more would not be seen
    try:
        with stop_requests("picture", is_announced=False) as stops:
            native.run(session, stops)
    finally:
        session.close()
    return _result(session.steps)


def _play_on_page(config: PlayConfig) -> Result:
    from polytask.viewer.page import Page
    from polytask.viewer.server import close_server, guard_of, open_server

    guard = guard_of(config)
    server = open_server(config, guard)
    try:
        session = source.build(config)
        page = Page(server, config, session)
        with stop_requests("picture", is_announced=False) as stops:
            note(f"viewer: {link(config.host, server.get_port(), guard.token)}  (Ctrl-C ends it)")
            page.run(stops)
        page.session.close()
    finally:
        close_server(server)
    return _result(page.session.steps)


def _result(steps: int) -> Result:
    return Result({"steps": steps}, lines=[f"watched {steps} control steps"])
