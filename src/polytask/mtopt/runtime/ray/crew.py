"""Workers under supervision: calls go out, answers come back as events, and who dies is replaced."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import ObjectLostError, RayActorError, RayTaskError

from polytask.errors import UserError

POLL = 1.0  # s between looks at the clock while nothing happens
GOODBYE = 10.0  # s that workers have for closing their files

Submit = Callable[[Any], Any]  # actor -> reference of its answer, or two: of the answer and of bulk data
Then = Callable[[Any, Any], None]  # takes the answer and the reference of the bulk data, if any


class TimeIsUpError(Exception):
    """The time that the run was given is over."""


@dataclass
class Post:
    """A place in the crew, whoever fills it."""

    name: str
    make: Callable[[int], Any]  # number of deaths so far -> a new actor
    actor: Any = None
    pid: int = 0  # of the actor's process; 0 until it is ready
    deaths: int = 0


@dataclass(frozen=True)
class Call:
    """Something that a worker was asked and has not answered."""

    post: Post
    actor: Any  # who was asked; the post may have been filled anew since
    data: Any  # reference of bulk data that comes with the answer
    then: Then
    lost: Callable[[], None]


class Crew:
    """Keeps the posts filled and delivers answers; for one thread."""

    def __init__(self, say: Callable[[str], None], max_deaths: int, max_seconds: float = 0.0) -> None:
        """Start without anybody.

        Args:
            say: Takes a line for whoever watches.
            max_deaths: Deaths at one post after which the run fails: something is wrong then.
            max_seconds: Time after which `step` raises TimeIsUpError; 0 for never.
        """
        self.say, self.max_deaths = say, max_deaths
        self.posts: list[Post] = []
        self._deadline = time.monotonic() + max_seconds if max_seconds else float("inf")
        self._pending: dict[Any, Call] = {}

    @property
    def deaths(self) -> int:
        """Count the workers that were replaced."""
        return sum(post.deaths for post in self.posts)

    def add(self, name: str, make: Callable[[int], Any]) -> Post:
        """Create a post and fill it."""
        post = Post(name, make)
        self.posts.append(post)
        self._fill(post)
        return post

    def call(self, post: Post, submit: Submit, then: Then, lost: Callable[[], None]) -> None:
        """Ask a worker and go on.

        Args:
            post: Who.
            submit: Calls a method of the actor.
            then: Takes the answer, within a later `step`.
            lost: Is called instead if there will be none: the worker died, or what it was given is gone. By then the
                post has been filled again.
        """
        refs = submit(post.actor)
        answer, data = refs if isinstance(refs, list) else (refs, None)
        self._pending[answer] = Call(post, post.actor, data, then, lost)

    def ask(self, post: Post, submit: Submit) -> Any:
        """Ask a worker, and its successors if it dies, until there is an answer; other answers are delivered too."""
        answers: list[Any] = []

        def again() -> None:
            self.call(post, submit, lambda answer, _: answers.append(answer), again)

        again()
        while not answers:
            self.step()
        return answers[0]

    def step(self) -> None:
        """Wait for one answer and deliver it.

        Raises:
            UserError: If a worker met a mistake of the user's, or workers die again and again.
            TimeIsUpError: If the run's time is over.
        """
        if time.monotonic() > self._deadline:
            raise TimeIsUpError
        ready, _ = ray.wait(list(self._pending), num_returns=1, timeout=POLL)
        for ref in ready:
            call = self._pending.pop(ref)
            try:
                answer = ray.get(ref)
            except RayTaskError as error:
                # A task also fails where its argument is gone: it was lost with the machine that held it.
                if not isinstance(error.cause, RayActorError | ObjectLostError):
                    raise error.cause if isinstance(error.cause, UserError) else error from None
                call.lost()
            except ObjectLostError:
                call.lost()
            except RayActorError as error:
                self._replace(call, error)
                call.lost()
            else:
                call.then(answer, call.data)

    def close(self) -> None:
        """Let idle workers close their files, then end all of them."""
        self._pending.clear()
        goodbyes = [post.actor.close.remote() for post in self.posts]
        if goodbyes:
            ray.wait(goodbyes, num_returns=len(goodbyes), timeout=GOODBYE)
        for post in self.posts:
            ray.kill(post.actor)
        self.posts.clear()

    def _fill(self, post: Post) -> None:
        post.pid, post.actor = 0, post.make(post.deaths)

        def introduce(pid: Any, _: Any) -> None:
            post.pid = pid

        self.call(post, lambda actor: actor.open.remote(), introduce, lambda: None)

    def _replace(self, call: Call, error: RayActorError) -> None:
        """Fill a post again, once for each death however many calls it leaves unanswered."""
        post = call.post
        if post.actor is not call.actor:
            return
        post.deaths += 1
        if post.deaths > self.max_deaths:
            raise UserError(f"{post.name} died {post.deaths} times, the last time because: {error}")
        self.say(f"{post.name} died; another one takes its place")
        ray.kill(call.actor)  # it may only be out of reach
        self._fill(post)
