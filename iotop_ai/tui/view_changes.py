"""How keys and time change the View: pure functions that need no screen."""

from __future__ import annotations

from collections.abc import Sequence

from iotop_ai.model.clean import LONGEST, clean
from iotop_ai.model.frame import Frame
from iotop_ai.model.reading import Rated
from iotop_ai.model.sample import Sample
from iotop_ai.model.settings import SORT_KEYS, THEMES
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.panel import scroll_to

TO_THE_END = 1_000_000
"""A step beyond any list: to its last row, or with a minus to its first."""
INTERVALS_S = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
"""The intervals that the keys set."""


def theme_after(theme: str) -> str:
    """The next theme; after the last, the first."""
    at = THEMES.index(theme) if theme in THEMES else -1
    return THEMES[(at + 1) % len(THEMES)]


def interval_after(current_s: float, step: int) -> float:
    """The next longer (step +1) or shorter (-1) of INTERVALS_S; ``current_s`` if there is none. ``current_s`` need not
    be one of them.
    """
    if step > 0:
        return next((s for s in INTERVALS_S if s > current_s), current_s)
    return next((s for s in reversed(INTERVALS_S) if s < current_s), current_s)


def sort_after(current: str, step: int) -> str:
    """The sort key to the right (step +1) or left (-1); after the last, the first."""
    at = SORT_KEYS.index(current) if current in SORT_KEYS else 0
    return SORT_KEYS[(at + step) % len(SORT_KEYS)]


def device_after(order: Sequence[str], current: str, step: int) -> str:
    """The next (step +1) or previous (-1) device of ``order``; after the last, the first. If ``current`` is not in
    ``order``, the first (step +1) or last (-1) device; "" if there are no devices.
    """
    if not order:
        return ""
    if current not in order:
        return order[0 if step > 0 else -1]
    return order[(order.index(current) + step) % len(order)]


def view_after_move(view: View, keys: Sequence[str], step: int, visible_rows: int, enter: str = "") -> View:
    """The View with the cursor moved by ``step`` rows, and scrolled so that the cursor's row is visible.

    keys: the keys of the rows, from top to bottom. visible_rows: the number of rows that are visible at a time.

    If the cursor is not on any of ``keys``, a step of one row puts it on the row ``enter``. A longer step, or an
    ``enter`` that is not one of the keys, puts it on the first row, or on the last for a step up. ``TO_THE_END`` puts
    it on the last row, its negative on the first.
    """
    if not keys:
        return view
    if abs(step) == TO_THE_END:
        at = len(keys) - 1 if step > 0 else 0
    elif view.cursor in keys:
        at = min(len(keys) - 1, max(0, keys.index(view.cursor) + step))
    elif enter in keys and abs(step) == 1:
        at = keys.index(enter)
    else:
        at = 0 if step > 0 else len(keys) - 1
    return view._replace(cursor=keys[at], scroll=scroll_to(at, view.scroll, len(keys), max(1, visible_rows)))


def pasted_line(text: str, longest: int = LONGEST) -> str:
    """The first line of a pasted text, in at most ``longest`` characters. Terminals send a line end as CR."""
    return clean(next(iter(text.splitlines()), ""), longest)


def older_samples(past: tuple[Sample, ...], before: Frame, now: Frame, keep: int) -> tuple[Sample, ...]:
    """``past`` and the Samples that are in the history of ``before`` but not of ``now``; only the newest ``keep``.

    The added Samples have no processes, which make up most of a Sample, because only graphs reach back further than a
    minute. After a reboot the result is empty. If no Sample was added, the result is the same object as ``past``.
    """
    if before.snapshot.host.boot_id != now.snapshot.host.boot_id:
        return ()
    first_ns = now.history[0].at_ns if now.history else now.sample.at_ns
    added = [sample._replace(processes=Rated()) for sample in before.history if sample.at_ns < first_ns]
    return (*past, *added)[-keep:] if added else past


def past_after(past: tuple[Sample, ...], before: Frame, now: Frame, keep: int) -> tuple[Sample, ...]:
    """Like ``older_samples``, for a playback, which may also go back or jump. Samples before a gap are left out."""
    if before.snapshot.host.boot_id != now.snapshot.host.boot_id:
        return ()
    first_ns = now.history[0].at_ns
    if now.snapshot.at_ns >= before.snapshot.at_ns:
        return older_samples(past, before, now, keep) if first_ns <= before.snapshot.at_ns else ()
    return tuple(s for s in past if s.at_ns < first_ns)
