"""Reads what a process is: its name, command line, user and cgroup."""

from __future__ import annotations

from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.process.command_line import CommandLines
from iotop_ai.collectors.process.descriptors import UNSEEN, ProcessEntry, read_once
from iotop_ai.collectors.process.parse import PF_KTHREAD, ParsedStat, interned, parse_cgroup, parse_status
from iotop_ai.collectors.process.users import Users
from iotop_ai.model.clean import clean_bytes
from iotop_ai.model.process.records import ProcessInfo


class IdentityReader:
    """Reads a ProcessInfo. root: the files of the machine. users: the names of its users."""

    def __init__(self, root: Root, users: Users) -> None:
        self._root = root
        self.users = users
        self.command_lines = CommandLines(root)

    def read(self, entry: ProcessEntry, stat: ParsedStat) -> ProcessInfo:
        """Read the info of a process. stat: its newest stat."""
        cmdline = self.command_lines.read(entry.key.pid, stat, at_once=entry.published)
        if cmdline is None:  # it is read later in this tick, or again in the next one
            entry.info_may_predate_exec, entry.stat_hash = True, UNSEEN
        cgroup = read_once(self._root, f"proc/{entry.key.pid}/cgroup", 4096)
        return interned(
            ProcessInfo(
                clean_bytes(entry.comm),
                cmdline or (),
                self.users.name(entry.uid),
                entry.uid,
                bool(stat.flags & PF_KTHREAD),
                "" if isinstance(cgroup, OSError) else parse_cgroup(cgroup),
            )
        )

    def read_after_exec(self, entry: ProcessEntry, stat: ParsedStat) -> ProcessInfo:
        """Read the info again after a possible exec, which may have changed the name, arguments and user."""
        entry.info_may_predate_exec = False
        status = read_once(self._root, f"proc/{entry.key.pid}/status", 4096)
        if isinstance(status, bytes) and status:
            entry.uid = parse_status(status)[1]
        return self.read(entry, stat)

    def close(self) -> None:
        """End the threads that read names and command lines."""
        self.users.close()
        self.command_lines.close()
