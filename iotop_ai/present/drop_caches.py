"""The dialogue before the host's caches are dropped, while it is done, and what it did."""

from __future__ import annotations

from iotop_ai.model.memory import MemoryState
from iotop_ai.model.pagecache import CACHES, Effect, Evicted, Levels
from iotop_ai.model.record import NamedTuple
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.present import caches
from iotop_ai.present.dialogue import Row, choice, fact, may_rows, typing, typing_word
from iotop_ai.present.line import Span
from iotop_ai.present.units import amount

TITLE = "DROP CACHES"
EVICT = 4
"""The choice beside the kernel's three levels."""
_SHORT = {1: "page cache", 2: "dentries and inodes", 3: "both", EVICT: "one dataset only"}


class DropView(NamedTuple):
    """The dialogue's state. choice: 1 to 3 a level of vm.drop_caches, EVICT a dataset.

    how: "root", "sudo", "" (may not), None while that is being asked; then reason and remedy. wait_s: until the next
    drop is allowed. doing: what is being done, "" nothing. effect, evicted: what was done.
    """

    choice: int = 1
    typed: str = ""
    said: str = ""
    how: str | None = None
    reason: str = ""
    remedy: str = ""
    wait_s: float = 0.0
    doing: str = ""
    seconds: float = 0.0
    effect: Effect | None = None
    evicted: Evicted | None = None

    @property
    def may_drop(self) -> bool:
        """Whether the three levels can be chosen."""
        return bool(self.how) and self.wait_s <= 0


def levels_of(memory: MemoryState | None) -> Levels:
    """The figures of a Snapshot; unknown where it has none."""
    if memory is None:
        return Levels(None, None, None, None, None, None)
    return Levels(
        memory.cached_bytes,
        memory.slab_reclaimable_bytes,
        memory.free_bytes,
        memory.available_bytes,
        memory.dirty_bytes,
        memory.total_bytes,
    )


def drop_body(now: Snapshot, view: DropView, width: int) -> tuple[list[Row], list[Row]]:
    """(what and at which cost, the choice)."""
    levels = levels_of(now.memory.value)
    if view.doing:
        return _doing(levels, view, width)
    if view.effect is not None or view.evicted is not None:
        return _done(view, width)
    head = [
        *fact("drops", f"{amount(levels.cached_bytes)} of page cache, all files of all users", width),
        *fact("first", f"{amount(levels.dirty_bytes)} not yet written go to the disks", width),
        *fact("costs", caches.COST, width, token="warn"),
        *fact("here", caches.who_runs(now, now.host.euid), width),
        *fact("marks", "the recording and the audit log: before, after", width),
        *_right(view, width),
    ]
    tail = [
        choice(
            str(level), _SHORT[level], _note(level, levels), width, chosen=view.choice == level, open_=may(view, level)
        )
        for level in _SHORT
    ]
    tail.append([])
    if view.said:
        tail.append([Span(f"   {view.said}", "warn")])
    if view.choice == EVICT:
        tail.append(typing([Span("folder or file: ", "dim")], view.typed, width))
    else:
        tail.append(typing_word(caches.WORD, view.typed, width))
    return head, tail


def may(view: DropView, level: int) -> bool:
    """Whether a choice can be taken."""
    return level == EVICT or view.may_drop


def _note(level: int, levels: Levels) -> str:
    if level == EVICT:
        return "slows nobody else, no root"
    held = {1: levels.cached_bytes, 2: levels.slab_reclaimable_bytes}
    amounts = [amount(value) for key, value in held.items() if level in (key, 3)]
    return f"{' + '.join(amounts)}, vm.drop_caches={level}"


def _right(view: DropView, width: int) -> list[Row]:
    if view.how and view.wait_s > 0:
        return fact("not yet", f"dropped less than a minute ago: again in {view.wait_s:.0f} s", width, token="warn")
    return may_rows(view.how, view.reason, view.remedy, width)


def _doing(levels: Levels, view: DropView, width: int) -> tuple[list[Row], list[Row]]:
    head = fact("now", f"{view.doing} {view.seconds:.0f} s", width, text_token="strong")
    if view.doing.startswith("writing"):
        head += fact("left", f"{amount(levels.dirty_bytes)} are not written yet", width)
    return head, [[Span("   Esc", "key"), Span(":leave it; it goes on, and is told when it is done", "dim")]]


def _done(view: DropView, width: int) -> tuple[list[Row], list[Row]]:
    head: list[Row] = []
    if view.effect is not None:
        head += fact("done", f"{CACHES[view.effect.level]}, {caches.took_text(view.effect)}", width, token="ok")
        head.append([])
        for name, before, after in caches.effect_rows(view.effect):
            head.append(
                [
                    Span(f"   {name:<14}", "dim"),
                    Span(f"{before:>9}"),
                    Span("  -> ", "dim"),
                    Span(f"{after:>9}", "strong"),
                ]
            )
        head += [[], *fact("", "MemAvailable hardly moves: what was cached counted as available already.", width)]
    elif view.evicted is not None:
        done = view.evicted
        head += fact("done", caches.evicted_text(done), width, token="ok")
        for text in caches.lacks_text(done.unreadable, done.first_unreadable, done.elsewhere, done.unknown_files):
            head += fact("", text, width)
    return head, [[Span("   Enter", "key"), Span(" or ", "dim"), Span("Esc", "key"), Span(":close", "dim")]]
