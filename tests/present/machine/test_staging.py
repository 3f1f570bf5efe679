"""The plan to copy a dataset, in words."""

from __future__ import annotations

from iotop_ai.model.machine.staging import Plan
from iotop_ai.present.machine.staging import plan_text


def test_counts_of_one_are_not_plural() -> None:
    plan = Plan("/a", "/b", 9, 100, links=1, back_links=1, others=1, room_bytes=1000, inodes=1)
    text = plan_text(plan)
    assert text[1:] == [
        "does not fit: 1 more file can be created there",
        "1 symbolic link copied as it is, 1 leads back into the source",
        "1 pipe, socket or device left out",
    ]
    more = plan_text(plan._replace(links=3, back_links=2, others=2, inodes=5))
    assert more[1:] == [
        "does not fit: 5 more files can be created there",
        "3 symbolic links copied as they are, 2 lead back into the source",
        "2 pipes, sockets or devices left out",
    ]
