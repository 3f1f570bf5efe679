"""The link between the ranks and their peer delivers all data at its configured speed."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from tests.scenarios.causes_network import ADDRESS, CAUSES, linked, why_no_link
from tests.scenarios.peer import Exchange
from tests.scenarios.registry import all_causes

pytestmark = pytest.mark.skipif(bool(why_no_link()), reason=why_no_link())
MBIT = 80


def links() -> set[str]:
    return {path.name for path in Path("/sys/class/net").glob("grad*")}


def tx_bytes(name: str) -> int:
    return int(Path(f"/sys/class/net/{name}/statistics/tx_bytes").read_text())


def test_the_gradients_cross_a_real_link_which_is_removed_afterwards(tmp_path: Path) -> None:
    before = links()
    with linked(MBIT)(tmp_path) as setting:
        (name,) = links() - before
        exchange, base_bytes = Exchange((setting.folder / ADDRESS).read_text()), tx_bytes(name)
        start = time.monotonic()
        for _ in range(3):
            exchange.run(1_000_000)
        took = time.monotonic() - start
        assert tx_bytes(name) - base_bytes > 3_000_000
        # The link delivers the first quarter of a megabyte at once.
        assert took > 0.8 * (3_000_000 - 262_144) * 8 / (MBIT * 1e6)
    for _ in range(500):
        if links() == before:
            break
        time.sleep(0.02)
    assert links() == before


def test_a_slow_network_is_a_separate_cause() -> None:
    assert CAUSES.keys() <= all_causes().keys()
    assert {cause.label for cause in CAUSES.values()} == {"comm_wait"}
    assert subprocess.run(["ip", "-V"], capture_output=True, check=False).returncode == 0
