"""Messages of the commands about work that takes long."""

import io
import sys
import time

import pytest

from dmlax.onnx import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def _wait_for(stream, text):
    end = time.monotonic() + 30
    while text not in stream.getvalue():
        assert time.monotonic() < end, stream.getvalue()
        time.sleep(0.001)


def test_a_terminal_sees_a_counter_that_goes_away(monkeypatch):
    monkeypatch.setattr(progress, "_ON_TERMINAL", 0.001)
    monkeypatch.setattr(sys, "stderr", stream := Terminal())
    for item in progress.counted(range(3), "timing", 3):
        _wait_for(stream, f"\r\x1b[Ktiming: {item} of 3, 0 s")
    assert stream.getvalue().endswith("\r\x1b[K")
    assert "\n" not in stream.getvalue()


def test_a_stage_shows_its_seconds_until_an_error_ends_it(monkeypatch):
    monkeypatch.setattr(progress, "_ON_TERMINAL", 0.001)
    monkeypatch.setattr(sys, "stderr", stream := Terminal())

    def work():
        with progress.stage("loading"):
            _wait_for(stream, "\r\x1b[Kloading: 0 s")
            raise KeyError

    with pytest.raises(KeyError):
        work()
    assert stream.getvalue().endswith("\r\x1b[K")


@pytest.mark.parametrize("kind", [Terminal, io.StringIO])
def test_what_ends_soon_says_nothing(monkeypatch, kind):
    monkeypatch.setattr(sys, "stderr", stream := kind())
    assert [*progress.counted("abc", "loading", 3)] == ["a", "b", "c"]
    assert not stream.getvalue()


def test_elsewhere_a_line_comes_rarely(monkeypatch):
    assert progress._ELSEWHERE >= 30
    monkeypatch.setattr(progress, "_ELSEWHERE", 0.001)
    monkeypatch.setattr(sys, "stderr", stream := io.StringIO())
    with progress.stage("loading", 7) as count:
        count()
        _wait_for(stream, "loading: 1 of 7, 0 s\n")
    assert "\r" not in stream.getvalue()
