"""The work that the machine does while monitors are measured, by the names that ``--load`` takes."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import islice, product
from pathlib import Path
from string import ascii_lowercase
from typing import NamedTuple

from tests.rigs.nvml.c_library import HOPPER, build, machine

_FAMILY = """
import ctypes, os, sys, time
count, name = int(sys.argv[1]), sys.argv[2].encode()
far, near = os.pipe()
for number in range(count):
    if os.fork() == 0:
        if name != b"-":
            ctypes.CDLL(None).prctl(15, name, 0, 0, 0)
        # Half wait at a queue, as loaders that are ahead do; half sleep elsewhere.
        os.read(far, 1) if number % 2 else time.sleep(1e6)
        os._exit(0)
print("ready", flush=True)
time.sleep(1e6)
"""
_THREADS = """
import threading, time
threading.stack_size(1 << 16)
for _ in range(99):
    threading.Thread(target=time.sleep, args=(1e6,), daemon=True).start()
print("ready", flush=True)
time.sleep(1e6)
"""
_THREAD_LOADER = """
import mmap, sys, threading, time
if len(sys.argv) > 1:
    # A process that maps a library of PyTorch is a training process.
    with open(sys.argv[1], "rb") as library:
        mapped = mmap.mmap(library.fileno(), 0, prot=mmap.PROT_READ | mmap.PROT_EXEC)
threading.stack_size(1 << 16)
def prepare():
    while True:
        time.sleep(0.1)
        end = time.thread_time() + 0.0003
        while time.thread_time() < end:
            pass
for _ in range(64):
    threading.Thread(target=prepare, daemon=True).start()
print("ready", flush=True)
time.sleep(1e6)
"""
_FORKS = """
import os, time
print("ready", flush=True)
begin, done = time.monotonic(), 0
while True:
    while done < (time.monotonic() - begin) * 200:
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        done += 1
    time.sleep(0.005)
"""
_WRITER = """
import os, sys, time
file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
print("ready", flush=True)
while True:
    os.pwrite(file, b"x" * 65536, 0)
    time.sleep(0.1)
"""
_COUNTERS = """
import os, sys, time
path, names = sys.argv[1], sorted(os.listdir(sys.argv[2]))
done = 0
while True:
    with open(path, "r+") as file:
        for i, name in enumerate(names):
            # The ninth is the number of requests in flight, a level. A tenth of the devices is busy.
            counts = " ".join(f"{0 if k == 8 else k * 1000 + done * (i % 10 == 0) * 3:012d}" for k in range(17))
            file.write(f" 252 {i:7d} {name} {counts}\\n")
    if not done:
        print("ready", flush=True)
    done += 1
    time.sleep(1)
"""
_OVER = 'mount --bind "$0/diskstats" /proc/diskstats && mount --bind "$0/block" /sys/block && exec "$@"'


class LaunchOptions(NamedTuple):
    """How a load starts the measured programs. before: words that precede their command line."""

    environment: Mapping[str, str] = {}
    before: tuple[str, ...] = ()


@contextlib.contextmanager
def _running(*calls: list[str]) -> Iterator[None]:
    """Run programs until the end of the ``with`` block. Each prints "ready" once. Their children end with them."""
    processes = [subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True) for words in calls]
    try:
        for process in processes:
            assert process.stdout
            process.stdout.readline()
        yield
    finally:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        for process in processes:
            process.wait()
            _until_gone(process.pid)


def _until_gone(group: int) -> None:
    """Wait until a process group is empty, because thousands of exits would disturb the next measurement."""
    with contextlib.suppress(ProcessLookupError):
        while True:
            os.killpg(group, 0)
            time.sleep(0.05)


@contextlib.contextmanager
def sleepers(count: int) -> Iterator[None]:
    """Add this many sleeping processes to the machine."""
    script = f"i=0; while [ $i -lt {count} ]; do sleep 100000 & i=$((i+1)); done; echo ready; wait"
    with _running(["sh", "-c", script]):
        yield


@contextlib.contextmanager
def family(name: str) -> Iterator[None]:
    """Run a Python program with 31 children. Their name decides whether they count as loaders.

    name: the name of the children; "-" for the name that a child has by default.
    """
    with tempfile.TemporaryDirectory(prefix="load-") as folder:
        script = Path(folder) / "train.py"
        script.write_text(_FAMILY)
        with _running([sys.executable, str(script), "31", name]):
            yield


@contextlib.contextmanager
def threads() -> Iterator[None]:
    """Run 20 processes of 100 sleeping threads each."""
    with _running(*[[sys.executable, "-c", _THREADS]] * 20):
        yield


@contextlib.contextmanager
def thread_loader(job: bool) -> Iterator[None]:
    """Run a Python program with 64 threads that each compute 3 ms a second. job: whether it is a training process."""
    with tempfile.TemporaryDirectory(prefix="load-") as folder:
        script, library = Path(folder) / "train.py", Path(folder) / "libtorch_python.so"
        script.write_text(_THREAD_LOADER)
        shutil.copy(sys.executable, library)
        with _running([sys.executable, str(script), *([str(library)] if job else [])]):
            yield


@contextlib.contextmanager
def forks() -> Iterator[None]:
    """Run a program that starts 200 short processes a second."""
    with _running([sys.executable, "-c", _FORKS]):
        yield


@contextlib.contextmanager
def writers() -> Iterator[None]:
    """Run 50 processes that each write 64 kB ten times a second."""
    with tempfile.TemporaryDirectory(prefix="load-") as folder:
        calls = [[sys.executable, "-c", _WRITER, str(Path(folder) / str(i))] for i in range(50)]
        with _running(*calls):
            yield


@contextlib.contextmanager
def gpus() -> Iterator[LaunchOptions]:
    """Simulate 16 GPUs that answer every question, with a C library of NVML that reads the answers from a file."""
    with tempfile.TemporaryDirectory(prefix="load-") as folder:
        library, answers = build(Path(folder)), Path(folder) / "machine"
        machine(answers, [HOPPER] * 16)
        yield LaunchOptions({"LD_LIBRARY_PATH": str(library.parent), "FAKE_NVML": str(answers)})


@contextlib.contextmanager
def devices() -> Iterator[LaunchOptions]:
    """Simulate 1,000 block devices, 100 of them busy, with files mounted over /proc/diskstats and /sys/block."""
    with tempfile.TemporaryDirectory(prefix="load-") as folder:
        block = Path(folder) / "block"
        # Virtio disks, because they have no SMART that would be queried a thousand times.
        for i, letters in enumerate(islice(product(ascii_lowercase, repeat=3), DEVICES)):
            queue = block / f"vd{''.join(letters)}" / "queue"
            queue.mkdir(parents=True)
            (queue / "rotational").write_text("0\n")
            (queue.parent / "size").write_text("2097152\n")
            (queue.parent / "diskseq").write_text(f"{i + 1}\n")
        stats = Path(folder) / "diskstats"
        stats.touch()
        with _running([sys.executable, "-c", _COUNTERS, str(stats), str(block)]):
            yield LaunchOptions(before=("unshare", "-m", "sh", "-c", f"'{_OVER}'", folder))


DEVICES = 1000
LOADS: dict[str, tuple[Callable[[], contextlib.AbstractContextManager[LaunchOptions | None]], str]] = {
    "threads": (threads, "20 processes of 100 threads"),
    "forks": (forks, "200 short processes a second"),
    "writers": (writers, "50 processes that write"),
    "family": (lambda: family("-"), "32 Python processes"),
    "job": (lambda: family("pt_data_worker"), "a training job of 32 sampled tasks"),
    "64threads": (lambda: thread_loader(False), "a process of 64 busy threads"),
    "thread-job": (lambda: thread_loader(True), "a training job of 64 busy threads"),
    "gpus": (gpus, "16 GPUs"),
    "devices": (devices, "1,000 block devices"),
}
"""By name: the function that makes the load, and a description. A number stands for that many sleeping processes."""


@contextlib.contextmanager
def load_of(name: str) -> Iterator[LaunchOptions]:
    """Make a load, and yield how it starts the measured programs. name: a name of LOADS, or a number of processes."""
    with sleepers(int(name)) if name.isdecimal() else LOADS[name][0]() as launch:
        yield launch or LaunchOptions()


def title_of(name: str) -> str:
    """Return a heading for a load."""
    return f"{int(name):,} extra processes" if name.isdecimal() else LOADS[name][1]
