"""The input of every view: the newest Snapshot, its Sample, the Samples of the last minute and the verdict."""

from __future__ import annotations

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.finding import Verdict
from iotop_ai.model.fold_state import FoldState
from iotop_ai.model.sample import Sample
from iotop_ai.model.snapshot import Snapshot

HISTORY_S = 60.0
HISTORY_LEAST = 5
"""A history keeps at least this many Samples, however old they are. A rule needs three in its window and one before it.
"""


class Frame(NamedTuple):
    """Everything that is shown at one time.

    history: the Samples of the last 60 s, but at least the newest five, oldest first; the last one is ``sample``
    carry: the state of the fold after ``sample``
    """

    snapshot: Snapshot
    sample: Sample
    history: tuple[Sample, ...]
    carry: FoldState
    verdict: Verdict
