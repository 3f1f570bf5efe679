"""Real processes whose threads do what a test asks for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from iotop_ai.model.process.records import ProcessKey
from tests.waiting import until

PROGRAM = """\
import ctypes, os, subprocess, sys, threading, zlib
prctl = ctypes.CDLL(None).prctl
block = os.urandom(1 << 19)
rest, end = threading.Event(), threading.Event()
ready, resting = threading.Barrier(len(sys.argv)), threading.Barrier(1 + sum("busy" in a for a in sys.argv[1:]))
tids = {}

def run(number, kind, name):
    tids[number] = threading.get_native_id()
    if name:
        prctl(15, name.encode(), 0, 0, 0)
    if kind == "shell":
        subprocess.Popen(["sh", "-c", "cat | cat"], stdin=subprocess.PIPE)
    ready.wait()
    if kind == "busy":
        while not rest.is_set():
            zlib.compress(block)
        resting.wait()
    end.wait()

for number, word in enumerate(sys.argv[1:]):
    kind, _, name = word.partition(":")
    if kind == "below":
        subprocess.Popen(["sh", "-c", "cat | cat"], stdin=subprocess.PIPE)
    threading.Thread(target=run, args=(number, kind, name), daemon=True).start()
ready.wait()
print(*(tids[number] for number in sorted(tids)), flush=True)
sys.stdin.readline()
rest.set()
resting.wait()
print("rests", flush=True)
sys.stdin.readline()
"""
"""Starts a thread for each argument: ``busy``, ``asleep``, or ``shell``, which starts a pipeline of three processes and
sleeps. A name after a colon becomes the thread's name. For ``below`` the main thread starts the pipeline. A line of
input makes the busy threads sleep. The main thread sleeps in a read of a pipe."""

IN_D = """\
#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
static void *blocks(void *unused) {
    printf("%ld\\n", (long)syscall(SYS_gettid));
    fflush(stdout);
    if (vfork() == 0) { pause(); _exit(0); }  /* the parent waits in state D until then */
    return unused;
}
int main(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, blocks, NULL);
    pthread_join(thread, NULL);
    return 0;
}
"""


class Child:
    """A process in a new session. tids: the ids of its threads, in the order of ``words``."""

    def __init__(self, *words: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *words] if words[0][:1] != "/" else list(words),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        self.pid = self._process.pid
        self.tids = [int(word) for word in self._line().split()]

    @classmethod
    def in_d(cls, folder: Path) -> Child:
        """Start a process with one thread that stays in state D and uses no CPU."""
        source = folder / "in_d.c"
        source.write_text(IN_D)
        subprocess.run(["cc", "-w", "-pthread", "-o", str(folder / "in_d"), str(source)], check=True)
        return cls(str(folder / "in_d"))

    @property
    def key(self) -> ProcessKey:
        """The pid and the start time of this process."""
        return ProcessKey(self.pid, int(fields(self.pid)[19]))

    def cpu_ticks(self, tid: int) -> int:
        """The CPU time of a thread, in clock ticks."""
        return sum(map(int, fields(self.pid, tid)[11:13]))

    def rest(self) -> None:
        """Let the busy threads sleep, and wait until they do."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        assert self._line() == "rests\n"
        until(lambda: all(fields(self.pid, tid)[0] == "S" for tid in self.tids))

    def end(self) -> None:
        """Kill the process and its children. A second call does nothing."""
        if self._process.returncode is None:
            os.killpg(self.pid, signal.SIGKILL)
        self._process.communicate()

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


def fields(pid: int, tid: int = 0) -> list[str]:
    """The fields of stat, from the third field on."""
    return Path(f"/proc/{pid}/task/{tid or pid}/stat").read_text().rpartition(")")[2].split()


def names_of(pids: list[int]) -> list[str]:
    """The names of these processes, sorted."""
    return sorted(Path(f"/proc/{pid}/comm").read_text().strip() for pid in pids)


def descriptors() -> int:
    """The number of open descriptors of this process."""
    return len(os.listdir("/proc/self/fd"))
