"""Turns Snapshots into Frames. Only this module decides which two Snapshots form a pair.

The fold is the function that runs the rules; it carries their state from one Sample to the next. The pre-roll consists
of Snapshots that only give the rules their history, and yield no Frame.
"""

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
    """Yield a Frame for each Snapshot except the pre-roll. The Snapshots may be live, replayed, or from a list.

    A Keyframe is a Snapshot of a recording with the state of the fold. If its ``folds`` is False, the fold does not run
    there, and no Frame is yielded either.

    before, last, history, carry: the point to continue from after a seek: the previous Snapshot, its Sample, the
    Samples so far and the rules' state.

    A Snapshot of another boot starts a new session: it is not paired with the previous Snapshot, and the history and
    the rules' state begin empty. A Snapshot that is not later than the previous one also starts a session, and so does
    a Keyframe whose ``session`` is True. A Keyframe's state, if it has one, replaces the calculated one. Its Sample, if
    it has one, is used after a gap and where no Snapshot of the session precedes it.
    """
    # Imported here: importing the rules takes a fifth of the start-up time, and the first picture does not need them.
    from iotop_ai.diagnosis.engine import fold
    from iotop_ai.diagnosis.facts.fold_cache import FoldCache

    carry, cache = carry or FoldState(), FoldCache()
    for item in snapshots:
        keyframe = item if isinstance(item, Keyframe) else None
        snapshot = item.snapshot if isinstance(item, Keyframe) else item
        if (keyframe is not None and keyframe.session) or (before is not None and not is_pair(before, snapshot)):
            before, last, history, carry = None, None, (), FoldState()
        if keyframe is not None and keyframe.last is not None and (keyframe.gap or before is None):
            sample = keyframe.last
        else:
            sample = between(before, snapshot, last)
        # Keep the Samples of the last HISTORY_S seconds, and at least the newest HISTORY_LEAST.
        oldest = snapshot.at_ns - int(HISTORY_S * 1e9)
        first, removable = 0, len(history) - (HISTORY_LEAST - 1)
        while first < removable and history[first].at_ns <= oldest:
            first += 1
        history = (*history[first:], sample)
        if keyframe is None or keyframe.folds:
            carry, verdict = fold(carry, snapshot, history, cache=cache)
            if keyframe is not None and keyframe.carry is not None:
                carry = keyframe.carry
                verdict = carry.verdict or verdict
            if keyframe is None or not keyframe.pre:
                yield Frame(snapshot, sample, history, carry, verdict, keyframe is not None and keyframe.gap)
        before, last = snapshot, sample


def samples(
    snapshots: Iterable[Snapshot | Keyframe],
    before: Snapshot | None = None,
    last: Sample | None = None,
    *,
    spaced: bool = False,
    recorded: bool = False,
) -> Iterator[tuple[Snapshot, Sample]]:
    """Yield each Snapshot with its Sample, without running the rules. Used where the verdict is already known.

    before, last: the Snapshot before the first one, and its Sample.
    spaced: whether the caller left out Snapshots on purpose; then no Sample counts as a gap, however long its interval
        is. A Keyframe after a recorded gap is still not paired with the Snapshot before it.
    recorded: whether a Keyframe that has no Snapshot to pair with uses its recorded Sample.
    """
    for item in snapshots:
        keyframe = item if isinstance(item, Keyframe) else None
        snapshot = item.snapshot if isinstance(item, Keyframe) else item
        if keyframe is not None and (keyframe.session or keyframe.gap):
            before, last = None, None
        recorded_sample = keyframe.last if keyframe is not None and recorded and before is None else None
        sample = between(before, snapshot, last) if recorded_sample is None else recorded_sample
        if spaced and sample.gap:
            sample = sample._replace(gap=False)
        yield snapshot, sample
        before, last = snapshot, sample


def unjudged_frame(snapshot: Snapshot) -> Frame:
    """Return a session's first Frame without running the rules; its verdict is "measuring".

    The first picture is drawn from this Frame, so that the picture does not wait for the rules. "measuring" is its
    only finding: even the rules that need a single Snapshot are not run.
    """
    sample = between(None, snapshot, None)
    seen, missing = signal_groups(snapshot)
    measuring = Finding("unknown", Severity.INFO, 0.0, args=(("reason", "measuring"),))
    verdict = Verdict((measuring,), 0.0, SHORTEST_S, seen, GROUP_COUNT, missing)
    return Frame(snapshot, sample, (sample,), FoldState(started_ns=snapshot.at_ns, verdict=verdict), verdict)


def closing_frame(newest: Frame, events: tuple[Event, ...], at_ns: int, wall_ns: int) -> Frame:
    """Return the last Frame of a recording. It adds the events that happened after ``newest``; nothing is read again.

    The Frame repeats the Readings of ``newest`` with their original times, so no rate is computed again. The monitor's
    own cost in this interval is unknown. at_ns, wall_ns: the time of the Frame, which is moved to SPACING_S after
    ``newest`` if it is earlier than that.
    """
    before = newest.snapshot
    later_ns = max(0, before.at_ns + int(SPACING_S * 1e9) - at_ns)
    own = before.own._replace(cpu_ns=None, collect_ns=None, late_ns=None)
    snapshot = before._replace(
        seq=before.seq + 1, at_ns=at_ns + later_ns, wall_ns=wall_ns + later_ns, events=events, own=own
    )
    return next(frames([snapshot], before=before, last=newest.sample, history=newest.history, carry=newest.carry))
