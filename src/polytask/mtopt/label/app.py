"""The labelling page's web server: a table of routes, each of which calls the session."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from importlib.resources import files
from typing import Annotated, Any, Literal

from fastapi import FastAPI, HTTPException, Query, Request, Response
from fastapi import Path as PathValue
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from polytask.errors import UserError, shown
from polytask.mtopt.config.label import LabelConfig
from polytask.mtopt.label.pictures import strip
from polytask.mtopt.label.queues import ORDERS
from polytask.mtopt.label.security import COOKIE, Access, Guard
from polytask.mtopt.label.session import LabelSession
from polytask.mtopt.label.training import DetectorTraining
from polytask.mtopt.label.uploads import Uploads
from polytask.mtopt.records import TaskInfo
from polytask.mtopt.store import EpisodeStore
from polytask.mtopt.task_table import TaskTable
from polytask.web.access import is_loopback

# The only files that are served: request path, file in `static`, type.
STATIC = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/label.css": ("label.css", "text/css; charset=utf-8"),
    "/label.js": ("label.js", "text/javascript; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
QueueName = Literal["new", "uncertain", "likely", "disagrees"]
LARGEST = 2**63 - 1  # number that the index can hold


class AnswerBody(BaseModel):
    """One answer; a value of null skips."""

    model_config = ConfigDict(extra="forbid")
    task: str
    episode: int = Field(ge=0, le=LARGEST, strict=True)
    value: bool | None = Field(strict=True)
    order: QueueName = "new"
    source: Literal["person", "oracle"] | None = None  # who answers; a program that is not a person says so


class AnswersBody(BaseModel):
    """Several answers at once."""

    model_config = ConfigDict(extra="forbid")
    answers: list[AnswerBody] = Field(min_length=1, max_length=500)


class UndoBody(BaseModel):
    """The task whose last answer is taken back."""

    model_config = ConfigDict(extra="forbid")
    task: str


class TaskBody(BaseModel):
    """A new task."""

    model_config = ConfigDict(extra="forbid")
    name: str
    skill: str
    sentence: str


class Api:
    """The routes. Requests run in threads, one at a time, because one person answers."""

    def __init__(self, session: LabelSession, uploads: Uploads, training: DetectorTraining) -> None:
        self.session = session
        self.uploads = uploads
        self.training = training
        self.lock = session.lock

    def state(self) -> dict[str, Any]:
        """Return the tasks with their progress, the queues and the page's detector."""
        with self.lock:
            self.session.sync_tasks()
            progress, table = self.session.progress(), self.session.tasks
            views = self.uploads.shape()[0]
            tasks = [asdict(self.session.tasks[name]) | asdict(counts) for name, counts in progress.items()]
            agreed, asked = self.session.journal.agreement()
        verdicts = self.session.verdicts
        return {
            "tasks": tasks,
            "orders": ORDERS,
            "goal": self.session.config.goal,
            "agreed": agreed,
            "asked_twice": asked,
            "detector": verdicts.version if verdicts else None,
            "in_use": self.training.in_use(),
            "views": views,
            "captions": list(self.session.config.captions),
            "skills": list(dict.fromkeys(one.skill for one in table.values())),
            "free_places": table.slots - len(table),
            "judged": [task for task in self.session.names if verdicts and verdicts.of(task)],
            "max_upload_bytes": self.session.config.max_upload_bytes,
        }

    def add_task(self, body: TaskBody) -> dict[str, Any]:
        """Add a task to the run."""
        with self.lock:
            self.session.add_task(TaskInfo(body.name, body.skill, body.sentence))
        return {"name": body.name}

    def examples(self, task: str) -> dict[str, list[int]]:
        """Return labelled successes and failures of a task."""
        with self.lock:
            return self.session.examples(self._known(task))

    def questions(
        self, task: str, order: QueueName = "new", count: Annotated[int, Query(ge=1, le=200)] = 24
    ) -> dict[str, Any]:
        """Return the next episodes to judge."""
        with self.lock:
            asked, size = self.session.questions(self._known(task), order, count)
        return {"questions": [asdict(question) for question in asked], "size": size}

    def outcome(self, episode: Annotated[int, PathValue(ge=0, le=LARGEST)]) -> Response:
        """Return a picture of an episode's end, all views side by side."""
        with self.lock:
            self.session.require(episode)
            views = self.session.store.outcome(episode)
        # Episodes never change, so a browser may cache the picture.
        return Response(strip(views), media_type="image/png", headers={"cache-control": "private, max-age=86400"})

    def answer(self, body: AnswersBody) -> dict[str, Any]:
        """Save answers and return the progress of their tasks."""
        with self.lock:
            for answer in body.answers:  # all are checked before any is saved
                self.session.require(answer.episode)
                self._known(answer.task)
                if answer.source not in (None, self.session.config.source):
                    raise HTTPException(409, "this page counts labels as a person's; start it with source=oracle")
            for answer in body.answers:
                self.session.answer(answer.task, answer.episode, answer.value, answer.order)
            progress = self.session.progress()
        return {"progress": {name: asdict(progress[name]) for name in {a.task for a in body.answers}}}

    def undo(self, body: UndoBody) -> dict[str, Any]:
        """Take the last answer on a task back."""
        with self.lock:
            episode = self.session.undo(self._known(body.task))
            progress = self.session.progress()[body.task]
        return {"episode": episode, "progress": {body.task: asdict(progress)}}

    async def upload(self, request: Request, task: str, value: bool) -> dict[str, int]:
        """Store one example picture: the plain body of the request."""
        data = await request.body()  # the guard has checked its length
        return {"episode": await run_in_threadpool(self._add_example, self._known(task), value, data)}

    def _add_example(self, task: str, value: bool, data: bytes) -> int:
        with self.lock:
            episode = self.uploads.add(task, data)
            self.session.answer(task, episode, value, "new")
        return episode

    def train(self) -> JSONResponse:
        """Start to train a detector."""
        if not self.training.start():
            raise HTTPException(409, "a detector is being trained already")
        return JSONResponse(self.training.status(), 202)

    def train_status(self) -> dict[str, Any]:
        """Return the state of the training, with its figures once it is done."""
        return self.training.status()

    def _known(self, task: str) -> str:
        if task not in self.session.names:
            raise HTTPException(404, f"unknown task; known: {', '.join(self.session.names)}")
        return task


def _static(access: Access, path: str) -> Any:
    name, media_type = STATIC[path]
    content = files("polytask.mtopt.label").joinpath("static", name).read_bytes()

    def serve_file() -> Response:
        answer = Response(content, media_type=media_type, headers={"cache-control": "no-cache"})
        if path == "/" and access.token:  # the guard has checked it already
            answer.set_cookie(COOKIE, access.token, httponly=True, samesite="lax")
        return answer

    return serve_file


def create_app(config: LabelConfig, tasks: TaskTable, store: EpisodeStore | None = None) -> FastAPI:
    """Build the server for a store; `app.state.api` holds its parts.

    Raises:
        UserError: If other machines could reach it and there is no token.
    """
    if not config.token and not is_loopback(config.host):
        raise UserError(f"host={config.host} opens the labelling page to other machines: set token=...")
    store = store or EpisodeStore(config.root)
    session = LabelSession(store, tasks, config)
    api = Api(session, Uploads(store, config), DetectorTraining(session))
    access = Access(is_loopback(config.host), config.token, max(config.max_upload_bytes, 1024 * 1024))

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        api.training.stop()
        api.uploads.close()

    # No generated documentation pages: they load code from other sites.
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
    app.state.api = api
    for path in STATIC:
        app.add_api_route(path, _static(access, path), methods=["GET"])
    app.add_api_route("/api/state", api.state, methods=["GET"])
    app.add_api_route("/api/tasks", api.add_task, methods=["POST"], status_code=201)
    app.add_api_route("/api/tasks/{task}/examples", api.examples, methods=["GET"])
    app.add_api_route("/api/tasks/{task}/questions", api.questions, methods=["GET"])
    app.add_api_route("/api/episodes/{episode}/outcome.png", api.outcome, methods=["GET"])
    app.add_api_route("/api/answers", api.answer, methods=["POST"])
    app.add_api_route("/api/undo", api.undo, methods=["POST"])
    app.add_api_route("/api/uploads", api.upload, methods=["POST"], status_code=201)
    app.add_api_route("/api/train", api.train, methods=["POST"], status_code=202)
    app.add_api_route("/api/train", api.train_status, methods=["GET"])
    guard(app, access)
    return app


def guard(app: FastAPI, access: Access) -> None:
    """Let a server check who calls it, and answer mistakes with one line."""
    app.add_exception_handler(UserError, _refuse)
    app.add_exception_handler(RequestValidationError, _refuse_values)
    app.add_middleware(Guard, access=access)


def _refuse_values(_: Request, error: Exception) -> JSONResponse:
    """Name the values that are not valid, without repeating them: JSON has no NaN, and they may be long."""
    assert isinstance(error, RequestValidationError)
    problems = [f"{shown('.'.join(map(str, one['loc'])))}: {shown(one['msg'], 200)}" for one in error.errors()]
    more = f"; and {len(problems) - 3} more" if len(problems) > 3 else ""
    return JSONResponse({"detail": "; ".join(problems[:3]) + more}, 422)


def _refuse(_: Request, error: Exception) -> JSONResponse:
    """Answer with the line that explains the mistake."""
    return JSONResponse({"detail": str(error)}, 422)
