"""A real FUSE server, whose requests are counted while it is slow, and which blocks nothing while it hangs."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.machine.filesystem import FilesystemCollector
from iotop_ai.collectors.machine.mounts import MountsCollector
from iotop_ai.model.reading import Status
from tests.rigs.slowdisk.fuse import build, why_no_fuse_disk
from tests.waiting import until

LOOK = """
import json
from iotop_ai.collectors.machine.mounts import MountsCollector
from iotop_ai.collectors.machine.netfs import NetfsCollector
from iotop_ai.collectors.io.root import Root
mounts = MountsCollector(Root())
mounts.read()
fuse = NetfsCollector(Root(), mounts).read().fuse.values()
print(json.dumps([[f.mount, f.waiting, f.max_background] for f in fuse]))
"""


@dataclass
class Server:
    mount: Path
    control: Path
    process: subprocess.Popen[bytes]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    if reason := why_no_fuse_disk():
        pytest.skip(reason)
    program, image, control, mount = (tmp_path / name for name in ("slowfs", "image", "control", "mount"))
    build(program)
    image.write_bytes(bytes(1 << 20))
    control.write_text("0 0 0")
    mount.mkdir()
    process = subprocess.Popen([str(program), str(image), str(control), str(mount), "-f"])
    try:
        until((mount / "disk.img").exists)
        yield Server(mount, control, process)
    finally:
        control.write_text("0 0 0")
        process.send_signal(signal.SIGCONT)
        until(lambda: subprocess.run(["fusermount3", "-u", str(mount)], capture_output=True).returncode == 0)
        process.wait(10)


def test_requests_that_wait_for_a_slow_server_are_counted(server: Server) -> None:
    if not shutil.which("unshare"):
        pytest.skip("needs unshare (util-linux) to mount fusectl in a private namespace")
    server.control.write_text("3000000 0 0")
    command = ["dd", f"if={server.mount}/disk.img", "of=/dev/null", "bs=64k", "count=1", "iflag=direct"]
    reader = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    control = "mount -t fusectl none /sys/fs/fuse/connections"
    try:
        time.sleep(0.3)
        done = subprocess.run(
            ["unshare", "-m", "sh", "-c", f'{control} && exec "$0" -c "$1"', sys.executable, LOOK],
            capture_output=True,
            text=True,
            timeout=20,
        )
        if "fusectl" in done.stderr:
            pytest.skip(f"fusectl cannot be mounted: {done.stderr.strip()}")
        found = {mount: (waiting, background) for mount, waiting, background in json.loads(done.stdout)}
    finally:
        reader.wait(10)
    waiting, background = found[str(server.mount)]
    assert waiting >= 1
    assert background > 0


@pytest.mark.xdist_group("a hung filesystem")
def test_a_hanging_server_blocks_nothing_and_comes_back(server: Server) -> None:
    mounts = MountsCollector(Root())
    mounts.read()
    collector = FilesystemCollector(Root(), Clock(), mounts)
    os.kill(server.process.pid, signal.SIGSTOP)
    slowest = 0.0

    def status() -> Status:
        nonlocal slowest
        start = time.perf_counter()
        reading = collector.read()[str(server.mount)]
        slowest = max(slowest, time.perf_counter() - start)
        return reading.status

    try:
        until(lambda: status() is Status.FAILED)
        assert collector.read()["/"].status is Status.OK
        assert collector.read()[str(server.mount)].reason == "no answer for 2 s"
    finally:
        os.kill(server.process.pid, signal.SIGCONT)
    until(lambda: status() is Status.OK)
    assert slowest < 1.5
