"""The page: controls, worlds and plots. One thread owns worlds and page; what visitors do waits in a queue for it."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from polytask.config.watching import PlayConfig
from polytask.errors import UserError
from polytask.viewer import source
from polytask.viewer.drawing import Drawing
from polytask.viewer.plots import Plots
from polytask.viewer.scene import Scene
from polytask.viewer.session import Session
from polytask.viewer.shapes import Floats

if TYPE_CHECKING:
    import viser

ALL_WORLDS = "all worlds"
PICTURES = 30.0  # per second, at most
PLOTS_EVERY, FOLLOW_EVERY = 0.5, 1.0  # seconds
_MOVABLE = "Drag the handle to move the goal until the next episode. The policy may not know goals far from its own."
_UNWATCHED = "Choose one world under *watch* to move its goal."
_FIXED = "The goal of this task belongs to a fixture and cannot be moved."
_WAYPOINTS = "Goals of parkour are waypoints of the terrain and cannot be moved."


class Page:
    """The web page of a session."""

    def __init__(self, server: viser.ViserServer, config: PlayConfig, session: Session) -> None:
        """Fill the page."""
        self._server, self._config, self.session = server, config, session
        self._orders: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._follower = source.Follower(config) if config.run is not None else None
        self._loaded = 0  # checkpoints since the start
        self._pace, self._counted, self._error = 0.0, 0, ""  # speed since the last status, steps until then, a message
        self._policy = source.CHECKPOINT if config.checkpoint is not None else str(config.policy)
        self._task = config.task or source.ALL_TASKS
        server.gui.configure_theme(show_logo=False, show_share_button=False)
        server.gui.main_panel.dock_right()
        self._add_controls()
        self._show(session)
        server.on_client_connect(self._welcome)

    # Building the page

    def _add_controls(self) -> None:
        gui: Any = self._server.gui
        self._status = gui.add_markdown("")
        self._pause = gui.add_button("Pause", hint="Stop or continue")
        self._step = gui.add_button("Step", hint="One control step, while time stands still", disabled=True)
        self._reset = gui.add_button("New episodes")
        self._speed = gui.add_slider("speed", 0.05, 2.0, 0.05, min(max(self._config.speed, 0.05), 2.0))
        self._policies = gui.add_dropdown("policy", source.policies(self._config), initial_value=self._policy)
        self._tasks = gui.add_dropdown("task", source.tasks(), initial_value=self._task)
        self._watch = gui.add_dropdown("watch", [ALL_WORLDS])
        self._follow = gui.add_checkbox("follow the robot", True)
        self._camera = gui.add_button("Reset camera")
        self._goal = gui.add_markdown("")
        for button, action in (
            (self._pause, self.toggle),
            (self._step, self.step),
            (self._reset, self._new_episodes),
            (self._camera, self._reset_cameras),
        ):
            button.on_click(self._ordered(action))
        self._speed.on_update(self._ordered(self._change_speed))
        self._policies.on_update(self._ordered(self._choose))
        self._tasks.on_update(self._ordered(self._choose))
        self._watch.on_update(self._ordered(self._watch_another))
        self._plots: Plots | None = None

    def _ordered(self, action: Callable[[], None]) -> Callable[[Any], None]:
        """Return a callback that leaves an action of a visitor to the thread of the page."""

        def order(event: Any) -> None:
            if event.client is not None:  # not if this program has set the value
                self._orders.put(action)

        return order

    def _show(self, session: Session) -> None:
        """Show the worlds of a session."""
        self.session, self._counted = session, session.steps
        self.drawing = Drawing(self._server, Scene(session.env))
        if self._plots is not None:
            self._plots.remove()
        self._plots = Plots(self._server.gui, session.env.spec.action_dim)
        names = [f"{world}: {caption.task}" for world, caption in enumerate(session.captions)]
        self._watch.options = [ALL_WORLDS, *names]
        self._watch.value = ALL_WORLDS
        position, aim = self.drawing.view(None)
        self._server.initial_camera.position, self._server.initial_camera.look_at = position, aim
        self._watch_another()
        self.draw()

    # What visitors do

    @property
    def watched(self) -> int | None:
        """The world that is watched, or none."""
        options = list(self._watch.options)
        index = options.index(self._watch.value) if self._watch.value in options else 0
        return None if index == 0 else index - 1

    def toggle(self) -> None:
        """Stop or continue."""
        self.session.is_paused = not self.session.is_paused
        self._pause.label = "Continue" if self.session.is_paused else "Pause"
        self._step.disabled = not self.session.is_paused

    def step(self) -> None:
        """Take one control step, while time stands still."""
        if self.session.is_paused:
            self.session.step()
            self.draw()

    def _new_episodes(self) -> None:
        self.session.reset()
        self.draw()

    def _change_speed(self) -> None:
        self.session.clock.speed = float(self._speed.value)

    def _choose(self) -> None:
        """Build the worlds and the policy that were chosen; if they do not fit, keep the present ones and say why."""
        policy, task = str(self._policies.value), str(self._tasks.value)
        if (policy, task) == (self._policy, self._task):
            return
        self._status.content = f"**building {task} with policy {policy} ...**"
        self._server.flush()
        try:
            session = source.build(source.chosen(self._config, policy, task))
        except UserError as error:
            self._error = str(error)
            self._policies.value, self._tasks.value = self._policy, self._task
            self._write_status()
            return
        session.is_paused, session.clock.speed = self.session.is_paused, self.session.clock.speed
        old, self._policy, self._task, self._error = self.session, policy, task, ""
        self._show(session)
        old.close()
        self._reset_cameras()

    def _watch_another(self) -> None:
        """Move the cameras to the watched world, and show whether its goal can be moved."""
        world, goals = self.watched, self.session.goals
        self._last_centre = None if world is None else self.drawing.scene.centre(world)
        self.drawing.hide_handle()
        if world is None:
            self._goal.content = _UNWATCHED if goals.any() else _explain(self.session)
        elif goals.can_move(world):
            self._goal.content = _MOVABLE
            self.drawing.show_handle(world, goals.position(world), lambda goal: self._move_goal(world, goal))
        else:
            self._goal.content = _explain(self.session)
        self._reset_cameras()

    def _move_goal(self, world: int, goal: Floats) -> None:
        session = self.session

        def move() -> None:
            if session is self.session:  # not another one that was chosen meanwhile
                session.goals.move(world, goal.tolist())
                self.draw()

        self._orders.put(move)

    def _reset_cameras(self) -> None:
        for client in self._server.get_clients().values():
            self._aim(client)

    def _welcome(self, client: viser.ClientHandle) -> None:
        self._orders.put(lambda: self._aim(client))

    def _aim(self, client: viser.ClientHandle) -> None:
        view = self.drawing.view(self.watched, client.camera.aspect)
        client.camera.position, client.camera.look_at = view

    # Time

    def run(self, stops: Sequence[int]) -> None:
        """Let time pass until a signal arrives."""
        last = plotted = looked = time.perf_counter()
        while not stops:
            self.obey()
            now = time.perf_counter()
            if self.session.advance(now - last):
                self.draw()
            if now - plotted > PLOTS_EVERY:
                self._draw_numbers(now - plotted)
                plotted = now
            if now - looked > FOLLOW_EVERY:
                self._look_for_checkpoint()
                looked = now
            last = now
            time.sleep(max(0.001, 1 / PICTURES - (time.perf_counter() - now)))

    def obey(self) -> None:
        """Do what visitors have asked for since the last time."""
        while not self._orders.empty():
            self._orders.get()()

    def draw(self) -> None:
        """Show the worlds as they are now."""
        self.drawing.update(self.session.captions)
        world = self.watched
        if world is None:
            return
        if self.session.goals.can_move(world) and self.session.captions[world].step == 0:
            self.drawing.move_handle(world, self.session.goals.position(world))
        centre = self.drawing.scene.centre(world)
        if self._follow.value and self._last_centre is not None and np.any(centre != self._last_centre):
            for client in self._server.get_clients().values():
                client.camera.position = client.camera.position + (centre - self._last_centre)
        self._last_centre = centre

    def _draw_numbers(self, seconds: float) -> None:
        """Draw the plots and write the status, some seconds after the last time."""
        assert self._plots is not None
        self._pace = (self.session.steps - self._counted) / seconds / self.session.clock.rate
        self._counted = self.session.steps
        self._plots.update(self.session.numbers(), self.watched)
        self._write_status()

    def _write_status(self) -> None:
        """Write where the session stands."""
        session = self.session
        solved = sum(caption.score >= 1.0 for caption in session.captions)
        speed = "paused" if session.is_paused else f"{self._pace:.2f} x real time"
        lines = [f"**step {session.steps}** · {speed} · {solved} of {len(session.captions)} solved"]
        if self._follower is not None:
            lines.append(f"following {self._config.run}: {self._loaded} new checkpoints")
        if self._error:
            lines.append(f"**{self._error}**")
        self._status.content = "\n\n".join(lines)

    def _look_for_checkpoint(self) -> None:
        """Load the newest checkpoint of the run that is followed, if it has changed and is watched."""
        if self._follower is None or self._policy != source.CHECKPOINT:
            return
        try:
            policy = self._follower.newer(self.session.env)
        except UserError as error:  # for example, the run was deleted
            self._error = str(error)
            return
        if policy is not None:
            self.session.policy, self._error = policy, ""
            self._loaded += 1


def _explain(session: Session) -> str:
    """Return why goals cannot be moved."""
    return _WAYPOINTS if session.env.config.domain.name == "parkour" else _FIXED
