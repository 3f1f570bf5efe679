"""The dialogs that confirm an action: a signal or a priority for processes, and delay accounting on or off."""

from __future__ import annotations

from collections.abc import Collection

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.process.records import ProcessKey
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.present.screen.dialog import LABEL_CELLS, Row, confirmation_row, input_row, labelled_rows, permission_rows
from iotop_ai.present.text.line import Span, cut, plain
from iotop_ai.present.text.typed_text import TypedText

TITLE = "PROCESS"
DELAY_TITLE = "DELAY ACCOUNTING"
_MOST_LISTED = 4
"""The largest number of tagged processes that the dialog lists by name."""
_CHOICES = (
    ("term int hup", "ask it to end; most programs clean up first"),
    ("kill", "end it at once: nothing is saved"),
    ("stop cont", "stop it, continue it; also usr1, usr2"),
    ("nice 10", "its CPU priority: -20 first, 19 last"),
    ("io idle", "only while the disk is free; also io best 0-7"),
)
"""(the commands that the user can type, what they do)."""


class ProcessTarget(NamedTuple):
    """The processes that an action is for: one process, several that share a row, or the tagged ones.

    names: the name of each of ``keys`` for tagged processes, for which ``name`` and ``user`` are ""; otherwise ().
    """

    name: str
    user: str
    keys: tuple[ProcessKey, ...]
    names: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The processes in words: "train.py, pid 412", "pt_data_worker x64" or "3 tagged"."""
        if self.names:
            return f"{len(self.keys)} tagged"
        name = plain(self.name)
        return f"{name}, pid {self.keys[0].pid}" if len(self.keys) == 1 else f"{name} x{len(self.keys)}"


def process_target(now: Snapshot, keys: tuple[ProcessKey, ...]) -> ProcessTarget | None:
    """The processes of a row that still exist; None if none exists, or if the process table is unknown."""
    table = now.processes.value
    existing = () if table is None else tuple(key for key in keys if key in table.info)
    if table is None or not existing:
        return None
    info = table.info[existing[0]]
    return ProcessTarget(info.name, info.user, existing)


def tagged_target(now: Snapshot, tagged: Collection[ProcessKey]) -> ProcessTarget | None:
    """The tagged processes that still exist, by pid; None if none exists, or if the process table is unknown."""
    table = now.processes.value
    keys = () if table is None else tuple(key for key in sorted(tagged) if key in table.info)
    if table is None or not keys:
        return None
    return ProcessTarget("", "", keys, tuple(table.info[key].name for key in keys))


def _target_rows(now: Snapshot, target: ProcessTarget, width: int) -> list[Row]:
    """The owner and the command line of the process, or of a group's first process; for tagged processes, the pid, name
    and owner of the first few.
    """
    table = now.processes.value
    info = None if table is None else table.info.get(target.keys[0])
    if not target.names:
        head = labelled_rows("of", plain(target.user), width)
        if info is not None and info.cmdline:
            head += labelled_rows("runs", cut(plain(" ".join(info.cmdline)), 2 * (width - 14)), width)
        return head
    head = []
    for key, name in list(zip(target.keys, target.names, strict=True))[:_MOST_LISTED]:
        info = None if table is None else table.info.get(key)
        owner = "it has ended" if info is None else f"of {plain(info.user)}"
        head += labelled_rows(
            "" if head else "tagged", cut(f"{key.pid:>7}  {plain(name)}  {owner}", width - LABEL_CELLS - 2), width
        )
    more = len(target.keys) - _MOST_LISTED
    return head + (labelled_rows("", f"+{more} more", width) if more > 0 else [])


def _belongs_to_others(now: Snapshot, target: ProcessTarget) -> bool:
    """Whether the action will be refused, because all these processes belong to other users and this user is not
    root; False when unknown.
    """
    table, euid = now.processes.value, now.host.euid
    if table is None or not euid:
        return False
    owners = [info.uid for key in target.keys if (info := table.info.get(key)) is not None]
    return bool(owners) and euid not in owners


def process_body(
    now: Snapshot, target: ProcessTarget, typed: TypedText, error: str, width: int
) -> tuple[list[Row], list[Row]]:
    """(rows about the processes and the jobs that they are part of, rows of the commands to choose from).

    typed: the text typed so far. error: why the last command was refused; "" if it was not.
    """
    head = _target_rows(now, target, width)
    jobs = () if now.jobs.value is None else now.jobs.value.jobs.values()
    affected = [job for job in jobs if job.members & frozenset(target.keys)]
    if len(affected) > 1:
        names = ", ".join(f"{plain(job.name)} of {plain(job.user)}" for job in affected)
        head += labelled_rows("part of", cut(f"{len(affected)} jobs: {names}", 2 * (width - 14)), width, token="warn")
    elif affected:
        job = affected[0]
        ranks = f", which has {len(job.ranks)} ranks that wait for each other" if len(job.ranks) > 1 else ""
        head += labelled_rows("part of", f"the job {plain(job.name)} of {plain(job.user)}{ranks}", width, token="warn")
    if len(target.keys) > 1:
        head += labelled_rows("all", f"it applies to all {len(target.keys)} of them", width, token="warn")
    head += labelled_rows("logged", "in the recording and the audit log", width)
    if _belongs_to_others(now, target):
        head += labelled_rows("denied", "it belongs to another user: run iotop-ai as root", width, token="warn")
    tail: list[Row] = []
    for words, effect in _CHOICES:
        tail.append([Span(f"   {words}".ljust(17), "strong"), Span(effect, "dim")])
    tail.append([])
    if error:
        tail.append([Span(f"   {error}", "warn")])
    tail.append(input_row([Span("type one and press ", "dim"), Span("Enter"), Span(": ")], typed, width))
    return head, tail


class DelayView(NamedTuple):
    """The state of the dialog about delay accounting.

    on: whether delay accounting is on; None when unknown. doing: whether it is being switched on or off. The other
    fields are as in DropView of present/machine/drop_caches_dialog.py.
    """

    on: bool | None
    how: str | None = None
    reason: str = ""
    remedy: str = ""
    typed: TypedText = TypedText()
    error: str = ""
    doing: bool = False

    @property
    def word(self) -> str:
        """The word that the user types to confirm."""
        return "off" if self.on else "on"


def delay_body(view: DelayView, width: int) -> tuple[list[Row], list[Row]]:
    """(rows about the effect and the cost of switching, the row in which the user types the word that confirms)."""
    state = "not known" if view.on is None else "on" if view.on else "off"
    head = [
        *labelled_rows("now", f"{state} (kernel.task_delayacct)", width, text_token="strong"),
        *labelled_rows("shows", "IO-wait%: how long each process waited for a disk", width),
        *labelled_rows("counts", "only tasks that start while it is on: restart a job to see its waits", width),
        *labelled_rows(
            "costs", "a little CPU at each context switch; the setting lasts until the next boot", width, token="warn"
        ),
        *labelled_rows("logged", "in the recording and the audit log", width),
    ]
    head += permission_rows(view.how, view.reason, view.remedy, width)
    tail: list[Row] = [[Span(f"   {view.error}", "warn")]] if view.error else []
    if view.doing:
        tail.append([Span("   switching ...", "strong")])
        return head, tail
    tail.append(confirmation_row(view.word, view.typed, width))
    return head, tail
