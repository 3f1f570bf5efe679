"""Marks from other programs: who may send them, which messages are accepted, and at what rate."""

from __future__ import annotations

import json
import os
import socket
import struct
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from iotop_ai.collectors.io import marks_socket, monitor_sockets
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.marks_socket import (
    MARKS_PER_SECOND,
    MarksSocket,
    RateLimit,
    check_socket_variable,
    listen,
    parse_message,
)
from iotop_ai.collectors.io.monitor_sockets import send_mark, send_to_all
from iotop_ai.collectors.io.socket_file import SocketFile
from iotop_ai.collectors.io.with_timeout import _stuck
from iotop_ai.model.errors import InputError, UsageError
from iotop_ai.model.reading import Status
from iotop_ai.model.settings import Settings
from iotop_ai.sources.live.source import LiveSource
from tests.cli.program import iotop
from tests.rigs.nobody import as_user
from tests.rigs.threads import no_thread
from tests.waiting import until


def send_as(uid: int, path: Path, text: str) -> None:
    """Send from a process of another user."""

    def send() -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto(json.dumps({"kind": "mark", "text": text}).encode(), str(path))

    assert as_user(uid, send) == 0


def test_a_uid_may_have_32_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 3_000_000_000)
    marks = MarksSocket(str(tmp_path / "m.sock"), Clock(), lambda _: None)
    sent = (socket.SOL_SOCKET, socket.SCM_CREDENTIALS, struct.pack("iII", 7, 3_000_000_000, 0))
    assert marks._sender([sent]) == 7
    marks.close()


def test_a_mark_arrives_and_the_socket_is_removed(tmp_path: Path) -> None:
    received: list[str] = []
    path = tmp_path / "m.sock"
    marks = MarksSocket(str(path), Clock(), received.append)
    assert path.stat().st_mode & 0o777 == 0o600
    assert send_mark("epoch 3", {"IOTOP_AI_SOCKET": str(path)}) == 1
    until(lambda: received == ["epoch 3"])
    marks.close()
    assert not path.exists()
    assert send_mark("epoch 4", {"IOTOP_AI_SOCKET": str(path)}) == 0


def test_marks_sent_before_the_end_arrive(tmp_path: Path) -> None:
    received: list[str] = []
    path = tmp_path / "m.sock"
    for number in range(20):
        marks = MarksSocket(str(path), Clock(), received.append)
        assert send_mark(str(number), {"IOTOP_AI_SOCKET": str(path)}) == 1
        marks.close()
        assert received[-1] == str(number)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to send as another user")
def test_another_users_marks_are_refused(tmp_path: Path) -> None:
    received: list[str] = []
    path = tmp_path / "m.sock"
    marks = MarksSocket(str(path), Clock(), received.append)
    os.chmod(path, 0o666)
    for folder in [tmp_path, *tmp_path.parents][:-2]:
        os.chmod(folder, folder.stat().st_mode | 0o111)
    send_as(65534, path, "from nobody")
    send_as(0, path, "from root")
    until(lambda: received == ["from root"])
    assert received == ["from root"]
    marks.close()


def test_invalid_marks_are_ignored(tmp_path: Path) -> None:
    received: list[str] = []
    path = tmp_path / "m.sock"
    marks = MarksSocket(str(path), Clock(), received.append)
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
    until(lambda: received == ["�[31mred"])
    marks.close()


def test_marks_are_rate_limited() -> None:
    class Still(Clock):
        now = 5 * 10**9

        def monotonic_ns(self) -> int:
            return self.now

    clock = Still()
    limit = RateLimit(clock)
    assert [limit.allows(7) for _ in range(MARKS_PER_SECOND + 2)] == [True] * MARKS_PER_SECOND + [False] * 2
    assert limit.allows(8)
    clock.now += 10**9
    assert limit.allows(7)
    assert all(limit.allows(pid) for pid in range(100, 1090))
    assert not all(limit.allows(pid) for pid in range(2000, 3000))


def test_a_monitor_listens_at_the_socket_that_the_variable_names(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    received: list[str] = []
    environment = {"IOTOP_AI_SOCKET": str(folder / "1.sock")}
    marks = listen(Clock(), received.append, environment)
    assert marks is not None
    assert send_mark("a", environment) == 1
    until(lambda: received == ["a"])
    marks.close()


def test_a_socket_in_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        listen(Clock(), print, {"IOTOP_AI_SOCKET": str(tmp_path / "no" / "folder")})


def foreign(kind: str, path: Path) -> None:
    """Put something other than one of our dead sockets at a path."""
    if kind == "file":
        path.write_text("mine")
    elif kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "link":
        (path.parent / "target").write_text("mine")
        path.symlink_to(path.parent / "target")
    elif kind == "link to a dead socket":
        dead(path.parent / "target")
        path.symlink_to(path.parent / "target")


def dead(path: Path, kind: int = socket.SOCK_DGRAM) -> None:
    """A socket file whose process has ended."""
    with socket.socket(socket.AF_UNIX, kind) as one:
        one.bind(str(path))


KINDS = ("file", "folder", "fifo", "link", "link to a dead socket")


@pytest.mark.parametrize("kind", KINDS)
def test_files_of_other_kinds_are_neither_used_nor_removed(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "m.sock"
    foreign(kind, path)
    before = sorted((p.name, p.lstat().st_ino, p.lstat().st_mode) for p in tmp_path.iterdir())
    environment = {"IOTOP_AI_SOCKET": str(path)}
    for begin in (lambda: listen(Clock(), print, environment), lambda: check_socket_variable(environment)):
        with pytest.raises(UsageError, match="is not replaced"):
            begin()
    if kind == "link to a dead socket":
        assert send_mark("x", environment) == 0
    else:
        with pytest.raises(UsageError, match="is not a socket"):
            send_mark("x", environment)
    assert sorted((p.name, p.lstat().st_ino, p.lstat().st_mode) for p in tmp_path.iterdir()) == before


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM])
def test_a_used_socket_is_kept_and_a_dead_one_replaced(tmp_path: Path, kind: int) -> None:
    path = tmp_path / "m.sock"
    environment = {"IOTOP_AI_SOCKET": str(path)}
    with socket.socket(socket.AF_UNIX, kind) as live:
        live.bind(str(path))
        if kind == socket.SOCK_STREAM:
            live.listen()
        with pytest.raises(UsageError, match="listen"):
            check_socket_variable(environment)
        with pytest.raises(UsageError, match="listen"):
            MarksSocket(str(path), Clock(), print)
        assert path.is_socket()
    received: list[str] = []
    marks = listen(Clock(), received.append, environment)
    assert marks is not None
    assert [p.name for p in tmp_path.iterdir()] == ["m.sock"]
    assert path.stat().st_mode & 0o777 == 0o600
    assert send_mark("a", environment) == 1
    until(lambda: received == ["a"])
    marks.close()
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_takes_the_path_later_is_not_removed(tmp_path: Path) -> None:
    path = tmp_path / "m.sock"
    marks = MarksSocket(str(path), Clock(), print)
    path.unlink()
    path.write_text("mine")
    marks.close()
    assert path.read_text() == "mine"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make another user's socket")
def test_another_users_dead_socket_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "m.sock"
    dead(path)
    os.chown(path, 65534, 65534)
    with pytest.raises(UsageError, match="user 65534"):
        MarksSocket(str(path), Clock(), print)
    assert path.is_socket()


def test_a_folder_in_which_all_can_replace_the_socket_is_refused(tmp_path: Path) -> None:
    wide = tmp_path / "wide"
    wide.mkdir()
    wide.chmod(0o777)
    with pytest.raises(InputError, match="every user can write"):
        MarksSocket(str(wide / "m.sock"), Clock(), print)


def test_only_sockets_of_killed_monitors_are_removed(tmp_path: Path) -> None:
    folder = tmp_path / "iotop-ai" / "marks.d"
    folder.mkdir(mode=0o700, parents=True)
    dead(folder / "1.sock")
    (folder / "2.sock").write_text("mine")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        assert send_to_all(sender, b"x", str(folder)) == 0
    assert [p.name for p in folder.iterdir()] == ["2.sock"]


def test_a_socket_whose_name_is_taken_meanwhile_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second program replaces the dead socket, and a third one takes the name before it can be given back."""
    path, second = tmp_path / "1.sock", tmp_path / "2.sock"
    dead(path)
    dead(second)
    rename = os.rename

    def rename_in_between(source: str, target: str, **folders: int) -> None:
        rename(second, path)
        rename(source, target, **folders)
        path.write_text("third")

    monkeypatch.setattr(os, "rename", rename_in_between)
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        monitor_sockets.remove_dead_socket(folder, path.name)
    finally:
        os.close(folder)
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("1.sock", "third")]


def test_a_dead_socket_that_cannot_be_removed_does_not_end_the_sending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "not permitted")

    for name in ("1.sock", "3.sock"):
        dead(tmp_path / name)
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as monitor,
    ):
        monitor.bind(str(tmp_path / "2.sock"))
        monkeypatch.setattr(monitor_sockets, "remove_dead_socket", refuse)
        assert send_to_all(sender, b"x", str(tmp_path)) == 1


def test_commands_refuse_a_path_that_is_not_a_socket_with_a_one_line_error(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    path.write_text("weights")
    for arguments in (("mark", "x"), ("record", "--duration", "0.2", "-o", str(tmp_path / "a"))):
        done = iotop(*arguments, IOTOP_AI_SOCKET=str(path))
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert done.stderr.startswith("usage: IOTOP_AI_SOCKET")
        assert "not a socket" in done.stderr
    assert path.read_text() == "weights"
    assert [p.name for p in tmp_path.iterdir()] == ["model.pt"]


def test_a_live_source_reports_why_it_receives_no_marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.pt"
    path.write_text("weights")
    monkeypatch.setenv("IOTOP_AI_SOCKET", str(path))
    source = LiveSource(Settings(smart=False), marks=True)
    try:
        found = source.snapshot().marks
    finally:
        source.close()
    assert found.status is Status.FAILED
    assert "not a socket" in found.reason
    assert path.read_text() == "weights"


def test_a_source_whose_socket_gets_no_thread_goes_on_without_marks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IOTOP_AI_SOCKET", str(tmp_path / "m.sock"))
    start = threading.Thread.start
    monkeypatch.setattr(
        threading.Thread, "start", lambda thread: (no_thread if thread.name == "marks" else start)(thread)
    )
    source = LiveSource(Settings(smart=False), marks=True)
    try:
        found = source.snapshot().marks
    finally:
        source.close()
    assert (found.status, found.reason) == (Status.FAILED, "marks cannot be received: can't start new thread")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def late_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """The folder of the socket answers only when this event is set."""
    answers = threading.Event()

    def late(*arguments: Any) -> SocketFile:
        assert answers.wait(60)
        return SocketFile(*arguments)

    monkeypatch.setenv("IOTOP_AI_SOCKET", str(tmp_path / "m.sock"))
    monkeypatch.setattr(marks_socket, "SocketFile", late)
    monkeypatch.setattr(marks_socket, "HOME_TIMEOUT_S", 0.05)
    return answers


def test_a_socket_that_opens_late_is_used_and_removed(tmp_path: Path, late_socket: threading.Event) -> None:
    source = LiveSource(Settings(smart=False), marks=True)
    try:
        found = source.snapshot().marks
        assert (found.status, found.reason) == (Status.FAILED, "marks cannot be received: no answer for 0.05 s")
        late_socket.set()
        until(lambda: source.snapshot().marks.status is Status.OK, "the late socket", 20)
        assert send_mark("epoch 3", os.environ) == 1
        until(lambda: "epoch 3" in [event.text for event in source.snapshot().events], "the mark")
    finally:
        late_socket.set()
        source.close()
    assert list(tmp_path.iterdir()) == []


def test_a_socket_that_opens_after_the_end_is_removed(tmp_path: Path, late_socket: threading.Event) -> None:
    source = LiveSource(Settings(smart=False), marks=True)
    source.close()
    late_socket.set()
    thread, _mount = _stuck["marks"]
    thread.join(20)
    assert not thread.is_alive()
    assert list(tmp_path.iterdir()) == []


def test_an_empty_mark_is_refused() -> None:
    with pytest.raises(UsageError, match="text"):
        send_mark("  ", {})
    assert parse_message(b'{"kind":"mark","text":"  "}', 0) is None
