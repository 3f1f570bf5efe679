"""A cause between machines: gradients cross a real link that is slower than its nominal speed."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.rigs.slowdisk.loop import run
from tests.scenarios.cause import Cause, Scene, Setting, with_options
from tests.scenarios.causes_gpu import ranks
from tests.scenarios.place import die_with_us
from tests.scenarios.scenes import plain

PEER = Path(__file__).with_name("peer.py")
ADDRESS = "peer"
"""In the run's folder: the address of the other machine."""
GRADIENTS = 2.0
"""MB that each rank sends in a step."""
MBIT = 200


def why_no_link() -> str:
    """Why a second network is impossible here; "" when it is possible."""
    if os.geteuid():
        return "needs root"
    missing = [tool for tool in ("ip", "tc", "unshare", "nsenter") if shutil.which(tool) is None]
    return f"needs {', '.join(missing)}" if missing else ""


def linked(mbit: int) -> Scene:
    """A link to a second network where the peer listens; limited to ``mbit``, though it reports 10 Gbit/s.

    The network ends with the peer, which ends with us, and the interfaces with the network.
    """

    @contextlib.contextmanager
    def scene(folder: Path) -> Iterator[Setting]:
        number = os.getpid() % 10_000
        near, far, net = f"grad{number}", f"far{number}", f"10.231.{number % 250}"
        command = ["unshare", "--net", sys.executable, str(PEER)]
        with (
            plain(folder) as setting,
            subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=die_with_us) as peer,
        ):
            try:
                assert peer.stdout is not None
                if not peer.stdout.readline():
                    raise RuntimeError(f"the peer ended with {peer.wait()}")
                pid = str(peer.pid)
                run("ip", "link", "add", near, "type", "veth", "peer", "name", far, "netns", pid)
                run("ip", "address", "add", f"{net}.1/30", "dev", near)
                run("ip", "link", "set", near, "up")
                inside = ("nsenter", "-t", pid, "-n", "ip")
                run(*inside, "address", "add", f"{net}.2/30", "dev", far)
                run(*inside, "link", "set", far, "up")
                rate = ("rate", f"{mbit}mbit", "burst", "256k", "latency", "50ms")
                run("tc", "qdisc", "add", "dev", near, "root", "tbf", *rate)
                (setting.folder / ADDRESS).write_text(f"{net}.2")
                yield setting
            finally:
                peer.kill()

    return scene


def _gradients(cause: Cause, chance: random.Random) -> Cause:
    """The exchange of four ranks takes eight to twenty times the computing."""
    step = round(chance.uniform(0.015, 0.03), 3)
    size = round(step * chance.uniform(8, 20) * MBIT / 8 / 4, 2)
    return with_options(cause, "--step", step, "--amount", size, told=f"step {step} s, {size} MB a rank")


CAUSES: dict[str, Cause] = {
    "comm_wait real link": ranks(
        "comm_wait", 4, "--trouble", "gradients", "--amount", GRADIENTS, "--with", 4, "--step", 0.03, window_s=20.0,
        draw=_gradients,
    )._replace(scene=linked(MBIT), why_not=why_no_link),
}  # fmt: skip
