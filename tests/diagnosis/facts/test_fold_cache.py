from __future__ import annotations

from iotop_ai.diagnosis.engine import fold
from iotop_ai.diagnosis.facts.fold_cache import FoldCache
from iotop_ai.model.fold_state import FoldState
from tests.diagnosis.build import IDLE, STARVED, play
from tests.diagnosis.job_scenes import JOB_ALONE


def test_a_fold_decides_the_same_with_a_shared_cache_as_without_one() -> None:
    shared = FoldCache()
    kept = fresh = FoldState()
    frames = play((STARVED, 20), (IDLE, 20), (JOB_ALONE, 20))
    other = play((JOB_ALONE, 20), (STARVED, 20), (IDLE, 20))
    for frame, stranger in zip(frames, other, strict=True):
        kept, with_kept = fold(kept, frame.snapshot, frame.history, cache=shared)
        fresh, with_fresh = fold(fresh, frame.snapshot, frame.history)
        assert with_kept == with_fresh == frame.verdict
        fold(stranger.carry._replace(decided_ns=None), stranger.snapshot, stranger.history, cache=shared)
    assert kept == fresh
