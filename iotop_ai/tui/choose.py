"""What a key, and time, change in the View. Pure, so that every key is tested without a screen."""

from __future__ import annotations

from collections.abc import Sequence

from iotop_ai.model.frame import Frame
from iotop_ai.model.reading import Rated
from iotop_ai.model.sample import Sample
from iotop_ai.model.settings import SORT_KEYS
from iotop_ai.present.view import View

INTERVALS_S = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)


def interval_after(current_s: float, step: int) -> float:
    """The next longer (+1) or shorter (-1) of the steps; an interval between two goes to the nearer side asked for."""
    if step > 0:
        return next((s for s in INTERVALS_S if s > current_s), INTERVALS_S[-1])
    return next((s for s in reversed(INTERVALS_S) if s < current_s), INTERVALS_S[0])


def sort_after(current: str, step: int) -> str:
    """The sort key to the right (+1) or left (-1), round the end."""
    at = SORT_KEYS.index(current) if current in SORT_KEYS else 0
    return SORT_KEYS[(at + step) % len(SORT_KEYS)]


def device_after(order: Sequence[str], current: str, step: int) -> str:
    """The next (+1) or previous (-1) device in the order of the screen, round the end; "" when there is none."""
    if not order:
        return ""
    if current not in order:
        return order[0 if step > 0 else -1]
    return order[(order.index(current) + step) % len(order)]


def moved(view: View, keys: Sequence[str], step: int, visible: int, enter: str = "") -> View:
    """The view with the cursor ``step`` rows on and scrolled so that its row is among the ``visible`` ones.

    Without a cursor the first key enters at the row ``enter``; where there is none, at the top, or at the bottom when
    it goes up.
    """
    if not keys:
        return view
    if view.cursor in keys:
        at = min(len(keys) - 1, max(0, keys.index(view.cursor) + step))
    elif enter in keys and abs(step) == 1:
        at = keys.index(enter)
    else:
        at = 0 if step > 0 else len(keys) - 1
    visible = max(1, visible)
    scroll = min(view.scroll, at, max(0, len(keys) - visible))
    if at >= scroll + visible:
        scroll = at - visible + 1
    return view._replace(cursor=keys[at], scroll=scroll)


def typed(pattern: str, key: str, character: str | None) -> str:
    """The filter after one more key: backspace takes a character away, ctrl+u all, a printable one is added."""
    if key == "backspace":
        return pattern[:-1]
    if key == "ctrl+u":
        return ""
    return pattern + character if character and character.isprintable() else pattern


def older(past: tuple[Sample, ...], before: Frame, now: Frame, keep: int) -> tuple[Sample, ...]:
    """The Samples that have left the Frame's history, the newest ``keep``, without their processes.

    Graphs reach further back than a minute; nothing else does, and processes are the bulk of a Sample. A Frame of
    another boot starts anew. The same object comes back when nothing has left.
    """
    if before.snapshot.host.boot_id != now.snapshot.host.boot_id:
        return ()
    first_ns = now.history[0].at_ns if now.history else now.sample.at_ns
    left = [sample._replace(processes=Rated()) for sample in before.history if sample.at_ns < first_ns]
    return (*past, *left)[-keep:] if left else past


def past_after(past: tuple[Sample, ...], before: Frame, now: Frame, keep: int) -> tuple[Sample, ...]:
    """As ``older``, where time may also run backwards or jump: what does not join the Frame's history is left out."""
    if before.snapshot.host.boot_id != now.snapshot.host.boot_id:
        return ()
    first_ns = now.history[0].at_ns
    if now.snapshot.at_ns >= before.snapshot.at_ns:
        return older(past, before, now, keep) if first_ns <= before.snapshot.at_ns else ()
    return tuple(s for s in past if s.at_ns < first_ns)
