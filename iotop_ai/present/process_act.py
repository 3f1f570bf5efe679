"""The dialogues before a process is signalled or given another priority, and before delay accounting is switched."""

from __future__ import annotations

from collections.abc import Collection

from iotop_ai.model.process import ProcessKey
from iotop_ai.model.record import NamedTuple
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.present.dialogue import LABEL, Row, fact, may_rows, typing, typing_word
from iotop_ai.present.line import Span, cut, plain

TITLE = "PROCESS"
DELAY_TITLE = "DELAY ACCOUNTING"
LISTED = 4
"""How many of what is tagged are named; the rest is counted."""
_CHOICES = (
    ("term int hup", "ask it to end; most programs clean up first"),
    ("kill", "end it at once: nothing is saved"),
    ("stop cont", "halt it, let it go on; also usr1, usr2"),
    ("nice 10", "its turn at the CPU: -20 first, 19 last"),
    ("io idle", "when nobody wants the disk; also io best 0-7"),
)


class Whom(NamedTuple):
    """What is acted on: one process, several of one name and user that share a row, or what is tagged.

    names: of each of ``keys`` when they are tagged, else (); ``name`` and ``user`` then say nothing.
    """

    name: str
    user: str
    keys: tuple[ProcessKey, ...]
    names: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """ "train.py, pid 412", "pt_data_worker x64" or "3 tagged"."""
        if self.names:
            return f"{len(self.keys)} tagged"
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


def whom_tagged(now: Snapshot, tagged: Collection[ProcessKey]) -> Whom | None:
    """What is tagged and still there, by pid; None when nothing is."""
    table = now.processes.value
    keys = () if table is None else tuple(key for key in sorted(tagged) if key in table.info)
    if table is None or not keys:
        return None
    return Whom("", "", keys, tuple(table.info[key].name for key in keys))


def _who(now: Snapshot, whom: Whom, width: int) -> list[Row]:
    """Whose it is and what it runs; of what is tagged the first few."""
    table = now.processes.value
    info = None if table is None else table.info.get(whom.keys[0])
    if not whom.names:
        head = fact("of", plain(whom.user), width)
        if info is not None and info.cmdline:
            head += fact("runs", cut(plain(" ".join(info.cmdline)), 2 * (width - 14)), width)
        return head
    head = []
    for key, name in list(zip(whom.keys, whom.names, strict=True))[:LISTED]:
        info = None if table is None else table.info.get(key)
        user = "it has ended" if info is None else f"of {plain(info.user)}"
        head += fact("" if head else "tagged", cut(f"{key.pid:>7}  {plain(name)}  {user}", width - LABEL - 2), width)
    more = len(whom.keys) - LISTED
    return head + (fact("", f"+{more} more", width) if more > 0 else [])


def process_body(now: Snapshot, whom: Whom, typed: str, said: str, width: int) -> tuple[list[Row], list[Row]]:
    """(who it is and what hangs on it, the commands)."""
    head = _who(now, whom, width)
    jobs = () if now.jobs.value is None else now.jobs.value.jobs.values()
    meant = [job for job in jobs if job.members & frozenset(whom.keys)]
    if len(meant) > 1:
        names = ", ".join(f"{plain(job.name)} of {plain(job.user)}" for job in meant)
        head += fact("part of", cut(f"{len(meant)} jobs: {names}", 2 * (width - 14)), width, token="warn")
    elif meant:
        job = meant[0]
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
    head += may_rows(view.how, view.reason, view.remedy, width)
    tail: list[Row] = [[Span(f"   {view.said}", "warn")]] if view.said else []
    if view.doing:
        tail.append([Span("   switching ...", "strong")])
        return head, tail
    tail.append(typing_word(view.word, view.typed, width))
    return head, tail
