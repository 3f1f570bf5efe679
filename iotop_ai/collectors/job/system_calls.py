"""The system calls in which tasks wait, by their number.

Sources: arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h of Linux 6.7.
"""

from __future__ import annotations

from iotop_ai.lazy.namedtuple import NamedTuple


class SystemCall(NamedTuple):
    """A system call in which a thread may wait. waits_on: what the thread waits for, or how to find that out.

    "fd": argument 0 is a descriptor. "poll", "select", "epoll": the arguments name several descriptors. "futex",
    "timer": the thread waits for an object of this kind. "file": it waits for the file at a path. "-": it waits for
    something else.
    """

    name: str
    waits_on: str


_MACHINES = ("x86_64", "aarch64")
_TABLE = """\
read fd 0 63
readv fd 19 65
pread64 fd 17 67
preadv fd 295 69
preadv2 fd 327 286
write fd 1 64
writev fd 20 66
pwrite64 fd 18 68
pwritev fd 296 70
recvfrom fd 45 207
recvmsg fd 47 212
recvmmsg fd 299 243
accept fd 43 202
accept4 fd 288 242
connect fd 42 203
sendto fd 44 206
sendmsg fd 46 211
sendmmsg fd 307 269
sendfile fd 40 71
splice fd 275 76
ioctl fd 16 29
fcntl fd 72 25
flock fd 73 32
close fd 3 57
fstat fd 5 80
fsync fd 74 82
fdatasync fd 75 83
sync_file_range fd 277 84
syncfs fd 306 267
fallocate fd 285 47
ftruncate fd 77 46
sync - 162 81
getdents64 fd 217 61
io_uring_enter fd 426 426
poll poll 7 -
ppoll poll 271 73
select select 23 -
pselect6 select 270 72
epoll_wait epoll 232 -
epoll_pwait epoll 281 22
epoll_pwait2 epoll 441 441
futex futex 202 98
futex_wait futex 455 455
futex_waitv futex 449 449
nanosleep timer 35 101
clock_nanosleep timer 230 115
open file 2 -
openat file 257 56
openat2 file 437 437
stat file 4 -
lstat file 6 -
newfstatat file 262 79
statx file 332 291
wait4 - 61 260
waitid - 247 95
vfork - 58 -
pause - 34 -
rt_sigtimedwait - 128 137
rt_sigsuspend - 130 133
semop - 65 193
semtimedop - 220 192
msgrcv - 70 188
io_getevents - 208 4
mmap - 9 222
munmap - 11 215
msync - 26 227
madvise - 28 233
restart_syscall - 219 128
"""
"""The columns: name, ``SystemCall.waits_on``, number on x86-64, number on arm64."""


def system_calls(machine: str) -> dict[int, SystemCall]:
    """Return the calls by number. machine: the output of ``uname -m``. {} when its numbers are not listed here."""
    if machine not in _MACHINES:
        return {}
    column = 2 + _MACHINES.index(machine)
    rows = [line.split() for line in _TABLE.splitlines()]
    return {int(row[column]): SystemCall(row[0], row[1]) for row in rows if row[column] != "-"}
