"""A call that never returns blocks only its own thread."""

import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import iotop_ai
from iotop_ai.collectors.io.with_timeout import BackgroundWorker, call_with_timeout
from tests.rigs.threads import no_thread


def test_answers_and_errors_are_passed_to_the_caller() -> None:
    assert call_with_timeout(1.0, "/a", lambda: 7) == 7
    with pytest.raises(PermissionError, match="mine"):
        call_with_timeout(1.0, "/a", lambda: (_ for _ in ()).throw(PermissionError(13, "mine")))


def test_a_place_that_hangs_is_waited_for_once() -> None:
    released = threading.Event()
    begun = time.monotonic()
    with pytest.raises(TimeoutError) as late:
        call_with_timeout(0.1, "/dead/home", released.wait)
    assert (late.value.strerror, late.value.filename) == ("no answer for 0.1 s", "/dead/home")
    with pytest.raises(TimeoutError, match="no answer"):
        call_with_timeout(5.0, "/dead/home", released.wait)
    assert call_with_timeout(1.0, "/other", lambda: "yes") == "yes"
    assert time.monotonic() - begun < 4
    released.set()
    end = time.monotonic() + 30
    while any(thread.name == "with-timeout" for thread in threading.enumerate()) and time.monotonic() < end:
        time.sleep(0.01)
    assert call_with_timeout(1.0, "/dead/home", lambda: "back") == "back"


def test_a_call_that_gets_no_thread_raises_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread)
        with pytest.raises(TimeoutError) as refused:
            call_with_timeout(1.0, "/home", lambda: 7)
    assert (refused.value.strerror, refused.value.filename) == ("can't start new thread", "/home")
    assert call_with_timeout(1.0, "/home", lambda: 7) == 7


_REMOUNT = """
import subprocess, sys, threading
from iotop_ai.collectors.io.with_timeout import call_with_timeout

def call(hang):
    try:
        return call_with_timeout(0.2, sys.argv[1] + "/home", threading.Event().wait if hang else lambda: "an answer")
    except TimeoutError as error:
        return error.strerror

def mount(*words):
    subprocess.run(["mount", *words, sys.argv[1]], check=True)

mount("-t", "tmpfs", "dead")
print(call(hang=True))
print(call(hang=False))
mount("-o", "remount,ro")
print(call(hang=False))
subprocess.run(["umount", "-l", sys.argv[1]], check=True)
mount("-t", "tmpfs", "alive")
print(call(hang=False))
"""


@pytest.mark.skipif(not shutil.which("unshare"), reason="needs unshare")
def test_a_place_is_asked_again_after_another_filesystem_is_mounted_there(tmp_path: Path) -> None:
    argv = ["unshare", "-rm", sys.executable, "-c", _REMOUNT, str(tmp_path)]
    top = Path(iotop_ai.__file__).parent.parent
    done = subprocess.run(argv, cwd=top, capture_output=True, text=True, check=False)
    if "unshare" in done.stderr:
        pytest.skip(f"cannot mount: {done.stderr.strip()}")
    assert done.stdout.splitlines() == ["no answer for 0.2 s", "no answer", "no answer", "an answer"], done.stderr


def test_only_one_call_runs_and_none_starts_while_it_hangs() -> None:
    worker, released, seen = BackgroundWorker("test-aside"), threading.Event(), []
    assert worker.wait(0.0)
    assert worker.submit(lambda: seen.append(1))
    assert worker.wait(1.0)
    assert worker.submit(lambda: seen.append(2 if released.wait(10) else 0))
    assert worker.busy
    assert not worker.submit(lambda: seen.append(3))
    assert not worker.wait(0.05)
    released.set()
    assert worker.wait(5.0)
    assert seen == [1, 2]
    worker.close()
    end = time.monotonic() + 30
    while any(thread.name == "test-aside" for thread in threading.enumerate()) and time.monotonic() < end:
        time.sleep(0.01)
    assert not any(thread.name == "test-aside" for thread in threading.enumerate())


def test_a_job_runs_later_if_no_thread_can_start(monkeypatch: pytest.MonkeyPatch) -> None:
    worker, done = BackgroundWorker("test-aside"), threading.Event()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread)
        assert not worker.submit(done.set)
    assert worker.submit(done.set)
    assert done.wait(5)
    worker.close()
