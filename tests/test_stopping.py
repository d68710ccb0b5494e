"""Signals that stop a command."""

import signal
from threading import Thread

import pytest

from polytask import stopping


@pytest.fixture(autouse=True)
def handlers():
    """Let SIGINT raise, also where a shell has this process ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_a_signal_that_comes_twice_in_a_moment_is_one_request(capsys):
    with stopping.stop_requests() as stops:
        for _ in range(2):  # as `timeout` sends it
            signal.raise_signal(signal.SIGINT)
        assert stops == [signal.SIGINT]
    assert capsys.readouterr().err.count("stopping after this iteration") == 1


def test_a_signal_that_is_repeated_later_stops_at_once(monkeypatch):
    with stopping.stop_requests() as stops:
        signal.raise_signal(signal.SIGINT)
        monkeypatch.setattr(stopping.time, "monotonic", lambda: stopping.SAME + 1e9)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert stops == [signal.SIGINT]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_handlers_are_those_of_before_after_an_error_too():
    received = []
    kinds = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(kind) for kind in kinds]
    with pytest.raises(OSError), stopping.handled_by(lambda number, frame: received.append(number)) as earlier:
        assert list(earlier.values()) == before
        for kind in kinds:
            signal.raise_signal(kind)
        raise OSError
    assert received == list(kinds)
    assert [signal.getsignal(kind) for kind in kinds] == before


def test_a_thread_that_may_not_handle_signals_goes_on_without():
    found = []

    def block():
        with stopping.stop_requests() as stops:
            found.append((stops, signal.getsignal(signal.SIGINT)))

    thread = Thread(target=block)
    thread.start()
    thread.join()
    assert found == [([], signal.default_int_handler)]
