"""A recording that is rotated while it is replayed goes on in the next file."""

from __future__ import annotations

from pathlib import Path

from iotop_ai.cli.replay import Chain
from iotop_ai.store.ring import Ring
from iotop_ai.tui.tape import Tape
from tests.tui.recorded import record, stalling


def test_the_file_under_the_name_is_replaced(tmp_path: Path) -> None:
    live = stalling()
    path = tmp_path / "a.iotop.jsonl"
    record(path, live[:80])
    chain = Chain(str(path))
    chain.follows = True
    tape = Tape(chain.parts, chain.next_part)
    assert tape.go(2**62) == live[79]
    assert tape.forward() is None
    ring = Ring()
    for frame in live[:80]:
        ring.put(frame)
    preroll = ring.preroll("full", live[80].snapshot.at_ns)
    ring.close()
    path.rename(tmp_path / "a.20251009T085440.iotop.jsonl")
    assert tape.forward() is None
    record(path, live[80:], preroll=preroll)
    assert [tape.forward() for _ in live[80:]] == live[80:]
    assert tape.go(live[70].snapshot.wall_ns) == live[70]
    chain.close()
