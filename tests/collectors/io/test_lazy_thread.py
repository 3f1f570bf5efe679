"""A thread that the first of several callers starts."""

from __future__ import annotations

import threading

import pytest

from iotop_ai.collectors.io.lazy_thread import LazyThread
from tests.rigs.threads import no_thread


def test_callers_at_the_same_time_start_one_thread() -> None:
    runs: list[str] = []
    lazy = LazyThread("lazy", lambda: runs.append(threading.current_thread().name))
    at_once = threading.Barrier(8)

    def call() -> None:
        at_once.wait(20)
        lazy.start()
        lazy.join(20)

    callers = [threading.Thread(target=call) for _ in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(20)
    assert runs == ["lazy"]
    # A thread that has ended is not started again.
    lazy.start()
    assert runs == ["lazy"]


def test_a_thread_that_cannot_start_is_started_by_the_next_call(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = threading.Event()
    lazy = LazyThread("lazy", ran.set)
    lazy.join(0)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread)
        with pytest.raises(RuntimeError):
            lazy.start()
    assert not lazy.started
    lazy.start()
    assert ran.wait(20)
    assert lazy.started
