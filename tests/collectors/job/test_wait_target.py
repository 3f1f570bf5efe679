"""What real child processes wait for."""

from __future__ import annotations

import os
import random
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.process_memory import ProcessMemory
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.job.sockets import JobSockets, SocketDiag
from iotop_ai.collectors.job.wait_target import (
    MOST_FDS,
    MOST_LISTED,
    UNKNOWN,
    WaitTarget,
    held_inodes,
    wait_target,
)
from tests.examples import quick_or

ROOT = Root()
MEMORY = ProcessMemory(ROOT)
HEAD = """\
import ctypes, os, select, signal, socket, subprocess, sys, threading, time
from os import fstat
def say(*values):
    print(*values, flush=True)
def inode(fd):
    return fstat(fd).st_ino
"""
Start = Callable[..., tuple[int, list[int]]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a program, and return its pid and the numbers in its first line of output."""
    children: list[subprocess.Popen[str]] = []

    def run(program: str, *arguments: object) -> tuple[int, list[int]]:
        path = tmp_path / f"child{len(children)}.py"
        path.write_text(HEAD + program)
        words = [sys.executable, str(path), *map(str, arguments)]
        child = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        children.append(child)
        assert child.stdout is not None
        return child.pid, [int(value) for value in child.stdout.readline().split()]

    yield run
    for child in children:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0), backlog=100) as server:
        yield server


def target_in(pid: int, *calls: str, tid: int | None = None) -> WaitTarget:
    """Wait until the task is in one of these calls, because a child prints its line just before; return the target."""
    end = time.monotonic() + 20
    while (found := wait_target(ROOT, MEMORY, pid, tid or pid)).call not in calls:
        assert time.monotonic() < end, found
        time.sleep(0.01)
    return found


def test_poll_of_a_pipe_waits_for_the_pipe(start: Start) -> None:
    pid, (fd, number) = start("r, w = os.pipe(); p = select.poll(); p.register(r); say(r, inode(r)); p.poll()")
    found = target_in(pid, "poll", "ppoll")
    assert found == WaitTarget("pipe", (number,), (fd,), found.call)


def test_poll_of_tcp_by_a_client_with_a_timeout_waits_for_the_network(start: Start, server: socket.socket) -> None:
    program = """
c = socket.create_connection(("127.0.0.1", int(sys.argv[1])), 60)
say(c.fileno(), inode(c.fileno()))
c.recv(9)
"""
    pid, (fd, number) = start(program, server.getsockname()[1])
    found = target_in(pid, "poll", "ppoll")
    assert found == WaitTarget("socket", (number,), (fd,), found.call)


def test_the_network_comes_first_among_several_descriptors(start: Start, server: socket.socket) -> None:
    program = """
c = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
r, w = os.pipe()
a, b = socket.socketpair()
p = select.poll()
for fd in (r, os.eventfd(0), a.fileno(), c.fileno()):
    p.register(fd, select.POLLIN)
say(inode(r), inode(a.fileno()), inode(c.fileno()))
p.poll()
"""
    pid, inodes = start(program, server.getsockname()[1])
    found = target_in(pid, "poll", "ppoll")
    assert (found.kind, set(found.inodes), len(found.fds)) == ("socket", set(inodes), 4)


def test_an_epoll_waits_for_its_descriptors(start: Start, server: socket.socket) -> None:
    program = """
c = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
e, n = select.epoll(), os.eventfd(0)
e.register(c, select.EPOLLIN); e.register(n, select.EPOLLIN)
say(c.fileno(), n, inode(c.fileno()))
e.poll()
"""
    pid, (fd, event, number) = start(program, server.getsockname()[1])
    found = target_in(pid, "epoll_wait", "epoll_pwait", "epoll_pwait2")
    assert (found.kind, found.inodes, set(found.fds)) == ("socket", (number,), {fd, event})


def test_an_epoll_has_no_target_if_it_is_empty_or_its_number_was_reused(start: Start) -> None:
    calls = ("epoll_wait", "epoll_pwait", "epoll_pwait2")
    pid, _ = start("e = select.epoll(); say(1); e.poll()")
    assert target_in(pid, *calls)[:3] == ("epoll", (), ())
    program = """
r, w = os.pipe(); e = select.epoll(); e.register(r, select.EPOLLIN); kept = os.dup(r)
other, _ = os.pipe(); os.dup2(other, r)
say(r)
e.poll()
"""
    pid, (fd,) = start(program)
    assert target_in(pid, *calls)[:3] == ("epoll", (), (fd,))


def test_asyncio_waits_for_the_network_in_an_epoll(start: Start, server: socket.socket) -> None:
    program = """
import asyncio
async def main():
    reader, _ = await asyncio.open_connection("127.0.0.1", int(sys.argv[1]))
    say(1)
    await reader.read(1)
asyncio.run(main())
"""
    pid, _ = start(program, server.getsockname()[1])
    assert target_in(pid, "epoll_wait", "epoll_pwait", "epoll_pwait2").kind == "socket"


def test_a_select_waits_for_its_descriptors(start: Start) -> None:
    program = """
r, w = os.pipe(); high = os.dup2(r, 700)
a, b = socket.socketpair()
say(r, a.fileno(), inode(r), inode(a.fileno()))
select.select([r, a], [], [high])
"""
    pid, (pipe, unix, pipe_inode, unix_inode) = start(program)
    found = target_in(pid, "select", "pselect6")
    assert found == WaitTarget("unix", (pipe_inode, unix_inode), (pipe, unix, 700), found.call)


@pytest.mark.parametrize("family", ["AF_INET", "AF_UNIX"])
def test_a_blocking_recv_waits_for_its_socket(start: Start, server: socket.socket, family: str) -> None:
    unix = family == "AF_UNIX"
    made = "socket.socketpair()[0]" if unix else "socket.create_connection(('127.0.0.1', int(sys.argv[1])))"
    program = (
        f"pair = socket.socketpair(); c = pair[0] if {unix} else {made}; say(c.fileno(), inode(c.fileno())); c.recv(1)"
    )
    pid, (fd, number) = start(program, server.getsockname()[1])
    kind = "unix" if unix else "socket"
    assert target_in(pid, "recvfrom") == WaitTarget(kind, (number,), (fd,), "recvfrom")


@pytest.mark.parametrize(
    ("program", "call"),
    [
        (
            "s = socket.socket(type=socket.SOCK_DGRAM); s.bind(('127.0.0.1', 0)); say(s.fileno()); s.recv(1)",
            "recvfrom",
        ),
        ("s = socket.create_server(('::1', 0), family=socket.AF_INET6); say(s.fileno()); s.accept()", "accept4"),
    ],
)
def test_udp_and_listening_sockets_count_as_the_network(start: Start, program: str, call: str) -> None:
    pid, (fd,) = start(program)
    found = target_in(pid, call)
    assert (found.kind, found.fds) == ("socket", (fd,))


def test_read_and_write_of_a_pipe_wait_for_the_pipe(start: Start) -> None:
    pid, (fd, number) = start("r, w = os.pipe(); say(r, inode(r)); os.read(r, 1)")
    found = target_in(pid, "read")
    assert found == WaitTarget("pipe", (number,), (fd,), "read")
    pid, (fd, number) = start("r, w = os.pipe(); say(w, inode(w)); os.write(w, bytes(1 << 20))")
    found = target_in(pid, "write")
    assert found == WaitTarget("pipe", (number,), (fd,), "write")


def test_futexes_and_timers_are_targets(start: Start) -> None:
    pid, _ = start("lock = threading.Lock(); lock.acquire(); say(1); lock.acquire()")
    assert target_in(pid, "futex") == WaitTarget("futex", (), (), "futex")
    pid, _ = start("say(1); time.sleep(99)")
    found = target_in(pid, "nanosleep", "clock_nanosleep")
    assert found == WaitTarget("timer", (), (), found.call)
    pid, _ = start("say(1); select.select([], [], [], 99)")
    assert target_in(pid, "select", "pselect6").kind == "timer"
    pid, _ = start("say(1); select.poll().poll(99000)")
    assert target_in(pid, "poll", "ppoll").kind == "timer"


def test_eventfds_and_files_are_targets_and_children_are_unknown(start: Start, tmp_path: Path) -> None:
    pid, (fd,) = start("e = os.eventfd(0); say(e); os.read(e, 8)")
    assert target_in(pid, "read") == WaitTarget("eventfd", (), (fd,), "read")
    lock = "f = open(sys.argv[1], 'w'); import fcntl; fcntl.flock(f, fcntl.LOCK_EX); say(f.fileno()); "
    start(lock + "time.sleep(99)", tmp_path / "lock")
    pid, _ = start("f = open(sys.argv[1], 'w'); import fcntl; say(f.fileno()); fcntl.flock(f, 2)", tmp_path / "lock")
    assert target_in(pid, "flock").kind == "file"
    os.mkfifo(tmp_path / "fifo")
    pid, _ = start("say(1); open(sys.argv[1])", tmp_path / "fifo")
    assert target_in(pid, "openat") == WaitTarget("file", (), (), "openat")
    pid, _ = start("child = subprocess.Popen(['sleep', '99']); say(1); child.wait()")
    found = target_in(pid, "wait4", "waitid")
    assert found == WaitTarget("unknown", (), (), found.call)


def test_each_thread_has_its_target(start: Start) -> None:
    program = """
r, w = os.pipe()
threading.Thread(target=os.read, args=(r, 1), daemon=True).start()
time.sleep(0.2)
say(threading.enumerate()[1].native_id, inode(r))
time.sleep(99)
"""
    pid, (tid, number) = start(program)
    assert target_in(pid, "nanosleep", "clock_nanosleep").kind == "timer"
    assert target_in(pid, "read", tid=tid).inodes == (number,)


def test_a_thread_is_read_after_its_main_thread_has_ended(start: Start) -> None:
    program = """
r, w = os.pipe()
def wait():
    say(threading.get_native_id(), inode(r))
    os.read(r, 1)
threading.Thread(target=wait).start()
time.sleep(0.3)
ctypes.CDLL(None).pthread_exit(None)
"""
    pid, (tid, number) = start(program)
    end = time.monotonic() + 30
    while b"Z" not in Root().read_once(f"proc/{pid}/task/{pid}/stat", 64):
        assert time.monotonic() < end
        time.sleep(0.01)
    assert target_in(pid, "read", tid=tid).inodes == (number,)
    assert wait_target(ROOT, MEMORY, pid, pid) == UNKNOWN


def test_a_running_task_has_no_known_target(start: Start) -> None:
    pid, _ = start("say(1)\nwhile True: pass")
    seen = {wait_target(ROOT, MEMORY, pid, pid).kind for _ in range(50)}
    assert seen == {"unknown"}


QUEUE = """\
import multiprocessing
def work(index, results, get, port):
    connection = socket.create_connection(("127.0.0.1", port))
    while True:
        job = index.get(**get)
        if job == "tcp":
            connection.recv(1)
        elif job == "child":
            subprocess.Popen(["sleep", "99"], stdout=subprocess.PIPE).stdout.read()
        results.put(job)
if __name__ == "__main__":
    method, timeout, job, port = sys.argv[1:]
    context = multiprocessing.get_context(method)
    index, results = context.Queue(), context.Queue()
    args = (index, results, {"timeout": 60} if timeout == "timeout" else {}, int(port))
    worker = context.Process(target=work, args=args, daemon=True)
    worker.start()
    index.put("batch"); results.get()
    if job != "idle":
        index.put(job)
    say(worker.pid)
    time.sleep(99)
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("timeout", ["timeout", "for ever"])
def test_a_worker_at_its_index_queue_is_idle(start: Start, server: socket.socket, method: str, timeout: str) -> None:
    trainer, (worker,) = start(QUEUE, method, timeout, "idle", server.getsockname()[1])
    found = target_in(worker, *(("poll", "ppoll") if timeout == "timeout" else ("read",)))
    held = held_inodes(ROOT, trainer)
    assert held is not None
    assert found.kind == "pipe"
    assert not held.isdisjoint(found.inodes)


@pytest.mark.parametrize(("job", "call", "kind"), [("tcp", "recvfrom", "socket"), ("child", "read", "pipe")])
def test_a_worker_that_waits_for_its_client_or_child_is_not_idle(
    start: Start, server: socket.socket, job: str, call: str, kind: str
) -> None:
    trainer, (worker,) = start(QUEUE, "fork", "timeout", job, server.getsockname()[1])
    found = target_in(worker, call)
    assert found.kind == kind
    assert (held_inodes(ROOT, trainer) or frozenset()).isdisjoint(found.inodes)


def test_pollfds_in_unmapped_memory_leave_the_target_unknown(start: Start) -> None:
    program = """
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
r, w = os.pipe()
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
libc.poll.argtypes = [ctypes.c_void_p, ctypes.c_ulong, ctypes.c_int]
page = libc.mmap(None, 4096, 3, 0x22, -1, 0)
ctypes.memmove(page, int.to_bytes(r, 4, "little") + bytes([1, 0, 0, 0]), 8)
thread = threading.Thread(target=lambda: libc.poll(page, 1, -1), daemon=True)
thread.start()
say(thread.native_id, inode(r))
signal.sigwait([signal.SIGUSR1])
libc.munmap(page, 4096)
time.sleep(99)
"""
    pid, (tid, number) = start(program)
    found = target_in(pid, "poll", "ppoll", tid=tid)
    assert (found.kind, found.inodes) == ("pipe", (number,))
    os.kill(pid, signal.SIGUSR1)
    end = time.monotonic() + 20
    while found.kind != "unknown":
        assert time.monotonic() < end
        found = wait_target(ROOT, MEMORY, pid, tid)
    assert found == WaitTarget("unknown", (), (), found.call)
    assert found.call in ("poll", "ppoll")


@pytest.mark.parametrize("call", ["poll", "select"])
def test_a_process_with_5000_descriptors_is_read_up_to_a_limit(start: Start, call: str) -> None:
    program = """
import resource
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 6000), hard))
r, w = os.pipe()
fds = [os.dup(r) for _ in range(5000)]
p = select.poll()
for fd in fds:
    p.register(fd)
say(inode(r))
p.poll() if sys.argv[1] == "poll" else select.select(fds[:1000], [], [])
"""
    pid, (number,) = start(program, call)
    found = target_in(pid, call, f"p{call}", "pselect6")
    assert (found.kind, found.inodes, len(found.fds)) == ("pipe", (number,), MOST_FDS)
    assert len(ROOT.links(f"proc/{pid}/fd", MOST_LISTED) or {}) == MOST_LISTED
    assert number in (held_inodes(ROOT, pid) or ())
    job = JobSockets(ROOT, SocketDiag(ROOT, Clock()))
    job.update([pid], 0)
    assert job.update([pid], 1_000_000_000) == {}  # the process may have sockets beyond the descriptors that are read


def test_processes_may_end_during_the_reading(start: Start) -> None:
    """Children are killed while they are read, each at a different moment."""
    dice = random.Random(3)
    program = "r, w = os.pipe(); p = select.poll(); p.register(r); say(1)\nwhile True: p.poll(0); p.poll(1)"
    kinds = set()
    for _ in range(quick_or(4, 10)):
        pid, _ = start(program)
        killer = threading.Timer(dice.uniform(0, 0.05), os.kill, (pid, signal.SIGKILL))
        killer.start()
        end = time.monotonic() + 0.1
        while time.monotonic() < end:
            kinds.add(wait_target(ROOT, MEMORY, pid, pid).kind)
        killer.join()
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # a killed process holds its files until it has ended
        assert wait_target(ROOT, MEMORY, pid, pid) == UNKNOWN
        assert not held_inodes(ROOT, pid)
    assert kinds <= {"pipe", "unknown"}
    assert wait_target(ROOT, MEMORY, 1 << 22, 1 << 22) == UNKNOWN
    assert held_inodes(ROOT, 1 << 22) is None


UNPRIVILEGED = """\
import os, sys
from iotop_ai.collectors.io.process_memory import ProcessMemory
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.job.wait_target import UNKNOWN, held_inodes, wait_target
os.setgroups([]); os.setgid(65534); os.setuid(65534)
pid = int(sys.argv[1])
print(wait_target(Root(), ProcessMemory(Root()), pid, pid) == UNKNOWN, held_inodes(Root(), pid))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_the_target_of_another_users_task_is_unknown(start: Start) -> None:
    pid, _ = start("r, w = os.pipe(); say(1); os.read(r, 1)")
    target_in(pid, "read")
    words = [sys.executable, "-c", UNPRIVILEGED, str(pid)]
    assert subprocess.run(words, capture_output=True, text=True, timeout=30, check=True).stdout == "True None\n"


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="needs x86-64")
def test_the_target_of_a_32_bit_process_is_unknown(tmp_path: Path) -> None:
    # The code calls read(0, stack, 1), whose number is 3 there. On x86-64 that number means close.
    code = bytes.fromhex("b803000000 31db 89e1 ba01000000 cd80 ebfe")
    base, size = 0x8048000, 84 + len(code)
    header = (
        b"\x7fELF\1\1\1" + bytes(9) + struct.pack("<HHIIIIIHHHHHH", 2, 3, 1, base + 84, 52, 0, 0, 52, 32, 1, 0, 0, 0)
    )
    segment = struct.pack("<IIIIIIII", 1, 0, base, base, size, size, 5, 4096)
    program = tmp_path / "read32"
    program.write_bytes(header + segment + code)
    program.chmod(0o755)
    try:
        child = subprocess.Popen([program], stdin=subprocess.PIPE)
    except OSError as error:
        pytest.skip(f"no 32-bit programs here: {error}")
    try:
        end = time.monotonic() + 30
        while not (raw := ROOT.read_once(f"proc/{child.pid}/syscall", 256)).startswith(b"3 "):
            assert time.monotonic() < end, raw
        assert wait_target(ROOT, MEMORY, child.pid, child.pid) == UNKNOWN
    finally:
        child.kill()
        child.communicate()


def test_a_captured_machine_has_no_targets(tmp_path: Path) -> None:
    task = tmp_path / "proc" / "7" / "task" / "7"
    (task / "fd").mkdir(parents=True)
    (task / "fd" / "3").symlink_to("pipe:[9]")
    (task / "syscall").write_text("0 0x3 0x0 0x0 0x0 0x0 0x0 0x7ffd00000000 0x7f0000000000\n")
    assert wait_target(Root(str(tmp_path)), MEMORY, 7, 7) == UNKNOWN
