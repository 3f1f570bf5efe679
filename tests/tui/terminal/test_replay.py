"""A recording of a real slow disk, replayed in a real terminal at 80x24 and stepped to the stall."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.model.settings import Settings
from iotop_ai.pipeline import frames
from iotop_ai.sources.live.source import LiveSource
from iotop_ai.store.format.codec import VerdictLine
from iotop_ai.store.read.file import FileRecording
from iotop_ai.store.write.recorder import Recorder
from iotop_ai.store.write.sink import FileSink
from tests.rigs.slowdisk import FuseDisk, why_no_fuse_disk
from tests.rigs.tmux import Terminal, why_no_tmux

pytestmark = [
    pytest.mark.alone,  # otherwise the verdict could be about another test
    pytest.mark.timeout(180),
    pytest.mark.skipif(bool(why_no_tmux() or why_no_fuse_disk()), reason=why_no_tmux() or why_no_fuse_disk()),
]

INTERVAL_S = 0.25
CALM_S, SLOW_S, LONG_S = 4.0, 14.0, 90.0
SEEN_S = 4.0
"""If the verdict has been about the disk for this long, SLOW_S of slow reads suffice; otherwise up to LONG_S."""
READER = """
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
buffer = mmap.mmap(-1, 65536)
while True:
    os.preadv(fd, [buffer], 0)
"""


@pytest.fixture(scope="module")
def stall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The path of a recording, and its device: a disk that is fast at first, and then takes 60 ms for each read."""
    folder = tmp_path_factory.mktemp("stall")
    path = str(folder / "stall.iotop.jsonl")
    with FuseDisk(folder, 16) as disk:
        source = LiveSource(Settings(interval_s=INTERVAL_S, smart=False))
        recorder = Recorder(FileSink(path), Clock(), min_free_bytes=0)
        reader: subprocess.Popen[bytes] | None = None
        try:
            begun, seen_s = time.monotonic(), 0.0
            for frame in frames(source):
                recorder.put(frame)
                passed = time.monotonic() - begun
                if reader is None and passed > CALM_S:
                    disk.set(delay_us=60_000)
                    reader = disk.popen(sys.executable, "-c", READER, disk.node)
                seen_s += INTERVAL_S * (frame.verdict.primary.subject == disk.name)
                # on a busy machine the verdict comes later
                if passed > CALM_S + (SLOW_S if seen_s > SEEN_S else LONG_S):
                    break
        finally:
            source.close()
            if reader is not None:
                reader.kill()
                reader.wait()
        assert recorder.close()
        yield path, disk.name


def test_a_replay_can_be_stepped_to_the_stall(stall: tuple[str, str]) -> None:
    path, device = stall
    size, changed = os.path.getsize(path), os.stat(path).st_mtime_ns
    verdicts = [line.verdict for line in FileRecording(path).lines() if isinstance(line, VerdictLine)]
    about_disk = [one for one in verdicts if one.primary.subject == device]
    assert about_disk, "the rules saw no stall"
    with Terminal(80, 24) as terminal:
        program = shlex.join([sys.executable, "-m", "iotop_ai", "replay", "--allow-root", path])
        terminal.type(f"cd {Path(__file__).resolve().parents[3]}; {program}; echo rc=$?\n")
        terminal.wait_for("REPLAY paused")
        for _ in range(6):
            if device in terminal.text().splitlines()[0]:
                break
            before = terminal.text().splitlines()[0:4]
            terminal.keys("v")
            terminal.wait_until(lambda text, before=before: text.splitlines()[0:4] != before, what="another verdict")
        first, *rest = terminal.text().splitlines()
        assert first.startswith(f" {about_disk[0].state}")
        assert device in first
        assert f">{device}" in "\n".join(rest)
        here = next(line for line in rest if "REPLAY paused" in line)
        terminal.keys("[")
        terminal.wait_until(lambda text: device not in text.splitlines()[0], what="the moment before")
        terminal.keys("]")
        terminal.wait_until(lambda text: text.splitlines()[0] == first and here in text, what="the stall again")
        terminal.keys("@")
        terminal.type("100%\n")
        text = terminal.wait_until(
            # The first row may belong to another program of this machine.
            lambda text: (
                "REPLAY" in text and here not in text and "r_await" in text and device in text.partition(" path ")[0]
            ),
            what="the end",
        )
        await_row = next(line for line in text.splitlines() if line.startswith(" r_await"))
        assert float(await_row.split()[1]) > 30
        terminal.keys("q")
        terminal.wait_for("rc=0")
        assert terminal.mode()["alternate_on"] == "0"
    assert (os.path.getsize(path), os.stat(path).st_mtime_ns) == (size, changed)
