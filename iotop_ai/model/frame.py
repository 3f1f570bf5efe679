"""The input of every view: the newest Snapshot, its Sample, the Samples of the last minute and the verdict."""

from __future__ import annotations

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.finding import Verdict
from iotop_ai.model.fold_state import FoldState
from iotop_ai.model.sample import Sample
from iotop_ai.model.snapshot import Snapshot

HISTORY_S = 60.0
HISTORY_LEAST = 5
"""A history keeps at least this many Samples, however old they are. If the interval is long, the window of a rule
contains three Samples, or four if the intervals vary; the fifth is a reserve."""


class Frame(NamedTuple):
    """Everything that is shown at one time.

    history: the Samples of the last 60 s, but at least the newest five, oldest first; the last one is ``sample``
    carry: the state that ``diagnosis.engine.fold()``, which runs the rules, passes on to the next Frame
    after_gap: whether Snapshots before this one were dropped from the recording; ``sample`` does not span their time
    """

    snapshot: Snapshot
    sample: Sample
    history: tuple[Sample, ...]
    carry: FoldState
    verdict: Verdict
    after_gap: bool = False
