"""Signals that stop a command."""

import signal

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
