"""What the command line makes of errors that no command expects."""

import signal

import pytest


def test_an_interrupt_is_one_line_whatever_a_library_makes_of_it(run, monkeypatch):
    def interrupt(words):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise RuntimeError("the library's own error") from None

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a background process may ignore interrupts
    try:
        monkeypatch.setattr("polytask.cli.main._main", interrupt)
        assert run("list") == (130, "", "polytask: interrupted\n")
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_bug_is_not_hidden(run, monkeypatch):
    def fail(words):
        raise RuntimeError("a bug")

    monkeypatch.setattr("polytask.cli.main._main", fail)
    with pytest.raises(RuntimeError, match="a bug"):
        run("list")


def test_exhausted_memory_is_one_line(run, monkeypatch):
    def fail(words):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes")

    monkeypatch.setattr("polytask.cli.main._main", fail)
    code, _, err = run("list")
    assert (code, err.startswith("polytask: not enough memory; use fewer worlds")) == (2, True)
