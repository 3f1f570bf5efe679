"""The dialogues before a process is signalled or given another priority, and before delay accounting is switched."""

from __future__ import annotations

from typing import NamedTuple

from iotop_ai.model.process import ProcessKey
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.present.dialogue import Row, fact, typing
from iotop_ai.present.line import Span, cut, plain

TITLE = "PROCESS"
DELAY_TITLE = "DELAY ACCOUNTING"
_CHOICES = (
    ("term int hup", "ask it to end; most programs clean up first"),
    ("kill", "end it at once: nothing is saved"),
    ("stop cont", "halt it, let it go on; also usr1, usr2"),
    ("nice 10", "its turn at the CPU: -20 first, 19 last"),
    ("io idle", "when nobody wants the disk; also io best 0-7"),
)


class Whom(NamedTuple):
    """What is acted on: one process, or several of one name and user that share a row."""

    name: str
    user: str
    keys: tuple[ProcessKey, ...]

    @property
    def label(self) -> str:
        """ "train.py, pid 412" or "pt_data_worker x64"."""
        name = plain(self.name)
        return f"{name}, pid {self.keys[0].pid}" if len(self.keys) == 1 else f"{name} x{len(self.keys)}"


def whom_of(now: Snapshot, pid: int, keys: tuple[ProcessKey, ...]) -> Whom | None:
    """Who has this pid, with those that share its row; None when it has ended."""
    table = now.processes.value
    if table is None:
        return None
    key = next((key for key in table.info if key.pid == pid), None)
    if key is None:
        return None
    info = table.info[key]
    there = tuple(key for key in keys if key in table.info) or (key,)
    return Whom(info.name, info.user, there)


def process_body(now: Snapshot, whom: Whom, typed: str, said: str, width: int) -> tuple[list[Row], list[Row]]:
    """(who it is and what hangs on it, the commands)."""
    head = [*fact("of", plain(whom.user), width)]
    table = now.processes.value
    info = None if table is None else table.info.get(whom.keys[0])
    if info is not None and info.cmdline:
        head += fact("runs", cut(plain(" ".join(info.cmdline)), 2 * (width - 14)), width)
    jobs = () if now.jobs.value is None else now.jobs.value.jobs.values()
    job = next((job for job in jobs if job.members & frozenset(whom.keys)), None)
    if job is not None:
        ranks = f", which has {len(job.ranks)} ranks that wait for each other" if len(job.ranks) > 1 else ""
        head += fact("part of", f"the job {plain(job.name)} of {plain(job.user)}{ranks}", width, token="warn")
    if len(whom.keys) > 1:
        head += fact("all", f"each of the {len(whom.keys)} gets it", width, token="warn")
    head += fact("marks", "the recording and the audit log", width)
    tail: list[Row] = []
    for words, what in _CHOICES:
        tail.append([Span(f"   {words}".ljust(17), "strong"), Span(what, "dim")])
    tail.append([])
    if said:
        tail.append([Span(f"   {said}", "warn")])
    tail.append(typing([Span("type one and press ", "dim"), Span("Enter"), Span(": ")], typed, width))
    return head, tail


class DelayView(NamedTuple):
    """The other dialogue. on: as it is now, None unknown. how, reason, remedy: as of DropView."""

    on: bool | None
    how: str | None = None
    reason: str = ""
    remedy: str = ""
    typed: str = ""
    said: str = ""
    doing: bool = False

    @property
    def word(self) -> str:
        """What confirms."""
        return "off" if self.on else "on"


def delay_body(view: DelayView, width: int) -> tuple[list[Row], list[Row]]:
    """(what it is and costs, the word)."""
    state = "not known" if view.on is None else "on" if view.on else "off"
    head = [
        *fact("now", f"{state} (kernel.task_delayacct)", width, text_token="strong"),
        *fact("shows", "IO-wait%: how long each process waited for a disk", width),
        *fact("counts", "only what starts while it is on: restart a job to see its waits", width),
        *fact("costs", "a little CPU at each switch of tasks; it stays so until the next boot", width, token="warn"),
        *fact("marks", "the recording and the audit log", width),
    ]
    if view.how is None:
        head += fact("may", "asking what is permitted ...", width)
    elif not view.how:
        head += fact("may not", plain(view.reason), width, token="warn")
        head += fact("remedy", plain(view.remedy), width) if view.remedy else []
    elif view.how == "sudo":
        head += fact("may", "sudo allows it without a password", width)
    tail: list[Row] = [[Span(f"   {view.said}", "warn")]] if view.said else []
    if view.doing:
        tail.append([Span("   switching ...", "strong")])
        return head, tail
    before = [Span("type ", "dim"), Span(view.word, "strong"), Span(" and press ", "dim"), Span("Enter"), Span(": ")]
    tail.append(typing(before, view.typed, width))
    return head, tail
