"""Modules like those that users write, and functions that run the program on them.

The modules' loaders use the standard library's multiprocessing, PyTorch, and tf.data.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.cli.program import PLAIN, iotop_here

TOP = str(Path(__file__).resolve().parents[3])
LOADERS = '''
import multiprocessing, os, signal, time

def work(inbox, outbox):
    for _ in iter(inbox.get, None):
        time.sleep(0.02)
        outbox.put([0] * 8)

def hang(inbox, outbox):
    lock = multiprocessing.Lock()
    lock.acquire()
    lock.acquire()  # for ever

def die(inbox, outbox):
    os.kill(os.getpid(), signal.SIGKILL)

class Loader:
    """Yields batches of 8; each takes 20 ms in one of ``workers`` processes."""

    def __init__(self, workers, target=work):
        self.workers, self.target = workers, target

    def __iter__(self):
        if not self.workers:
            while True:
                time.sleep(0.02)
                yield [0] * 8
        inbox, outbox = multiprocessing.Queue(), multiprocessing.Queue()
        for _ in range(self.workers):
            multiprocessing.Process(target=self.target, args=(inbox, outbox), daemon=True).start()
        for _ in range(2 * self.workers):
            inbox.put(1)
        while True:
            yield outbox.get()
            inbox.put(1)

def make(num_workers):
    print("a line of the user's own")
    return Loader(num_workers)

def hanging(num_workers):
    return Loader(num_workers, hang)

def dying(num_workers):
    return Loader(num_workers, die)

def local(num_workers):
    def inner(inbox, outbox):
        pass
    return Loader(num_workers, inner)

def crashing(num_workers):
    os.kill(os.getpid(), signal.SIGSEGV)

def once(num_workers):
    return iter([[0] * 8] * 20)

def full_batches(num_workers, batch_size):
    return [[0] * batch_size] * (100 // batch_size)

def nothing(num_workers):
    return []

def number():
    return 1

def needs(path, num_workers):
    return []
'''
DATASETS = """
import os, threading, time
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

torch.set_num_threads(1)

class Cpu(Dataset):
    def __len__(self): return 100_000
    def __getitem__(self, number):
        end = time.thread_time() + 0.002
        while time.thread_time() < end: pass
        return torch.full((16,), number)

class Files(Dataset):
    def __init__(self):
        folder = os.environ["IMAGES"]
        self.paths = [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(".bin")]
    def __len__(self): return len(self.paths)
    def __getitem__(self, number):
        with open(self.paths[number], "rb") as file:
            return torch.frombuffer(bytearray(file.read()), dtype=torch.uint8)

class Forked(Cpu):
    def __init__(self):
        self.lock = threading.Lock()
        threading.Thread(target=self.hold, daemon=True).start()
        time.sleep(0.1)
    def hold(self):
        with self.lock:
            time.sleep(1000)
    def __getitem__(self, number):
        if get_worker_info() is None: return number
        with self.lock: return number

class Lambda(Cpu):
    def __init__(self): self.transform = lambda sample: sample

class Leaking(Cpu):
    def __init__(self): self.kept = []
    def __getitem__(self, number):
        time.sleep(0.001)
        self.kept.append(torch.rand(8192))
        return number

class Big(Cpu):
    def __getitem__(self, number): return torch.rand(64, 64, 64)

class Batches(IterableDataset):
    def __iter__(self):
        while True:
            time.sleep(0.01)
            yield torch.zeros(8, 3)

class WebLoader(IterableDataset):  # as webdataset's
    def __init__(self, *args, **kwargs): self.pipeline = [DataLoader(*args, **kwargs)]
    def __iter__(self): return iter(self.pipeline[0])

def web(num_workers): return WebLoader(Batches(), batch_size=None, num_workers=num_workers)
def loader(**kwargs): return DataLoader(Cpu(), **kwargs)
def finished(): return DataLoader(Cpu())
"""
PIPELINES = """
import os
import tensorflow as tf

def slow(number):
    return tf.py_function(lambda one: wait(one), [number], tf.int64)

def wait(number):
    import time
    time.sleep(0.01)
    return number

def make(num_parallel_calls, batch_size):
    return tf.data.Dataset.range(100_000).map(slow, num_parallel_calls=num_parallel_calls).batch(batch_size)

def files(num_parallel_calls, batch_size, cycle_length, prefetch=1):
    paths = tf.data.Dataset.list_files(os.environ["IMAGES"] + "/*.bin", shuffle=False)
    records = paths.interleave(
        lambda path: tf.data.FixedLengthRecordDataset(path, 32 << 10), cycle_length=cycle_length,
        num_parallel_calls=cycle_length,
    )
    decoded = records.map(lambda raw: tf.io.decode_raw(raw, tf.uint8), num_parallel_calls=num_parallel_calls)
    return decoded.batch(batch_size).prefetch(prefetch)

def finished():
    return tf.data.Dataset.range(100)
"""


def run_loader(
    folder: Path, *arguments: str, before: Sequence[str] = (), **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run ``iotop-ai loader`` in this folder, with this Python unless the arguments name another one."""
    argv = [*before, sys.executable, "-P", "-m", "iotop_ai", "loader", "--python", sys.executable, *arguments]
    return subprocess.run(
        argv,
        cwd=folder,
        env={**PLAIN, "PYTHONPATH": TOP, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def loader_here(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Call ``iotop-ai loader`` in this process, with this folder as the current one.

    The loader runs in a child as usual. Most tests examine only that child, so iotop-ai itself need not run in a
    process of its own.
    """
    with contextlib.chdir(folder):
        return iotop_here("loader", "--python", sys.executable, *arguments)


def swept_here(folder: Path, *arguments: str) -> dict[str, Any]:
    """The JSON object of a sweep by this process; its exit code must be the one that the object names."""
    return _checked(loader_here(folder, "--json", *arguments))


def swept(folder: Path, *arguments: str, **variables: str) -> dict[str, Any]:
    """The JSON object of a sweep by the program; its exit code must be the one that the object names."""
    return _checked(run_loader(folder, "--json", *arguments, **variables))


def _checked(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["exit_code"] == done.returncode
    return found


def processes_in(folder: Path) -> list[str]:
    """The command lines of the processes whose current folder this is."""
    out = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                if os.readlink(entry / "cwd") == str(folder):
                    out.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue
    return out
