"""Signals, renices or ionices the process on the screen, and never a later process with the same pid.

An open pidfd always refers to the same process (pidfd_open(2)). The start time, which is read after the open, proves
that the pidfd refers to the process on the screen. The calls for niceness and I/O priority take no pidfd. So before the
call for each thread, a poll of the pidfd checks that the process has not ended. A race remains only between poll and
call.

All these calls count processes as our own PID namespace does, and /proc as the namespace in which it was mounted. If
the two differ, a pid from /proc is the number of another process in the call, so every action is refused.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from iotop_ai.actions.audit import Audit
from iotop_ai.actions.outcome import Outcome, audited
from iotop_ai.collectors.io.linux_calls import pidfd_open, pidfd_send_signal
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.process.parse import PF_KTHREAD, parse_stat
from iotop_ai.model.clean import clean
from iotop_ai.model.process.records import ProcessKey

SIGNALS = ("term", "int", "hup", "kill", "stop", "cont", "usr1", "usr2")
IO_CLASSES = {"rt": 1, "best": 2, "idle": 3}
"""The numbers of the I/O classes of ioprio_set(2)."""
_IOPRIO_SET = {"x86_64": 251, "aarch64": 30, "riscv64": 30, "ppc64le": 273, "s390x": 282}
"""The number of the system call ioprio_set on each architecture."""
_IOPRIO_WHO_PROCESS = 1
_CLASS_SHIFT = 13
"""An I/O priority is the number of its class, shifted by this many bits, plus the level."""
INIT_PID = 1


class ProcessAction(NamedTuple):
    """An action on a process. kind: "signal", "nice" or "io".

    value: the number of the signal, a niceness from -20 to 19, or the value for ioprio_set. text: the command that
    describes the action, such as "io best 4".
    """

    kind: str
    value: int
    text: str


def parse_command(text: str) -> ProcessAction | None:
    """Return the action that a text describes; None for any other text.

    Examples: "term", "kill", "nice 10", "nice -5", "io idle", "io best 7", "io rt 0".
    """
    words = text.lower().split()
    if len(words) == 1 and words[0] in SIGNALS:
        return ProcessAction("signal", signal.Signals[f"SIG{words[0].upper()}"], words[0])
    if len(words) == 2 and words[0] == "nice":
        level = _number(words[1], -20, 19)
        return None if level is None else ProcessAction("nice", level, f"nice {level}")
    if len(words) in (2, 3) and words[0] == "io" and words[1] in IO_CLASSES:
        # The default levels are those of ionice(1).
        if words[1] == "idle":
            level = 7 if len(words) == 2 else None
        else:
            level = _number(words[2], 0, 7) if len(words) == 3 else 4
        if level is None:
            return None
        name = "io idle" if words[1] == "idle" else f"io {words[1]} {level}"
        return ProcessAction("io", IO_CLASSES[words[1]] << _CLASS_SHIFT | level, name)
    return None


def _number(text: str, least: int, most: int) -> int | None:
    """Return the text as an integer; None if it is not an integer from ``least`` to ``most``."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= 2):
        return None
    return int(text) if least <= int(text) <= most else None


def why_protected(key: ProcessKey, root: Root) -> str:
    """Return why no action on a process is allowed: it is init, this program or a kernel thread, or /proc is foreign.

    Returns "" for any other process, and for one that cannot be read.
    """
    if not _proc_is_of_our_namespace(root):
        return "/proc is of another PID namespace, where processes have other numbers"
    if key.pid == INIT_PID:
        return "pid 1 keeps the machine alive"
    if key.pid == os.getpid():
        return "this is iotop-ai itself: q quits it"
    try:
        flags = parse_stat(root.read(f"proc/{key.pid}/stat")).flags
    except (OSError, ValueError):
        return ""
    return "this is a kernel thread" if flags & PF_KTHREAD else ""


def _proc_is_of_our_namespace(root: Root) -> bool:
    """Whether /proc numbers processes as the system calls of this process do.

    ``NSpid`` of /proc/self/status has our pid in each PID namespace from that of /proc to our own (proc_pid_status(5)),
    so one pid means that they are the same. A kernel without PID namespaces has no such line. /proc does not list us at
    all if its namespace is neither ours nor one above ours.
    """
    try:
        status = root.read("proc/self/status")
    except OSError:
        return False
    pids = next((line.split()[1:] for line in status.splitlines() if line.startswith(b"NSpid:")), [b""])
    return len(pids) == 1


def act_on(command: ProcessAction, keys: Sequence[ProcessKey], name: str, root: Root, audit: Audit) -> Outcome:
    """Act on each process; return one outcome for all. Never raises.

    The outcome is ``done`` if at least one action succeeded. Its text gives the reasons for the failures and, if there
    are several processes, the number of successes. name: the name of the process or group in messages.
    """

    def act() -> Outcome:
        succeeded, refused = 0, dict[str, int]()
        for key in keys:
            why = why_protected(key, root) or _act(command, key, root)
            if why:
                refused[why] = refused.get(why, 0) + 1
            else:
                succeeded += 1
        successes = f"{succeeded} of {len(keys)}" if len(keys) > 1 else ""
        target = f"{clean(name)} ({successes or keys[0].pid})" if keys else clean(name)
        reasons = "; ".join(f"{count}: {why}" if len(keys) > 1 else why for why, count in refused.items())
        text = f"{command.text}: {target}" if succeeded else f"{command.text}: failed for {target}"
        return Outcome(bool(succeeded), text + (f": {reasons}" if reasons else ""), _remedy(command, keys, refused))

    pids = " ".join(str(key.pid) for key in keys)
    return audited(audit, command.text, f"{clean(name)}: {pids}", act)


class GroupOutcome(NamedTuple):
    """The outcome for several processes. whole: the outcome of all in one line. successes: the text of each success."""

    whole: Outcome
    successes: tuple[str, ...]


def act_on_each(
    command: ProcessAction, targets: Sequence[tuple[ProcessKey, str]], root: Root, audit: Audit
) -> GroupOutcome:
    """Call ``act_on`` for each pair of process and name, so that the audit log has entries for each process.

    A process is not touched if the audit log cannot be written. Never raises.
    """
    outcomes = [act_on(command, (key,), name, root, audit) for key, name in targets]
    successes = tuple(outcome.text for outcome in outcomes if outcome.done)
    refused = [outcome for outcome in outcomes if not outcome.done]
    text = f"{command.text}: {len(successes)} of {len(outcomes)} tagged processes"
    if refused:
        text += "; " + refused[0].text.removeprefix(f"{command.text}: ")
        text += f", and {len(refused) - 1} more" if len(refused) > 1 else ""
    remedy = refused[0].remedy if len(refused) == 1 else ""
    return GroupOutcome(Outcome(bool(successes), text, remedy), successes)


_SIGNAL_DENIED = "not permitted: owned by another user"
_PRIORITY_DENIED = "not permitted: owned by another user, or only root can raise the priority"
_ENDED = "it has ended"


def _remedy(command: ProcessAction, keys: Sequence[ProcessKey], refused: dict[str, int]) -> str:
    """Return the command with which root can do the same, if permission was denied and there is one process; else "".

    renice and ionice change only the threads whose ids they get, so ps lists all threads of the process.
    """
    if len(keys) != 1 or not refused.keys() & {_SIGNAL_DENIED, _PRIORITY_DENIED}:
        return ""
    pid = keys[0].pid
    threads = f"$(ps -Lo lwp= -p {pid})"
    shell_commands = {
        "signal": f"kill -{command.value} {pid}",
        "nice": f"renice -n {command.value} -p {threads}",
        "io": f"ionice -c {command.value >> _CLASS_SHIFT} -n {command.value & 7} -p {threads}",
    }
    return f"sudo {shell_commands[command.kind]}"


def _act(command: ProcessAction, key: ProcessKey, root: Root) -> str:
    """Act on one process; return the reason for a failure, or "" when it succeeded."""
    try:
        with _pidfd_of(key, root) as pidfd:
            if command.kind == "signal":
                pidfd_send_signal(pidfd, command.value)
            else:
                _act_on_each_thread(command, key, root, pidfd)
    except ProcessLookupError:
        return _ENDED
    except PermissionError:
        return _SIGNAL_DENIED if command.kind == "signal" else _PRIORITY_DENIED
    except OSError as error:
        return clean(error.strerror or "it cannot be done")
    return ""


@contextmanager
def _pidfd_of(key: ProcessKey, root: Root) -> Iterator[int]:
    """Yield a pidfd of the process.

    Raises OSError: a ProcessLookupError if the process has exited, even if its pid is reused.
    """
    pidfd = pidfd_open(key.pid)
    try:
        try:
            start = parse_stat(root.read(f"proc/{key.pid}/stat")).start_ticks
        except (FileNotFoundError, ValueError):
            raise ProcessLookupError(errno.ESRCH, "ended") from None
        if start != key.start_ticks:
            raise ProcessLookupError(errno.ESRCH, "another process")
        yield pidfd
    finally:
        os.close(pidfd)


def _act_on_each_thread(command: ProcessAction, key: ProcessKey, root: Root, pidfd: int) -> None:
    """Set the niceness or I/O priority of each thread. Raises OSError.

    A thread that exits meanwhile is left out, but the end of the process raises ProcessLookupError.
    """
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    tids = [int(name) for name in root.names(f"proc/{key.pid}/task") if name.isdigit()]
    if not tids:
        raise ProcessLookupError(errno.ESRCH, "ended")
    for tid in tids:
        if poll.poll(0):
            raise ProcessLookupError(errno.ESRCH, "ended")
        try:
            if command.kind == "nice":
                os.setpriority(os.PRIO_PROCESS, tid, command.value)
            else:
                _set_io_priority(tid, command.value)
        except ProcessLookupError:
            if tid == key.pid:
                raise


def _set_io_priority(tid: int, value: int) -> None:
    number = _IOPRIO_SET.get(os.uname().machine)
    if number is None:
        raise OSError(errno.ENOSYS, "the call is not known on this architecture: use ionice")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(number, _IOPRIO_WHO_PROCESS, tid, value):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
