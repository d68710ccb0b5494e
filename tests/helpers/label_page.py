"""Episodes whose pictures show success or failure clearly, and a client that speaks JSON."""

import json
import threading
from contextlib import contextmanager

import numpy as np

from polytask.mtopt.label.client import InProcessClient
from polytask.mtopt.label.server import address, build_server, listen
from polytask.mtopt.records import Episode, TaskInfo
from polytask.mtopt.task_table import TaskTable

SIZE = 32
TASKS = TaskTable(
    (
        TaskInfo("lift-any", "lift", "The hand holds any object up."),
        TaskInfo("lift-can", "lift", "The hand holds the can up."),
        TaskInfo("place-any", "place", "An object lies on the plate."),
    ),
    slots=5,
)


def picture(rng, lifted):
    """Draw two views of a grey bin; a lifted object is a bright block at the top."""
    views = rng.integers(60, 110, (2, SIZE, SIZE, 3), dtype=np.uint8)
    if lifted:
        views[:, 4:14, 10:22] = (230, 40, 30)
    return views


def episode(rng, task="lift-any", lifted=False):
    outcome = picture(rng, lifted)
    zeros = np.zeros(3, np.float32)
    truth = {"lift-any": lifted, "lift-can": lifted, "place-any": False}
    return Episode(
        outcome[[0, 0, 0]], zeros, zeros, np.zeros((2, 8), np.float32), outcome, task, "scripted:1", 7, truth
    )


class Page(InProcessClient):
    """A client that speaks JSON."""

    def get(self, path, **headers):
        return self.request("GET", path, headers=headers)

    def post(self, path, body, **headers):
        headers.setdefault("content-type", "application/json")
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.request("POST", path, data, headers)

    def answer(self, episode, value, task="lift-any", order="new"):
        answers = [{"task": task, "episode": episode, "value": value, "order": order}]
        reply = self.post("/api/answers", {"answers": answers})
        assert reply.status == 200, reply.body
        return reply.json()["progress"][task]

    def ask(self, task="lift-any", order="new", count=24):
        reply = self.get(f"/api/tasks/{task}/questions?order={order}&count={count}")
        assert reply.status == 200, reply.body
        return [question["episode"] for question in reply.json()["questions"]]


@contextmanager
def running(config, tasks=TASKS):
    """Serve the page on a free port and yield its address."""
    config.port = 0
    with served(config, build_server(config, tasks)) as url:
        yield url


@contextmanager
def served(config, server):
    """Run a server in a thread and yield its address."""
    with listen(config) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield address(config, listener.getsockname()[1])
        finally:
            server.should_exit = True
            thread.join()
