"""A cause between machines: gradients cross a real link that is slower than its nominal speed."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.rigs.slowdisk.loop import run
from tests.scenarios.cause import Cause, Scene, Setting, with_options
from tests.scenarios.causes_gpu import ranks
from tests.scenarios.link import linked_server
from tests.scenarios.scenes import plain

PEER = Path(__file__).with_name("peer.py")
ADDRESS = "peer"
"""The name of the file in the run's folder that holds the address of the other machine."""
GRADIENTS = 2.0
"""The data that each rank sends in a step, in MB."""
MBIT = 200


def why_no_link() -> str:
    """Return why a second network is impossible here; "" when it is possible."""
    if os.geteuid():
        return "needs root"
    missing = [tool for tool in ("ip", "tc", "unshare", "nsenter") if shutil.which(tool) is None]
    return f"needs {', '.join(missing)}" if missing else ""


def linked(mbit: int) -> Scene:
    """Return a scene with a link to a second network, in which the peer listens.

    The link is limited to ``mbit`` Mbit/s, although it reports 10 Gbit/s.
    """

    @contextlib.contextmanager
    def scene(folder: Path) -> Iterator[Setting]:
        with plain(folder) as setting, linked_server([sys.executable, str(PEER)], "grad", "far", "10.231") as link:
            rate = ("rate", f"{mbit}mbit", "burst", "256k", "latency", "50ms")
            run("tc", "qdisc", "add", "dev", link.near, "root", "tbf", *rate)
            (setting.folder / ADDRESS).write_text(link.address)
            yield setting

    return scene


def _gradients(cause: Cause, rng: random.Random) -> Cause:
    """Return the cause with an exchange of four ranks that takes eight to twenty times as long as the computing."""
    step = round(rng.uniform(0.015, 0.03), 3)
    size = round(step * rng.uniform(8, 20) * MBIT / 8 / 4, 2)
    return with_options(cause, "--step", step, "--amount", size, setting=f"step {step} s, {size} MB a rank")


CAUSES: dict[str, Cause] = {
    "comm_wait real link": ranks(
        "comm_wait", 4, "--trouble", "gradients", "--amount", GRADIENTS, "--with", 4, "--step", 0.03, window_s=20.0,
        draw=_gradients,
    )._replace(scene=linked(MBIT), why_not=why_no_link),
}  # fmt: skip
