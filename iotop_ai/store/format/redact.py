"""Redacts command lines of Snapshots before they are written. There are three levels:

names     the program and, for an interpreter, its script or module (the default for everything that is written)
redacted  all arguments, with text that looks like a secret replaced
full      everything
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from iotop_ai.collectors.machine.kernel_log.event import (
    ATA,
    FILESYSTEM,
    GPU_RESET,
    IO_ERROR,
    MEMORY,
    PCIE,
    RAID,
    READ_ONLY,
    RESET,
    SERVER,
    TIMEOUT,
    XID,
)
from iotop_ai.diagnosis.verdict.acknowledge import ACK, UNDONE
from iotop_ai.model.process.change_tracking import TrackedDictBuilder, changed, removed
from iotop_ai.model.process.records import ProcessInfo, ProcessKey
from iotop_ai.model.snapshot import CLOCK_SET_BACK, COMMAND_END, COMMAND_START, NOT_RECORDED, Event, Snapshot
from iotop_ai.store.format.secrets import command_redacted, note_redacted, without_secrets

_INTERPRETER = re.compile(
    r"(python|pypy|ruby|perl|node|java|bash|sh|dash|zsh|torchrun|accelerate|deepspeed|Rscript)[\d.]*"
)

_MAY_TAKE_VALUE = re.compile(r"--?\w[\w-]+|-[WXoOrIp]")
"""An option that may take the next argument as its value; Python has its own list. That argument is skipped unless it
has the ending of a script. A later argument then needs such an ending to count as the script, because the skipped one
may be the script."""
_PYTHON_TAKES_VALUE = re.compile(r"-[bBdEiIOPqsSuvx]*[WX]|--check-hash-based-pycs")
"""The options of Python that take the next argument as their value."""
_PYTHON_CODE_OR_MODULE = re.compile(r"(-[bBdEiIOPqsSuvx]*c|-[bBdEiIOPqsSuvx]*m)(.*)", re.DOTALL)
"""Python's -c or -m, alone or after other letters, and the code or module that may follow in the same argument."""
_CODE_OPTION = re.compile(r"(-[A-Za-z]{0,3}c|-e|--eval|--print)(?:=.*)?", re.DOTALL)
"""An option that is followed by code: -c, alone or after other letters (bash -lc), -e (Rscript -e), or a long one, with
which the code may be in the same argument (node --eval=CODE)."""
_PERL_CODE = re.compile(r"(-[acdflnpsStTuUvwWX\d]*[eE]).*", re.DOTALL)
_RUBY_CODE = re.compile(r"(-[acdhlnpsSvwWy\d]*e).*", re.DOTALL)
"""-e, and -E of Perl, alone or after letters without a value, and the code that may follow in the same argument."""
_SHELL = re.compile(r"(?:bash|sh|dash|zsh)[\d.]*")
_SHELL_READS_STDIN = re.compile(r"-[A-Za-z]*s[A-Za-z]*")
"""A shell's -s, alone or with other letters: the script comes from standard input, and only arguments follow."""
_SCRIPT = re.compile(r"\.(?:py|sh|bash|zsh|rb|pl|m?js|cjs|ts|jar|R)$")

_OWN_KINDS = frozenset((
    ACK, UNDONE, XID, GPU_RESET, IO_ERROR, TIMEOUT, RESET, ATA, READ_ONLY, FILESYSTEM, RAID, PCIE, MEMORY, SERVER,
    "device_added", "device_removed", "drop_caches", COMMAND_END, NOT_RECORDED, CLOCK_SET_BACK,
))  # fmt: skip
"""The kinds of events whose text holds only this program's words and the names of devices, servers and findings. It is
not redacted, because such a name may look like a token. All other kinds may quote a command line, a process's name or a
user's text."""


def base_name(path: str) -> str:
    """The last part of a path."""
    return path.rstrip("/").rsplit("/", 1)[-1]


def command_names(cmdline: tuple[str, ...]) -> tuple[str, ...]:
    """The name of the program and, if it is an interpreter, its script or module, or the option before code."""
    if not cmdline:
        return ()
    program = without_secrets(base_name(cmdline[0].split(" ", 1)[0]))
    return (program, *_script(program, cmdline)) if _INTERPRETER.fullmatch(program) else (program,)


def _script(program: str, cmdline: tuple[str, ...]) -> tuple[str, ...]:
    """The script's name, or -m and the module, or the option before code; () if none of them is certain."""
    is_python, is_shell = program.startswith(("python", "pypy")), _SHELL.fullmatch(program) is not None
    takes_value = _PYTHON_TAKES_VALUE if is_python else _MAY_TAKE_VALUE
    is_perl, is_ruby = program.startswith("perl"), program.startswith("ruby")
    code_option = _PERL_CODE if is_perl else _RUBY_CODE if is_ruby else _CODE_OPTION
    was_skipped, rest = False, iter(cmdline[1:])
    for before, argument in zip(cmdline, rest, strict=False):
        code_or_module = _PYTHON_CODE_OR_MODULE.fullmatch(argument) if is_python else None
        if argument == "-m" or (code_or_module is not None and code_or_module[1].endswith("m")):
            module = (code_or_module[2] if code_or_module is not None else "") or next(rest, "")
            return ("-m", module) if re.fullmatch(r"[\w.]+", module) else ()
        if code_or_module is not None:
            return (code_or_module[1],)
        if code := code_option.fullmatch(argument):
            return (code[1],)
        if argument == "-" or (is_shell and _SHELL_READS_STDIN.fullmatch(argument)):
            return ()
        if not argument.startswith("-"):
            name = base_name(argument)
            is_script = _SCRIPT.search(name) is not None
            if takes_value.fullmatch(before) and not is_script:
                was_skipped = not is_python
                continue
            is_certain = is_script or not was_skipped
            return (name,) if is_certain and _is_harmless(name) else ()
    return ()


def _is_harmless(name: str) -> bool:
    return re.fullmatch(r"[\w.+-]{1,64}", name) is not None and without_secrets(name) == name


COMMAND_REDACTORS: dict[str, Callable[[tuple[str, ...]], tuple[str, ...]]] = {
    "names": command_names,
    "redacted": command_redacted,
}
"""The function that redacts a command line, by level; the level "full" needs none."""


def event_text(event: Event, level: str = "names") -> str:
    """The event's text, with secrets replaced if it may hold any. level: "names" or "redacted".

    The text of a command_start event is a command line, of which "names" keeps only what ``command_names`` returns.
    """
    if event.kind == COMMAND_START and level == "names":
        return " ".join(command_names(tuple(event.text.split())))
    return event.text if event.kind in _OWN_KINDS else note_redacted(event.text)


class Redactor:
    """Redacts Snapshots to one level. An unchanged record stays the same object."""

    def __init__(self, level: str = "names") -> None:
        self.level = level
        self._redact_command = COMMAND_REDACTORS.get(level)
        self._before: Mapping[ProcessKey, ProcessInfo] = {}
        self._out: TrackedDictBuilder[ProcessKey, ProcessInfo] = TrackedDictBuilder()

    def snapshot(self, snapshot: Snapshot) -> Snapshot:
        """The Snapshot with redacted command lines and event texts."""
        if self._redact_command is None:
            return snapshot
        if snapshot.events:
            events = (event._replace(text=event_text(event, self.level)) for event in snapshot.events)
            snapshot = snapshot._replace(events=tuple(events))
        table = snapshot.processes.value
        if table is None:
            return snapshot
        # Comparing the whole tables is faster than comparing their records one by one.
        if self._before is not table.info and self._before != table.info:
            for key in changed(table.info, self._before):
                info = table.info[key]
                self._out.put(key, info._replace(cmdline=self._redact_command(info.cmdline)))
            for key in removed(table.info, self._before):
                self._out.drop(key)
            self._before = table.info
            self._out.mark_published()
        return snapshot._replace(processes=snapshot.processes._replace(value=table._replace(info=self._out.now)))
