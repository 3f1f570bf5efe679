"""The exit codes in the kernel's taskstats messages."""

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from iotop_ai.collectors.base import Unavailable
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.process.exit_codes import (
    HEADER,
    TYPE_AGGR_PID,
    TYPE_AGGR_TGID,
    TYPE_PID,
    TYPE_STATS,
    ExitWatch,
    attribute,
    attributes,
    exit_code,
    parse_exit,
)

LEADER_LEFT = """
import ctypes, os, threading, time
threading.Thread(target=lambda: (time.sleep(0.2), os._exit(7))).start()
ctypes.CDLL(None).pthread_exit(None)
"""
THREADS = """
import os, threading, time
for _ in range(3):
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
os._exit(5)
"""


def message(thread: int, group: int, status: int, *, version: int = 16, last: bool = False) -> bytes:
    offset = 464 if version == 15 else 368
    stats = bytearray(328 if version < 12 else offset + 8)
    struct.pack_into("=HxxI", stats, 0, version, status)
    if version >= 12:
        struct.pack_into("=I", stats, offset, group)
    inner = attribute(TYPE_PID, struct.pack("=I", thread)) + attribute(TYPE_STATS, bytes(stats))
    body = attribute(TYPE_AGGR_PID, inner) + (attribute(TYPE_AGGR_TGID, b"") if last else b"")
    return HEADER.pack(HEADER.size + len(body), 31, 0, 0, 0, 2, 1, 0) + body


def test_taskstats_messages_give_exit_codes() -> None:
    assert parse_exit(message(7, 7, 3 << 8)) == (7, 3)
    assert parse_exit(message(7, 7, 9)) == (7, -9)
    assert parse_exit(message(7, 7, 11 | 0x80)) == (7, -11)
    assert parse_exit(message(8, 7, 3 << 8)) is None
    assert parse_exit(message(8, 7, 7 << 8, last=True)) == (7, 7)
    for version in (12, 14, 15, 16):
        assert parse_exit(message(7, 7, 9, version=version)) == (7, -9)
        assert parse_exit(message(8, 7, 9, version=version)) is None


@pytest.mark.parametrize("version", [8, 9, 10, 11])
def test_an_older_kernel_gives_the_exit_code_of_each_thread(version: int) -> None:
    """Its messages end before ac_tgid. A last thread that is not the leader may have no exit code."""
    assert parse_exit(message(7, 7, 3 << 8, version=version)) == (7, 3)
    assert parse_exit(message(7, 7, 9, version=version, last=True)) == (7, -9)
    assert parse_exit(message(8, 7, 0, version=version, last=True)) == (8, 0)


def test_damaged_messages_are_ignored() -> None:
    whole = message(7, 7, 0)
    assert [parse_exit(whole[:size]) for size in range(0, len(whole) - 8, 4)] == [None] * (len(whole) // 4 - 2)
    assert list(attributes(b"\x02\x00\x01\x00")) == []


def test_exit_codes_are_computed_from_wait_statuses() -> None:
    assert [exit_code(status) for status in (0, 256, 255 << 8, 15, 139)] == [0, 1, 255, -15, -11]


@pytest.fixture
def watch() -> ExitWatch:
    try:
        return ExitWatch(Root())
    except Unavailable as unavailable:
        pytest.skip(unavailable.reason)


@pytest.mark.parametrize("older", [False, True])
def test_taskstats_reports_every_exit(watch: ExitWatch, older: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """older: messages are read without ac_tgid, as before Linux 5.19; the result is then that of the leader."""
    if older:
        monkeypatch.setattr("iotop_ai.collectors.process.exit_codes.TGID_SINCE", 1000)
    try:
        watch.read()
        ended = {}
        python = [sys.executable, "-S", "-c"]
        for command, code, leaders_code in (
            (["sh", "-c", "exit 3"], 3, 3),
            (["sh", "-c", "kill -15 $$"], -15, -15),
            ([*python, THREADS], 5, 5),
            ([*python, LEADER_LEFT], 7, 0),
        ):
            child = subprocess.Popen(command)
            assert child.wait() == code
            ended[child.pid] = leaders_code if older else code
        codes = watch.read()
        assert {pid: codes.get(pid) for pid in ended} == ended
        assert not set(watch.read()) & set(ended)
    finally:
        watch.close()
        watch.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become nobody")
def test_an_ordinary_user_gets_the_reason() -> None:
    program = (
        "import os, sys; sys.path.insert(0, sys.argv[1])\n"
        "from iotop_ai.collectors.process.exit_codes import ExitWatch\n"
        "from iotop_ai.collectors.base import Unavailable\n"
        "from iotop_ai.collectors.io.root import Root\n"
        "os.setgid(65534); os.setuid(65534)\n"
        "try: ExitWatch(Root())\n"
        "except Unavailable as lack: print(lack.status, lack.reason)\n"
    )
    repository = str(Path(__file__).parents[3])
    run = subprocess.run([sys.executable, "-c", program, repository], capture_output=True, text=True, check=True)
    assert run.stdout.startswith(("denied exit codes of others need root", "unsupported "))
