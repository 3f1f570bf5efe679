"""The sampling thread opens nothing outside /proc, /sys and /dev, so that no dead file server can stop it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.rigs.tmux import Terminal, why_no_tmux

pytestmark = [
    pytest.mark.skipif(bool(why_no_tmux()), reason=why_no_tmux()),
    pytest.mark.skipif(not shutil.which("strace"), reason="needs strace"),
]
INSIDE = ("/proc", "/sys", "/dev")
ALLOWED: tuple[str, ...] = ()
"""Further calls that are allowed, such as "openat /etc/x", each with its reason; there are none yet."""
_CALL = re.compile(r"(\d+) +([\d.]+) (\w+)\((.*)")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_FOLDER = re.compile(r"(?:AT_FDCWD|\d+)<([^>]*)>, ")
JOB = """
import mmap, os, sys, time
with open(sys.argv[1], "rb") as library:
    kept = mmap.mmap(library.fileno(), 0, prot=mmap.PROT_READ)
data = open(sys.argv[2], "rb")
while True:
    sum(range(100_000))
    if time.process_time() > 1.5:  # by then it is seen as a process that computes
        time.sleep(0.01)
"""


class Call(NamedTuple):
    """A system call that has the name of a file as an argument."""

    thread: int
    wall_s: float
    name: str
    path: str

    @property
    def inside(self) -> bool:
        return any(self.path == top or self.path.startswith(top + "/") for top in INSIDE)


def calls(trace: Path) -> list[Call]:
    """The calls in the output of ``strace -f -y -ttt -e trace=file``, with the folder added to relative paths."""
    out = []
    for line in trace.read_text(errors="replace").splitlines():
        found = _CALL.match(line)
        if found is None or (path := _QUOTED.search(found[4])) is None:
            continue
        name, folder = path[1], _FOLDER.match(found[4])
        whole = name if name.startswith("/") else os.path.join(folder[1] if folder else "?", name)
        out.append(Call(int(found[1]), float(found[2]), found[3], whole))
    return out


@contextmanager
def training_job(folder: Path) -> Iterator[None]:
    """A process that is detected as a training job: it maps a library of torch, computes, and has an open file."""
    library = folder / "libtorch_python.so"
    shutil.copy(shutil.which("true") or "/bin/true", library)
    (folder / "data.bin").write_bytes(b"x" * 4096)
    (folder / "train.py").write_text(JOB)
    job = subprocess.Popen([sys.executable, str(folder / "train.py"), str(library), str(folder / "data.bin")])
    try:
        yield
    finally:
        job.kill()
        job.wait()


@contextmanager
def unknown_user() -> Iterator[None]:
    """A process of a user whose name was not looked up before. This is only possible for root."""
    if os.geteuid() != 0:
        yield
        return
    process = subprocess.Popen(["setpriv", "--reuid=54321", "--regid=54321", "--clear-groups", "sleep", "100"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def names_are_looked_up(trace: Path, begun_s: float) -> bool:
    return any(call.path == "/etc/passwd" and call.wall_s >= begun_s for call in calls(trace))


@pytest.mark.timeout(180)
def test_the_sampling_thread_opens_nothing_outside_of_proc_sys_and_dev(tmp_path: Path) -> None:
    trace, program = tmp_path / "trace", Path(sys.executable).with_name("iotop-ai")
    place = tmp_path / "place"
    place.mkdir(mode=0o700)
    environment = {"XDG_STATE_HOME": str(tmp_path / "state"), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    with training_job(tmp_path), Terminal(120, 40, environment) as terminal:
        traced = ["strace", "-f", "-y", "-ttt", "-e", "trace=file", "-o", str(trace), str(program), "-d", "0.5"]
        terminal.type(f"cd {shlex.quote(str(place))} && {shlex.join(traced)}\n")
        terminal.wait_for(" q ?", 60)
        terminal.keys("R")
        terminal.wait_for("recording, R stops it", 60)
        terminal.wait_for("train.py", 60)
        time.sleep(4.0)
        begun_s = time.time()
        with unknown_user():
            time.sleep(6.0)
            while os.geteuid() == 0 and time.time() < begun_s + 60 and not names_are_looked_up(trace, begun_s):
                time.sleep(1.0)
        ended_s = time.time()
        terminal.keys("q")
        terminal.wait_for("recorded:", 30)
    seen = [call for call in calls(trace) if begun_s <= call.wall_s <= ended_s]
    sampled: dict[int, int] = {}
    for call in seen:
        if call.path.startswith("/proc/"):
            sampled[call.thread] = sampled.get(call.thread, 0) + 1
    sampler = max(sampled, key=sampled.__getitem__)
    assert sampled[sampler] > 50
    elsewhere = {f"{call.name} {call.path}" for call in seen if call.thread == sampler and not call.inside}
    assert elsewhere - set(ALLOWED) == set()
    # Other threads may open files outside of these folders.
    others = [call for call in seen if call.thread != sampler]
    assert any(call.path.endswith("/acknowledged.json") for call in others)
    assert any(call.name == "statfs" and call.path.endswith("/root/dev/shm") for call in others)
    assert not any(call.path.endswith("/root/dev/shm") for call in seen if call.thread == sampler)
    if os.geteuid() == 0:
        assert names_are_looked_up(trace, begun_s)
        assert not any(call.path == "/etc/passwd" for call in seen if call.thread == sampler)


HOOKED = """
import os, sys, threading
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.model.settings import Settings
from iotop_ai.pipeline import frames
from iotop_ai.sources.live.source import LiveSource
from iotop_ai.store.write.recorder import Recorder
from iotop_ai.store.write.sink import FileSink

seen, sampler, own = [], threading.get_ident(), threading.local()

def hook(event, arguments):
    if watching and threading.get_ident() == sampler and (event == "open" or event.startswith("os.")):
        path = arguments[0] if arguments else None
        if isinstance(path, (str, bytes)):
            path = os.fsdecode(path)
            if not path.startswith(("/proc", "/sys", "/dev")) and os.path.isabs(path):
                seen.append(f"{event} {path}")

watching = False
sys.addaudithook(hook)
source = LiveSource(Settings(interval_s=0.2), marks=True)
recorder = Recorder(FileSink(sys.argv[1]), Clock())
for number, frame in enumerate(frames(source)):
    recorder.put(frame)
    if number == 8:
        watching = True
    if number == 25:
        watching = False  # the rule does not cover the end of a source
        break
source.close()
assert recorder.close(10)
print("\\n".join(seen) or "nothing", recorder.state().snapshots)
"""


def test_no_audited_call_of_source_and_recorder_leaves_proc_sys_and_dev(tmp_path: Path) -> None:
    """This complements strace with the interpreter's audit events, for the live source with a recorder."""
    done = subprocess.run(
        [sys.executable, "-c", HOOKED, str(tmp_path / "x.iotop.jsonl")],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")},
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip() == "nothing 26"


LATER = """
import ast, sys
from iotop_ai.model.settings import Settings
from iotop_ai.pipeline import frames
from iotop_ai.sources.live.source import LiveSource

source = LiveSource(Settings(interval_s=0.2), marks=True)
for number, _ in enumerate(frames(source)):
    if number == 3:
        break
loaded = set(sys.modules)
source.close()
later = set()
for name in loaded:
    if name.startswith(("iotop_ai.sources", "iotop_ai.collectors.job", "iotop_ai.model", "iotop_ai.diagnosis")):
        tree = ast.parse(open(sys.modules[name].__spec__.origin).read())
        for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
            for node in ast.walk(function):
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("iotop_ai."):
                    later.add(node.module)
print(sorted(later - loaded))
"""
"""Prints the modules that functions of the sampling thread import, and that a running source has not loaded yet."""


def test_a_running_source_imports_nothing_more_of_the_program() -> None:
    """The folder of the program may hang, too; a job that appears later must not make the sampling thread wait."""
    done = subprocess.run([sys.executable, "-c", LATER], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "[]", "")
