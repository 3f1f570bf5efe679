"""No output and no file contains a secret that is in a process's command line, in a mark or in an error."""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from iotop_ai.cli.start.crash import NAME, note_crash
from iotop_ai.cli.start.logging import LOG_VARIABLE, quiet_log
from tests.cli.program import PLAIN, TOP, command, iotop, iotop_here

SECRET = "Zq7planted"
BUSY = 'import time\nwhile True: open("/proc/self/stat").read(); sum(range(20000)); time.sleep(0.05)'
"""This program does a little work, so that it is listed among the active processes."""
LINES = (
    ("mysql", "-c", BUSY, f"-p{SECRET}", f"--password={SECRET}", "--api-key", SECRET),
    ("curl", "-c", BUSY, "-u", f"alice:{SECRET}", "-H", f"Authorization: Bearer {SECRET}", f"https://a:{SECRET}@host/"),
    ("python3", "-c", f"{BUSY}\ntoken='{SECRET}'", f"postgresql://a:{SECRET}@db/x", f"X_SECRET={SECRET}"),
)


@pytest.fixture(scope="module")
def planted() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes that have the secret in their command lines, as /proc shows them."""
    children = [subprocess.Popen(argv, executable=sys.executable) for argv in LINES]
    try:
        for child in children:
            until = time.monotonic() + 30
            while SECRET.encode() not in (raw := Path(f"/proc/{child.pid}/cmdline").read_bytes()):
                assert time.monotonic() < until, raw
                time.sleep(0.01)
        yield children
    finally:
        for child in children:
            child.kill()
            child.wait()


def assert_hidden(raw: bytes, shown: bool = True) -> None:
    """shown: whether the text names the planted processes, so that only hiding can explain the missing secret."""
    assert SECRET.encode() not in raw, raw[max(0, raw.index(SECRET.encode()) - 200) :][:300]
    if shown:
        assert b"curl" in raw


@pytest.mark.parametrize("level", ["names", "redacted"])
def test_recordings_and_exports_have_no_secret(
    planted: list[subprocess.Popen[bytes]], tmp_path: Path, level: str
) -> None:
    file = tmp_path / "a.iotop.jsonl"
    recorded = subprocess.Popen(
        command("record", "-o", str(file), "--cmdline", level, "-d", "0.5", "--duration", "4"),
        cwd=TOP, env={**PLAIN, "IOTOP_AI_SOCKET": ""}, stderr=subprocess.PIPE,
    )  # fmt: skip
    time.sleep(1.5)
    for text in (f"password={SECRET}", f"curl -u a:{SECRET}"):
        iotop("mark", text)
    _, errors = recorded.communicate(timeout=30)
    assert recorded.returncode == 0, errors
    assert_hidden(file.read_bytes())
    for ending in ("csv", "jsonl", "sqlite", *(["parquet"] if find_spec("pyarrow") else [])):
        out = tmp_path / f"out.{ending}"
        one = () if ending in ("jsonl", "sqlite") else ("--table", "processes")
        done = iotop_here("export", "--allow-root", "--cmdline", "full", *one, "-o", str(out), str(file))
        assert done.returncode == 0, done.stderr
        assert_hidden(out.read_bytes(), shown=ending != "parquet")
    for arguments in (("diagnose", "--json"), ("diagnose",)):
        done = iotop_here(*arguments, "--allow-root", str(file))
        assert_hidden((done.stdout + done.stderr).encode(), shown=False)


def test_an_export_hides_the_secrets_of_a_full_recording(
    planted: list[subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    file = tmp_path / "full.iotop.jsonl"
    assert iotop("record", "-o", str(file), "--cmdline", "full", "-d", "0.5", "--duration", "4").returncode == 0
    assert SECRET.encode() in file.read_bytes()
    for level in ("names", "redacted"):
        done = iotop("export", "--allow-root", "--cmdline", level, "--table", "processes", str(file))
        assert done.returncode == 0
        assert_hidden(done.stdout.encode())


@pytest.mark.parametrize("level", ["names", "redacted"])
@pytest.mark.parametrize(
    "arguments",
    [
        ("snapshot", "--json"),
        ("-b", "-n", "2", "-d", "0.3"),
        ("why", "--duration", "1"),
        ("diagnose", "--duration", "1"),
    ],
    ids=["snapshot", "batch", "why", "diagnose"],
)
def test_printed_text_has_no_secret(
    planted: list[subprocess.Popen[bytes]], arguments: tuple[str, ...], level: str
) -> None:
    done = iotop(*arguments, IOTOP_AI_CMDLINE=level)
    assert done.stdout, done.stderr
    assert_hidden((done.stdout + done.stderr).encode(), shown=arguments[0] == "snapshot")


def test_the_name_of_a_recorded_command_has_no_secret(tmp_path: Path) -> None:
    file = tmp_path / "a.iotop.jsonl"
    argv = ("record", "-o", str(file), "--cmdline", "redacted", "--", "sh", "-c", f"true --token {SECRET}")
    done = iotop(*argv)
    assert_hidden(file.read_bytes() + done.stdout.encode() + done.stderr.encode(), shown=False)
    assert b"--token ***" in file.read_bytes()


def test_a_crash_file_holds_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    try:
        raise ValueError(f"https://alice:{SECRET}@host and --password={SECRET} broke")
    except ValueError as error:
        note_crash(error)
    text = (tmp_path / "iotop-ai" / NAME).read_bytes()
    assert b"ValueError" in text
    assert_hidden(text, shown=False)


def test_a_log_holds_no_secret_and_no_escape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "log"
    monkeypatch.setenv(LOG_VARIABLE, str(file))
    log = logging.getLogger("iotop_ai")
    before = list(log.handlers)
    quiet_log()
    quiet_log()
    try:
        log.warning("cannot open %s\x1b[2J", f"postgresql://a:{SECRET}@db")
    finally:
        for handler in set(log.handlers) - set(before):
            log.removeHandler(handler)
            handler.close()
    raw = file.read_bytes()
    assert raw.count(b"cannot open") == 1
    assert b"\x1b" not in raw
    assert_hidden(raw, shown=False)


def test_a_file_name_cannot_control_the_terminal(tmp_path: Path) -> None:
    log, odd = tmp_path / "log.csv", tmp_path / "a\x1b[2J\x9b7mb"
    log.write_text("index, utilization.gpu [%]\n0, 5 %\n0, 6 %\n")
    printed = [
        iotop_here(
            "import", "--nvidia-smi", str(log), "--start", "2026-11-21T14:32:05Z", "--interval", "1", "-o", str(odd)
        ),
        iotop("export", "--allow-root", str(odd), "-o", f"{odd}.csv", "--table", "gpus"),
        iotop("export", "--allow-root", str(odd), "-o", f"{odd}.csv", "--table", "gpus"),
        iotop("diagnose", "--allow-root", str(odd)),
        iotop("record", "-o", f"{odd}.iotop.jsonl", "--duration", "0.5"),
        iotop("record", "-o", str(tmp_path / "r.iotop.jsonl"), "--", str(odd)),
        iotop_here("export", "--format", "\x1b[2J", str(odd)),
        iotop_here("\x1b[2J"),
    ]
    assert any(str(tmp_path) in done.stderr for done in printed)
    for done in printed:
        assert "\x1b" not in done.stderr + done.stdout
        assert "\x9b" not in done.stderr + done.stdout
