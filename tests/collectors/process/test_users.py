"""User names come from a name service, which may never answer."""

import os
import threading
import time

import pytest

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.process.collector import ProcessCollector
from iotop_ai.collectors.process.users import Users, look_up_name
from tests.clocks import SetClock
from tests.rigs.threads import no_thread
from tests.waiting import until


def test_a_name_that_comes_fast_is_shown_at_once() -> None:
    users = Users(Root(), lambda uid: {0: "root", 5: "games"}[uid], timeout_s=5.0)
    assert (users.name(0), users.name(5), users.name(77)) == ("root", "games", "77")
    assert users.late_names() == {}
    users.close()


def test_a_name_service_that_hangs_is_waited_for_once() -> None:
    released, asked = threading.Event(), []

    def ask(uid: int) -> str:
        asked.append(uid)
        released.wait(10)
        return f"user{uid}"

    users = Users(Root(), ask, timeout_s=0.1)
    begun = time.monotonic()
    assert [users.name(uid) for uid in range(1000, 1100)] == [str(uid) for uid in range(1000, 1100)]
    assert time.monotonic() - begun < 5  # waiting a hundred times would take 10 s
    assert asked == [1000]
    assert users.late_names() == {}
    released.set()
    names: dict[int, str] = {}
    until(lambda: bool(names.update(users.late_names()) or len(names) == 100))
    assert names == {uid: f"user{uid}" for uid in range(1000, 1100)}
    assert asked == list(range(1000, 1100))
    assert users.name(1042) == "user1042"
    users.close()


def test_a_name_that_comes_late_is_kept_when_another_user_appears() -> None:
    released = threading.Event()

    def ask(uid: int) -> str:
        released.wait(10)
        return f"user{uid}"

    users = Users(Root(), ask, timeout_s=0.05)
    assert users.name(1000) == "1000"
    released.set()
    until(lambda: bool(users._arrived))
    users.name(1001)
    assert users.late_names()[1000] == "user1000"
    users.close()


def test_a_name_that_was_not_found_is_looked_up_again() -> None:
    clock = SetClock(0)
    known: dict[int, str] = {}
    asked: list[int] = []

    def ask(uid: int) -> str:
        asked.append(uid)
        return known[uid]

    users = Users(Root(), ask, timeout_s=5.0, clock=clock)

    def waits() -> list[int]:
        """The minutes between two lookups while the name is unknown."""
        out, last = [], 0
        for minute in range(1, 400):
            clock.skip(60)
            before = len(asked)
            users.late_names()
            assert users._worker.wait(5)
            if len(asked) > before:
                out.append(minute - last)
                last = minute
        return out

    assert users.name(1000) == "1000"
    assert waits() == [1, 2, 4, 8, 16, 32, 60, 60, 60, 60, 60]
    known[1000] = "ann"
    clock.skip(3600)
    users.late_names()
    assert users._worker.wait(5)
    assert users.late_names() == {1000: "ann"}
    assert (users.name(1000), users.late_names()) == ("ann", {})
    users.close()


def test_a_lookup_that_gets_no_thread_is_made_later(monkeypatch: pytest.MonkeyPatch) -> None:
    users = Users(Root(), lambda uid: f"user{uid}", timeout_s=5.0)
    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", no_thread)
        assert users.name(1000) == "1000"
    until(lambda: users.late_names() == {1000: "user1000"})
    users.close()


def test_late_names_are_added_to_their_processes() -> None:
    released = threading.Event()

    def ask(uid: int) -> str:
        released.wait(10)
        return look_up_name(uid)

    collector = ProcessCollector(Root(), Clock(), users=Users(Root(), ask))
    own = os.getpid()
    try:
        first = {key.pid: info for key, info in collector.read().info.items()}
        assert first[own].user == str(os.geteuid())
        released.set()
        latest: dict[int, str] = {}

        def named() -> bool:
            latest.update({key.pid: info.user for key, info in collector.read().info.items()})
            return latest[own] == look_up_name(os.geteuid())

        until(named)
        assert first[own].user == str(os.geteuid())  # a table that was already returned does not change
    finally:
        collector.close()
