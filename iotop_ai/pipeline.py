"""Turns Snapshots into Frames. Only this module pairs a Snapshot with the one before it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from iotop_ai.model.finding import SHORTEST_S, Finding, Severity, Verdict
from iotop_ai.model.fold_state import FoldState
from iotop_ai.model.frame import HISTORY_LEAST, HISTORY_S, Frame
from iotop_ai.model.keyframe import SPACING_S, Keyframe
from iotop_ai.model.sample import Sample, between, is_pair
from iotop_ai.model.signal_coverage import GROUP_COUNT, signal_groups
from iotop_ai.model.snapshot import Event, Snapshot


def frames(
    snapshots: Iterable[Snapshot | Keyframe],
    *,
    before: Snapshot | None = None,
    last: Sample | None = None,
    history: tuple[Sample, ...] = (),
    carry: FoldState | None = None,
) -> Iterator[Frame]:
    """Yield one Frame per Snapshot. The Snapshots may be live, replayed, or from a list.

    before, last, history, carry: the previous Snapshot, its Sample, the Samples so far and the rules' state, from which
    to continue after a seek.

    A Snapshot of another boot starts a new session without a pair or a history, and with an empty state. If a Keyframe
    holds a state, that state replaces the calculated one. After a gap or at the start of a session no pair can be
    formed, so the Sample that the Keyframe holds is used. Snapshots of the pre-roll yield no Frame.
    """
    # Imported here, because the rules are a fifth of the start-up time and the first picture needs none of them.
    from iotop_ai.diagnosis.engine import fold
    from iotop_ai.diagnosis.facts.fold_cache import FoldCache

    carry, cache = carry or FoldState(), FoldCache()
    for item in snapshots:
        key = item if isinstance(item, Keyframe) else None
        snapshot = item.snapshot if isinstance(item, Keyframe) else item
        if (key is not None and key.session) or (before is not None and not is_pair(before, snapshot)):
            before, last, history, carry = None, None, (), FoldState()
        if key is not None and key.last is not None and (key.gap or before is None):
            sample = key.last
        else:
            sample = between(before, snapshot, last)
        oldest = snapshot.at_ns - int(HISTORY_S * 1e9)
        first, removable = 0, len(history) - (HISTORY_LEAST - 1)
        while first < removable and history[first].at_ns <= oldest:
            first += 1
        history = (*history[first:], sample)
        if key is None or key.folds:
            carry, verdict = fold(carry, snapshot, history, cache=cache)
            if key is not None and key.carry is not None:
                carry = key.carry
                verdict = carry.verdict or verdict
            if key is None or not key.pre:
                yield Frame(snapshot, sample, history, carry, verdict)
        before, last = snapshot, sample


def samples(
    snapshots: Iterable[Snapshot | Keyframe],
    before: Snapshot | None = None,
    last: Sample | None = None,
    *,
    spaced: bool = False,
    recorded: bool = False,
) -> Iterator[tuple[Snapshot, Sample]]:
    """Yield each Snapshot with its Sample, without running the rules. Used for figures whose verdict is already known.

    before, last: the Snapshot before the first one, and its Sample. spaced: whether Snapshots were left out, so that a
    long interval is a gap only if a Keyframe marks it as one. recorded: whether the Sample that a Keyframe holds
    replaces the pair that cannot be formed.
    """
    for item in snapshots:
        key = item if isinstance(item, Keyframe) else None
        snapshot = item.snapshot if isinstance(item, Keyframe) else item
        if key is not None and (key.session or key.gap):
            before, last = None, None
        own = key.last if key is not None and recorded and before is None else None
        sample = between(before, snapshot, last) if own is None else own
        if spaced and sample.gap:
            sample = sample._replace(gap=False)
        yield snapshot, sample
        before, last = snapshot, sample


def unjudged(snapshot: Snapshot) -> Frame:
    """Return a session's first Frame with a verdict that says "measuring", because no rule has run yet.

    The first picture uses this Frame so that it need not wait for the rules. The Frame lacks the findings that need no
    window.
    """
    sample = between(None, snapshot, None)
    seen, missing = signal_groups(snapshot)
    measuring = Finding("unknown", Severity.INFO, 0.0, args=(("reason", "measuring"),))
    verdict = Verdict((measuring,), 0.0, SHORTEST_S, seen, GROUP_COUNT, missing)
    return Frame(snapshot, sample, (sample,), FoldState(started_ns=snapshot.at_ns, verdict=verdict), verdict)


def closing(newest: Frame, events: tuple[Event, ...], at_ns: int, wall_ns: int) -> Frame:
    """Return the last Frame of a recording. It holds the events after ``newest``, and nothing is read for it.

    The Frame repeats the previous Readings with their original times, so no rate is renewed. The monitor's cost since
    then is unknown. at_ns, wall_ns: the time of the Frame; it is moved forward if it is too close to ``newest``.
    """
    before = newest.snapshot
    later_ns = max(0, before.at_ns + int(SPACING_S * 1e9) - at_ns)
    own = before.own._replace(cpu_ns=None, collect_ns=None, late_ns=None)
    snapshot = before._replace(
        seq=before.seq + 1, at_ns=at_ns + later_ns, wall_ns=wall_ns + later_ns, events=events, own=own
    )
    return next(frames([snapshot], before=before, last=newest.sample, history=newest.history, carry=newest.carry))
