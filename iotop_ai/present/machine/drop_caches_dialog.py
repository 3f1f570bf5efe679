"""The dialog that drops the machine's caches: the question, the progress, the result."""

from __future__ import annotations

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.machine.memory import MemoryState
from iotop_ai.model.machine.page_cache import CACHES, Effect, Evicted, Levels
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.present.machine import caches
from iotop_ai.present.screen.dialog import Row, choice, confirmation_row, input_row, labelled_rows, permission_rows
from iotop_ai.present.text.line import Span
from iotop_ai.present.text.typed_text import TypedText
from iotop_ai.present.text.units import amount

TITLE = "DROP CACHES"
EVICT = 4
"""The choice after the kernel's three levels (the values 1 to 3 of vm.drop_caches): evict a single dataset."""
_CHOICES = {1: "page cache", 2: "dentries and inodes", 3: "both", EVICT: "one dataset only"}
"""The words for each choice."""


class DropView(NamedTuple):
    """The state of the dialog."""

    choice: int = 1
    """The selected choice: 1 to 3 for a level of vm.drop_caches, EVICT for a dataset."""
    typed: TypedText = TypedText()
    error: str = ""
    """Why the last input was refused; "" if it was not."""
    how: str | None = None
    """How this user can drop caches: "root", "sudo", or "" for not at all; None until this has been checked."""
    reason: str = ""
    """Why this user cannot drop caches; "" if this user can."""
    remedy: str = ""
    wait_s: float = 0.0
    """The seconds until the next drop is allowed."""
    doing: str = ""
    """The step in progress, in words; "" if none is."""
    seconds: float = 0.0
    """The seconds since the drop or the eviction began."""
    effect: Effect | None = None
    """The result of a drop; None before its end."""
    evicted: Evicted | None = None
    """The result of an eviction; None before its end."""

    @property
    def may_drop(self) -> bool:
        """Whether the three levels can be chosen now."""
        return bool(self.how) and self.wait_s <= 0


def levels_of(memory: MemoryState | None) -> Levels:
    """The memory figures as ``Levels``; each is None when unknown."""
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
    """(rows about the drop and its cost, rows of the choices and of the input). Once an action has begun: (rows about
    its progress or its result, the row of keys).
    """
    memory = levels_of(now.memory.value)
    if view.doing:
        return _progress_rows(memory, view, width)
    if view.effect is not None or view.evicted is not None:
        return _result_rows(view, width)
    one_folder = view.choice == EVICT
    written = "the changed pages of its filesystem" if one_folder else f"{amount(memory.dirty_bytes)} of dirty pages"
    cost = "the next reads of these files come from the disk" if one_folder else caches.COST
    dropped = "the files of one folder, named below" if one_folder else caches.level_text(view.choice, memory)
    head = [
        *labelled_rows("drops", f"{dropped}{'' if one_folder else ', for all users'}", width),
        *labelled_rows("first", f"{written} are written to the disk{'' if one_folder else 's'}", width),
        *labelled_rows("costs", cost, width, token="warn"),
        *labelled_rows("running", caches.running_text(now, now.host.euid).removeprefix("running now: "), width),
        *labelled_rows("logged", "memory before and after: in the recording and the audit log", width),
        *_permission(view, width),
    ]
    tail = [
        choice(
            str(option),
            _CHOICES[option],
            _note(option, memory),
            width,
            selected=view.choice == option,
            enabled=may_choose(view, option),
        )
        for option in _CHOICES
    ]
    tail.append([])
    if view.error:
        tail.append([Span(f"   {view.error}", "warn")])
    if view.choice == EVICT:
        tail.append(input_row([Span("folder or file: ", "dim")], view.typed, width))
    else:
        tail.append(confirmation_row(caches.WORD, view.typed, width))
    return head, tail


def may_choose(view: DropView, option: int) -> bool:
    """Whether the choice ``option``, 1 to 3 or EVICT, is available now."""
    return option == EVICT or view.may_drop


def _note(option: int, memory: Levels) -> str:
    if option == EVICT:
        return "slows no other user, needs no root"
    sizes = {1: memory.cached_bytes, 2: memory.slab_reclaimable_bytes}
    amounts = [amount(value) for key, value in sizes.items() if option in (key, 3)]
    return f"{' + '.join(amounts)}, vm.drop_caches={option}"


def _permission(view: DropView, width: int) -> list[Row]:
    if view.how and view.wait_s > 0:
        text = f"caches were dropped less than a minute ago: try again in {view.wait_s:.0f} s"
        return labelled_rows("not yet", text, width, token="warn")
    return permission_rows(view.how, view.reason, view.remedy, width)


def _progress_rows(memory: Levels, view: DropView, width: int) -> tuple[list[Row], list[Row]]:
    head = labelled_rows("now", f"{view.doing} {view.seconds:.0f} s", width, text_token="strong")
    if view.doing.startswith("writing"):
        head += labelled_rows("left", f"{amount(memory.dirty_bytes)} of dirty pages", width)
    return head, [[Span("   Esc", "key"), Span(":close; the work goes on, and a message reports its end", "dim")]]


def _result_rows(view: DropView, width: int) -> tuple[list[Row], list[Row]]:
    head: list[Row] = []
    if view.effect is not None:
        head += labelled_rows(
            "done", f"{CACHES[view.effect.level]}, {caches.took_text(view.effect)}", width, token="ok"
        )
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
        head += [
            [],
            *labelled_rows("", "MemAvailable hardly changes: cached memory already counted as available.", width),
        ]
    elif view.evicted is not None:
        evicted = view.evicted
        head += labelled_rows("done", caches.evicted_text(evicted), width, token="ok")
        for text in caches.gaps_text(
            evicted.unreadable, evicted.first_unreadable, evicted.elsewhere, evicted.unknown_files
        ):
            head += labelled_rows("", text, width)
    return head, [[Span("   Enter", "key"), Span(" or ", "dim"), Span("Esc", "key"), Span(":close", "dim")]]
