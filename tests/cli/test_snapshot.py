from __future__ import annotations

from iotop_ai.cli.snapshot import completed, late_parts
from iotop_ai.model.reading import Reading, Status
from tests.export.make import ok, pair

PENDING: Reading[object] = Reading(None, Status.PENDING, "asked")


def test_what_is_late_is_taken_from_later_and_counters_are_not() -> None:
    before, after = pair()
    waiting = after._replace(smart=PENDING, filesystems=ok({"/": PENDING}, after.at_ns))
    assert late_parts(waiting) == ("smart", "filesystems")
    later = before._replace(smart=ok({}, 9), filesystems=ok({"/": ok(1, 9)}, 9))
    done = completed(waiting, later)
    assert done == after._replace(smart=later.smart, filesystems=later.filesystems)
    assert late_parts(done) == ()


def test_nothing_late_changes_nothing() -> None:
    before, after = pair()
    assert late_parts(after) == ("filesystems",)
    whole = after._replace(filesystems=ok({}, after.at_ns))
    assert completed(whole, before) == whole
