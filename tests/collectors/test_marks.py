"""Marks of other programs: who is heard, what is taken, how much of it."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from iotop_ai.collectors.clock import Clock
from iotop_ai.collectors.marks import PER_SECOND, Allowance, MarksSocket, listen, parse_mark, send_mark
from iotop_ai.model.errors import UsageError


def send_as(uid: int, path: Path, text: str) -> None:
    """Send from a process of another user."""
    pid = os.fork()
    if not pid:
        status = 1
        try:
            os.setresuid(uid, uid, uid)
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.sendto(json.dumps({"kind": "mark", "text": text}).encode(), str(path))
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0


def eventually(true: Callable[[], bool]) -> bool:
    for _ in range(200):
        if true():
            return True
        time.sleep(0.01)
    return False


def test_a_mark_arrives_and_the_socket_goes(tmp_path: Path) -> None:
    heard: list[str] = []
    path = tmp_path / "m.sock"
    marks = MarksSocket(str(path), Clock(), heard.append)
    assert path.stat().st_mode & 0o777 == 0o600
    assert send_mark("epoch 3", {"IOTOP_AI_SOCKET": str(path)}) == 1
    assert eventually(lambda: heard == ["epoch 3"])
    marks.close()
    assert not path.exists()
    assert send_mark("epoch 4", {"IOTOP_AI_SOCKET": str(path)}) == 0


def test_what_was_sent_before_the_end_is_heard(tmp_path: Path) -> None:
    heard: list[str] = []
    path = tmp_path / "m.sock"
    for number in range(20):
        marks = MarksSocket(str(path), Clock(), heard.append)
        assert send_mark(str(number), {"IOTOP_AI_SOCKET": str(path)}) == 1
        marks.close()
        assert heard[-1] == str(number)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to send as somebody else")
def test_another_user_is_not_heard(tmp_path: Path) -> None:
    heard: list[str] = []
    path = tmp_path / "m.sock"
    marks = MarksSocket(str(path), Clock(), heard.append)
    os.chmod(path, 0o666)
    for folder in [tmp_path, *tmp_path.parents][:-2]:
        os.chmod(folder, folder.stat().st_mode | 0o111)
    send_as(65534, path, "from nobody")
    send_as(0, path, "from root")
    assert eventually(lambda: heard == ["from root"])
    assert heard == ["from root"]
    marks.close()


def test_what_is_no_mark_is_left(tmp_path: Path) -> None:
    heard: list[str] = []
    path = tmp_path / "m.sock"
    marks = MarksSocket(str(path), Clock(), heard.append)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        for raw in (
            b"\xff",
            b"[]",
            b'{"kind":"mark"}',
            b'{"kind":"x","text":"y"}',
            b"[" * 4000,
            b'{"kind":"mark","text":7}',
        ):
            sender.sendto(raw, str(path))
        sender.sendto(json.dumps({"kind": "mark", "text": "x" * 5000}).encode(), str(path))
        time.sleep(0.05)
        sender.sendto(b'{"kind":"mark","text":"\\u001b[31mred"}', str(path))
    assert eventually(lambda: heard == ["�[31mred"])
    marks.close()


def test_a_talker_is_cut() -> None:
    class Still(Clock):
        now = 5 * 10**9

        def monotonic_ns(self) -> int:
            return self.now

    clock = Still()
    allowance = Allowance(clock)
    assert [allowance.take(7) for _ in range(PER_SECOND + 2)] == [True] * PER_SECOND + [False] * 2
    assert allowance.take(8)
    clock.now += 10**9
    assert allowance.take(7)
    assert all(allowance.take(pid) for pid in range(100, 1090))
    assert not all(allowance.take(pid) for pid in range(2000, 3000))


def test_every_monitor_of_the_user_is_reached(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    heard: list[str] = []
    environment = {"IOTOP_AI_SOCKET": str(folder / "1.sock")}
    marks = listen(Clock(), heard.append, environment)
    assert marks is not None
    assert send_mark("a", environment) == 1
    assert eventually(lambda: heard == ["a"])
    marks.close()


def test_a_place_that_cannot_be_had_is_no_trouble(tmp_path: Path) -> None:
    assert listen(Clock(), print, {"IOTOP_AI_SOCKET": str(tmp_path / "no" / "folder")}) is None


def test_an_empty_mark_is_refused() -> None:
    with pytest.raises(UsageError, match="text"):
        send_mark("  ", {})
    assert parse_mark(b'{"kind":"mark","text":"  "}') is None
