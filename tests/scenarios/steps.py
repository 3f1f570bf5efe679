"""What a trainer's main thread does in a step while its accelerator works: ``Step(kind).run(seconds)``.

sleep: waits for a timer. spin: keeps a core busy. futex: waits for another thread of the trainer. poll: waits for a
descriptor. ioctl: waits in a driver's ioctl. It uses only the standard library, because the trainers run in the
environments of their stacks.
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import os
import platform
import select
import struct
import threading
import time

KINDS = ("sleep", "spin", "futex", "poll", "ioctl")

_SECCOMP = {"x86_64": 317, "aarch64": 277}
_GETSID = {"x86_64": 124, "aarch64": 156}
_PR_SET_NO_NEW_PRIVS, _SET_FILTER, _NEW_LISTENER = 38, 1, 8
_RECV, _SEND = 0xC0502100, 0xC0182101
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_NOTIFY, _ALLOW, _CONTINUE = 0x7FC00000, 0x7FFF0000, 1
"""Constants of include/uapi/linux/seccomp.h, filter.h and bpf_common.h. The numbers of system calls are the kernel's.
"""


def spin(seconds: float) -> None:
    """Keep a core busy without the interpreter's lock, as a thread that polls its GPU does."""
    end, block = time.monotonic() + seconds, bytes(1 << 18)
    while time.monotonic() < end:
        hashlib.sha256(block).digest()


class _Launcher:
    """A thread that does the step while the main thread sleeps in a futex, as autograd's and dispatch threads do.

    It computes for a fifth of the step and sleeps for the rest, like launches that are followed by a wait for the GPU.
    """

    def __init__(self) -> None:
        self._asked, self._done = threading.Semaphore(0), threading.Semaphore(0)
        self._seconds = 0.0
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            self._asked.acquire()
            spin(self._seconds / 5)
            time.sleep(self._seconds * 4 / 5)
            self._done.release()

    def step(self, seconds: float) -> None:
        self._seconds = seconds
        self._asked.release()
        self._done.acquire()


class _Instruction(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint16), ("yes", ctypes.c_uint8), ("no", ctypes.c_uint8), ("value", ctypes.c_uint32))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("code", ctypes.POINTER(_Instruction)))


class _Device:
    """A driver whose ioctl returns when its device is done, as a blocking wait for a GPU does.

    The driver is seccomp: SECCOMP_IOCTL_NOTIF_RECV sleeps in the kernel until a thread under the filter makes the call
    that the filter reports. That thread stands for the device and makes the call at the end of the step.
    """

    def __init__(self) -> None:
        self._asked, self._ready = threading.Semaphore(0), threading.Semaphore(0)
        self._seconds = 0.0
        self._fd = -1
        threading.Thread(target=self._run, daemon=True).start()
        self._ready.acquire()
        if self._fd < 0:
            raise OSError("this kernel reports no call to a listener (seccomp)")

    def _run(self) -> None:
        libc, machine = ctypes.CDLL(None), platform.machine()
        code = (_Instruction * 4)(
            _Instruction(_LOAD, 0, 0, 0),
            _Instruction(_EQUAL, 0, 1, _GETSID[machine]),
            _Instruction(_RETURN, 0, 0, _NOTIFY),
            _Instruction(_RETURN, 0, 0, _ALLOW),
        )
        libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        self._fd = libc.syscall(_SECCOMP[machine], _SET_FILTER, _NEW_LISTENER, ctypes.byref(_Program(4, code)))
        self._ready.release()
        while self._fd >= 0:
            self._asked.acquire()
            time.sleep(self._seconds)
            libc.getsid(0)  # ctypes releases the lock, so the main thread can answer

    def step(self, seconds: float) -> None:
        self._seconds = seconds
        self._asked.release()
        request = bytearray(80)
        fcntl.ioctl(self._fd, _RECV, request)
        (number,) = struct.unpack_from("Q", request)
        fcntl.ioctl(self._fd, _SEND, bytearray(struct.pack("QqiI", number, 0, 0, _CONTINUE)))


class Step:
    """A step of one kind. Its threads and descriptors begin with the first step, so that forked workers have none."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._pipe = -1
        self._worker: _Launcher | _Device | None = None

    def run(self, seconds: float) -> None:
        """Do a step of this many seconds."""
        if self.kind == "sleep":
            time.sleep(seconds)
        elif self.kind == "spin":
            spin(seconds)
        elif self.kind == "poll":
            if self._pipe < 0:
                self._pipe, self._end = os.pipe()
            select.select([self._pipe], [], [], seconds)
        else:
            if self._worker is None:
                self._worker = _Launcher() if self.kind == "futex" else _Device()
            self._worker.step(seconds)


def why_no_ioctl() -> str:
    """Return why this machine cannot do a step of the kind "ioctl"; "" when it can."""
    if platform.machine() not in _SECCOMP:
        return "needs the numbers of this machine's system calls"
    try:
        actions = open("/proc/sys/kernel/seccomp/actions_avail").read()  # noqa: SIM115
    except OSError:
        actions = ""
    return "" if "user_notif" in actions.split() else "needs seccomp with listeners (Linux 5.0)"
