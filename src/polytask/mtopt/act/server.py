"""Serve actions over HTTP: a picture and a task in, an action out.

    GET  /api/state    tasks, height and width of the pictures, names of an action's numbers, whether a pose is needed,
                       version of the weights
    POST /api/act      {"task", "image": a PNG, JPEG or WebP file in base64, "closed", "height", "pose"}
                       -> {"action": numbers, "value", "policy"}

Access is controlled as on the labelling page (`label/security.py`): this machine only, or a token.
"""

from __future__ import annotations

import base64
import binascii
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from polytask.errors import UserError
from polytask.mtopt.act.actor import Actor, Look
from polytask.mtopt.config import ActConfig
from polytask.mtopt.label.pictures import UploadLimits, decode
from polytask.mtopt.label.security import Access
from polytask.mtopt.label.server import address, ended_by_signals, listen, server_of, with_token
from polytask.settings import check_values
from polytask.web.access import is_loopback

if TYPE_CHECKING:
    from fastapi import FastAPI

MAX_PIXELS = 2**24


def serve(config: ActConfig) -> None:
    """Serve actions until a signal ends it; print the address to stdout."""
    check_values(config)
    config = with_token(config)
    app = create_app(config)
    with listen(config) as listener:
        server = server_of(app)
        with ended_by_signals(server):
            sys.stdout.write(f"actions: {address(config, listener.getsockname()[1])}\n")
            sys.stdout.flush()
            server.run(sockets=[listener])


def create_app(config: ActConfig) -> FastAPI:
    """Build the server of a run.

    Raises:
        UserError: If there is no run with weights, or other machines could reach it and there is no token.
    """
    from fastapi import FastAPI
    from pydantic import BaseModel, ConfigDict, Field

    from polytask.mtopt.label.app import guard

    if not config.token and not is_loopback(config.host):
        raise UserError(f"host={config.host} opens the server to other machines: set token=...")
    actor = Actor(config)
    limits = UploadLimits(config.max_body_bytes, MAX_PIXELS)

    class ActBody(BaseModel):
        """What the robot sees, and what it should do."""

        model_config = ConfigDict(extra="forbid")
        task: str
        image: str
        closed: bool = False
        height: float = Field(0.0, allow_inf_nan=False)
        pose: list[float] | None = None

    def state() -> dict[str, Any]:
        return {
            "tasks": list(actor.tasks),
            "image_size": actor.image_shape[0],
            "image_width": actor.image_shape[1],
            "action": list(actor.action_names),
            "needs_pose": actor.needs_pose,
            "weights": actor.weights.version,
        }

    def act(body: ActBody) -> dict[str, Any]:
        try:
            data = base64.b64decode(body.image, validate=True)
        except (binascii.Error, ValueError) as error:
            raise UserError("image: it is not a file in base64") from error
        look = Look(np.asarray(decode(data, limits)), body.closed, body.height, body.pose)
        return {**asdict(actor.act(look, body.task)), "policy": actor.weights.policy}

    # FastAPI reads the types of the parameters, and the class of the body is known only here.
    act.__annotations__["body"] = ActBody
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app.add_api_route("/api/state", state, methods=["GET"])
    app.add_api_route("/api/act", act, methods=["POST"])
    guard(app, Access(is_loopback(config.host), config.token, config.max_body_bytes))
    return app
