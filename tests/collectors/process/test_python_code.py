"""The line of code that a real Python process runs, found by the real py-spy."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from iotop_ai.collectors.base import Unavailable
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.io.with_timeout import call_with_timeout
from iotop_ai.collectors.process.python_code import SAMPLES, py_spy_path, read_python_code, source_line
from iotop_ai.model.process.stack import StackFrame
from iotop_ai.model.reading import Status

SCRIPT = """\
import queue, threading
results = queue.Queue()
def fetch():
    return results.get()
print("ready", flush=True)
fetch()
"""
OWN_UID = os.geteuid()
pytestmark = pytest.mark.skipif(not py_spy_path(), reason="needs py-spy")


@pytest.fixture
def child(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    (tmp_path / "wait_for_data.py").write_text(SCRIPT)
    process = subprocess.Popen([sys.executable, str(tmp_path / "wait_for_data.py")], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.kill()
    process.communicate()


def test_the_line_in_which_a_process_waits_is_found(child: subprocess.Popen[bytes], tmp_path: Path) -> None:
    code = read_python_code(Root(), child.pid, OWN_UID)
    main = code.threads[0]
    assert main.tid == child.pid
    assert SAMPLES // 4 < main.samples <= SAMPLES
    line = main.lines[0]
    assert (line.frame.file, line.frame.line, line.frame.function) == (str(tmp_path / "wait_for_data.py"), 4, "fetch")
    assert line.text == "return results.get()"
    assert line.samples > 0.8 * main.samples
    assert line.inner is not None
    assert line.inner.file.endswith(("threading.py", "queue.py"))
    assert child.poll() is None


def test_a_program_that_is_not_python_is_reported() -> None:
    process = subprocess.Popen(["sleep", "600"])
    try:
        with pytest.raises(Unavailable, match="does not recognise its Python") as error:
            read_python_code(Root(), process.pid, OWN_UID)
        assert error.value.status is Status.UNSUPPORTED
    finally:
        process.kill()
        process.wait()


def test_a_process_that_has_ended_is_reported() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    with pytest.raises(Unavailable, match="it has ended"):
        read_python_code(Root(), process.pid, OWN_UID)


def test_a_lack_of_descriptors_is_reported() -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
    try:
        with pytest.raises(Unavailable, match="py-spy: Too many open files") as error:
            read_python_code(Root(), os.getpid(), OWN_UID)
        assert error.value.status is Status.FAILED
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.skipif(OWN_UID != 0, reason="needs root to become another user")
def test_a_missing_permission_is_reported(child: subprocess.Popen[bytes]) -> None:
    code = (
        "import os, sys\nfrom iotop_ai.collectors.process.python_code import read_python_code\n"
        "from iotop_ai.collectors.io.root import Root\nfrom iotop_ai.collectors.base import Unavailable\n"
        "os.setgroups([])\nos.setgid(65534)\nos.setuid(65534)\n"
        f"try:\n    read_python_code(Root(), {child.pid}, 0)\n"
        "except Unavailable as error:\n    print(error.status, '|', error.reason, '|', error.remedy)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "denied | py-spy needs CAP_SYS_PTRACE for it | sudo\n", done.stderr


def test_source_is_read_only_from_regular_files_that_the_user_can_read(tmp_path: Path) -> None:
    pid, frame = os.getpid(), StackFrame("f", str(tmp_path / "a.py"), 2)
    (tmp_path / "a.py").write_text("one\n\tx = 'y'  \nthree\n")
    assert source_line(pid, OWN_UID, frame) == "x = 'y'"
    assert source_line(pid, OWN_UID, frame._replace(line=9)) == ""
    (tmp_path / "a.py").chmod(0o600)
    assert source_line(pid, OWN_UID + 12345, frame) == ""
    assert source_line(pid, OWN_UID, frame) == "x = 'y'"
    (tmp_path / "b.py").symlink_to(tmp_path / "a.py")
    assert source_line(pid, OWN_UID, frame._replace(file=str(tmp_path / "b.py"))) == ""
    os.mkfifo(tmp_path / "c.py", 0o644)
    assert source_line(pid, OWN_UID, frame._replace(file=str(tmp_path / "c.py"))) == ""
    assert source_line(pid, OWN_UID, frame._replace(file="<string>")) == ""
    assert source_line(pid, OWN_UID, frame._replace(file="/dev/zero")) == ""


def test_source_in_a_folder_that_the_user_cannot_search_is_not_read() -> None:
    """The process could name any file of another user, and the process's user could read the line on root's screen."""
    other_uid, own_gid = OWN_UID + 12345, os.getegid()
    with tempfile.TemporaryDirectory(dir="/tmp") as top:
        inner = Path(top, "inner")
        inner.mkdir()
        (inner / "a.py").write_text("one\n")
        (inner / "a.py").chmod(0o644)
        Path(top, "way").symlink_to(inner)
        os.chown(inner, -1, own_gid)
        for top_mode, mode, uid, text in (
            (0o711, 0o711, other_uid, "one"),
            (0o711, 0o711, None, "one"),
            (0o711, 0o700, other_uid, ""),
            (0o711, 0o700, None, ""),
            (0o700, 0o755, other_uid, ""),
            (0o711, 0o750, other_uid, "one"),  # this process has the group
            (0o711, 0o701, other_uid, ""),  # the bits of the group count, as for the kernel
            (0o700, 0o700, OWN_UID, "one"),
        ):
            os.chmod(top, top_mode)
            inner.chmod(mode)
            for path in (f"{inner}/a.py", f"{top}/way/a.py"):
                assert source_line(os.getpid(), uid, StackFrame("f", path, 1)) == text, (oct(top_mode), oct(mode), uid)


@pytest.mark.skipif(OWN_UID != 0, reason="needs root to give files away")
def test_a_process_of_root_reads_source_in_every_folder(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one\n")
    tmp_path.chmod(0o700)
    os.chown(tmp_path, 12345, 12345)
    assert source_line(os.getpid(), 0, StackFrame("f", str(tmp_path / "a.py"), 1)) == "one"


def test_a_named_pipe_is_not_opened(tmp_path: Path) -> None:
    pipe, opened = str(tmp_path / "pipe.py"), threading.Event()
    os.mkfifo(pipe, 0o644)

    def write() -> None:
        os.close(os.open(pipe, os.O_WRONLY))
        opened.set()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert source_line(os.getpid(), OWN_UID, StackFrame("f", pipe, 1)) == ""
        assert not opened.wait(0.2)
    finally:
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        writer.join(5)
        os.close(reader)


@pytest.mark.skipif(OWN_UID != 0 or not shutil.which("unshare"), reason="needs root for a mount namespace")
def test_a_folder_that_hangs_in_one_container_is_read_in_another(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one\ntwo\n")
    released = threading.Event()
    process = subprocess.Popen(["unshare", "-m", "sh", "-c", "echo; exec cat"], stdin=-1, stdout=-1)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        frame = StackFrame("f", str(tmp_path / "a.py"), 2)
        with pytest.raises(TimeoutError):
            call_with_timeout(0.05, str(tmp_path), released.wait)
        assert source_line(os.getpid(), OWN_UID, frame) == ""
        assert source_line(process.pid, OWN_UID, frame) == "two"
    finally:
        released.set()
        process.communicate()
