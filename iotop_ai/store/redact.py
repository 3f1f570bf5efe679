"""What of a command line is written: a pure function on Snapshots, before the codec.

names     the program and, of an interpreter, its script or module (the default of everything written)
redacted  all arguments, with what looks like a secret replaced
full      everything
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from iotop_ai.model.followed import Ledger, changed, gone
from iotop_ai.model.process import ProcessInfo, ProcessKey
from iotop_ai.model.snapshot import Snapshot

HIDDEN = "***"
_INTERPRETER = re.compile(
    r"(python|pypy|ruby|perl|node|java|bash|sh|dash|zsh|torchrun|accelerate|deepspeed|Rscript)[\d.]*"
)
_SECRET_NAME = re.compile(r"(token|key|secret|passw|passwd|pwd|auth|credential|cookie|bearer)", re.IGNORECASE)
_URL_LOGIN = re.compile(r"(?<=//)[^/@\s]+@")
_LONG_CODE = re.compile(
    r"(?<![A-Za-z0-9+/_-])(?:[0-9a-fA-F]{24,}|(?=[A-Za-z0-9+_-]*\d)[A-Za-z0-9+_-]{32,}={0,2})(?![A-Za-z0-9+_-])"
)


def base_name(path: str) -> str:
    """The last part of a path."""
    return path.rstrip("/").rsplit("/", 1)[-1]


def command_names(cmdline: tuple[str, ...]) -> tuple[str, ...]:
    """The program's name and, behind an interpreter, the script's or module's; never another argument."""
    if not cmdline:
        return ()
    program = base_name(cmdline[0].split(" ", 1)[0])
    out = [program]
    if _INTERPRETER.fullmatch(program):
        rest = iter(cmdline[1:])
        for argument in rest:
            if argument == "-m":
                module = next(rest, "")
                if re.fullmatch(r"[\w.]+", module):
                    out += ["-m", module]
                break
            if argument in ("-c", "-e"):
                out.append(argument)
                break
            if not argument.startswith("-"):
                name = base_name(argument)
                if re.fullmatch(r"[\w.+-]{1,64}", name) and not _LONG_CODE.search(name):
                    out.append(name)
                break
    return tuple(out)


def command_redacted(cmdline: tuple[str, ...]) -> tuple[str, ...]:
    """All arguments, but values of secret-looking options, logins in URLs and long codes are replaced."""
    out: list[str] = []
    hide_next = False
    for argument in cmdline:
        if hide_next and not argument.startswith("-"):
            out.append(HIDDEN)
            hide_next = False
            continue
        hide_next = False
        name, equals, _ = argument.partition("=")
        if equals and _SECRET_NAME.search(name):
            out.append(f"{name}={HIDDEN}")
            continue
        if argument.startswith("-") and _SECRET_NAME.search(argument):
            hide_next = True
        argument = _URL_LOGIN.sub(HIDDEN + "@", argument)
        out.append(_LONG_CODE.sub(HIDDEN, argument))
    return tuple(out)


COMMANDS: dict[str, Callable[[tuple[str, ...]], tuple[str, ...]]] = {
    "names": command_names,
    "redacted": command_redacted,
}
"""What each level but full makes of a command line."""


class Redactor:
    """Applies one level to Snapshots; the same record gives the same object, so that unchanged stays unchanged."""

    def __init__(self, level: str = "names") -> None:
        self.level = level
        self._command = COMMANDS.get(level)
        self._before: Mapping[ProcessKey, ProcessInfo] = {}
        self._out: Ledger[ProcessKey, ProcessInfo] = Ledger()

    def snapshot(self, snapshot: Snapshot) -> Snapshot:
        """The Snapshot as it may be written."""
        table = snapshot.processes.value
        if self._command is None or table is None:
            return snapshot
        # A table of equal records counts as the same one: comparing is cheaper than looking at each of them.
        if self._before is not table.info and self._before != table.info:
            for key in changed(table.info, self._before):
                info = table.info[key]
                self._out.put(key, info._replace(cmdline=self._command(info.cmdline)))
            for key in gone(table.info, self._before):
                self._out.drop(key)
            self._before = table.info
            self._out.turn()
        return snapshot._replace(processes=snapshot.processes._replace(value=table._replace(info=self._out.now)))
