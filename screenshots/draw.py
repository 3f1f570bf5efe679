"""Draw the pictures of this folder from the real app: ``python screenshots/draw.py`` (as root for the slow disk).

Real Snapshots of this machine are taken while fio reads from a slow loop device. Then the app shows them in this
process, its screen is exported as SVG, and a headless chromium with Fira Code makes the PNG (on Debian: apt install
chromium fonts-firacode fio).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from iotop_ai.collectors.io.clock import Clock  # noqa: E402
from iotop_ai.model.frame import Frame  # noqa: E402
from iotop_ai.model.keyframe import Keyframe  # noqa: E402
from iotop_ai.model.settings import Settings  # noqa: E402
from iotop_ai.model.snapshot import Snapshot  # noqa: E402
from iotop_ai.pipeline import frames  # noqa: E402
from iotop_ai.playback.player import FrameCursor  # noqa: E402
from iotop_ai.playback.session_recording import SessionRecorder  # noqa: E402
from iotop_ai.present.screen.view import Timeline, View  # noqa: E402
from iotop_ai.present.text.theme import text_styles  # noqa: E402
from iotop_ai.sources.live.source import LiveSource  # noqa: E402
from iotop_ai.sources.recorded.source import ReplaySource  # noqa: E402
from iotop_ai.store.last_hour import Ring  # noqa: E402
from iotop_ai.store.read.file import FileRecording  # noqa: E402
from iotop_ai.store.source import MemoryRecording  # noqa: E402
from iotop_ai.store.write.recorder import Recorder  # noqa: E402
from iotop_ai.store.write.sink import FileSink  # noqa: E402
from iotop_ai.tui.app import MonitorApp  # noqa: E402
from iotop_ai.tui.threads.playback import PlaybackThread  # noqa: E402
from tests.present.gpu_scenes import eight_snapshots, one_gpu_snapshots  # noqa: E402
from tests.present.health_scene import ill_snapshots  # noqa: E402
from tests.rigs.slowdisk import FuseDisk, why_no_fuse_disk  # noqa: E402
from tests.scenarios.slim import Slim  # noqa: E402

CELL_WIDTH, CELL_HEIGHT = 12.2, 24.4
"""The size of a cell in Rich's SVG, in its units.

The frame and the title bar are to the left of and above the cells.
"""
DECODED_S = 2.0
"""The time in which a recording of some minutes is read completely, in seconds."""
DIALOG_S = 0.5
"""The time in which a dialog finds out what is permitted, in seconds."""
LEFT, TOP = 9, 41
MOUNT = Path("/mnt/data")
VERDICTS = HERE.parent / "tests" / "data" / "verdicts"


class Picture(NamedTuple):
    """One picture: the name of its file without suffix, its size, its theme, and the keys that are pressed before it.

    scene: "" for this machine, else the name of one of SCENES. replay: whether it shows a recording with a timeline.
    kept: whether it shows a live screen that has kept the last Frames in memory, to look back at them.
    """

    name: str
    width: int
    height: int
    theme: str
    keys: tuple[str, ...] = ()
    scene: str = ""
    replay: bool = False
    kept: bool = False


def last_snapshots_of(file: Path) -> Callable[[int], list[Snapshot]]:
    """Return a function that returns the last seconds of a recording of real training.

    The GPU in the recording was simulated by the C NVML library.
    """

    def last(seconds: int) -> list[Snapshot]:
        items = list(ReplaySource(str(file), allow_root=True))
        # The last Snapshot is taken when the command ends, not after a whole interval, so it is left out.
        return [item.snapshot if isinstance(item, Keyframe) else item for item in items][-seconds - 1 : -1]

    return last


SCENES: dict[str, Callable[[int], list[Snapshot]]] = {
    "gpu-1": one_gpu_snapshots,
    "gpu-8": eight_snapshots,
    "health": ill_snapshots,
    "jobs": last_snapshots_of(HERE / "starved.iotop.jsonl.gz"),
    "healthy": last_snapshots_of(VERDICTS / "healthy_gpu.iotop.jsonl.gz"),
    "starved": last_snapshots_of(HERE / "starved.iotop.jsonl.gz"),
}
"""Machines with other hardware or other load than this one. Each function returns one Snapshot per second."""

_TO_DISKS = ("tab",) * 4
"""The keys from the banner to the disks: past path, graphs and GPUs. A low window with many GPUs has no graphs."""

PICTURES = (
    Picture("main-80x24", 80, 24, "dark"),
    Picture("main-80x24-light", 80, 24, "light"),
    Picture("main-160x48", 160, 48, "dark"),
    Picture("healthy-80x24", 80, 24, "dark", (), "healthy"),
    Picture("starved-80x24", 80, 24, "dark", (), "starved"),
    Picture("starved-120x36", 120, 36, "dark", (), "starved"),
    Picture("starved-160x48", 160, 48, "dark", (), "starved"),
    Picture("help-80x24", 80, 24, "dark", ("question_mark",)),
    Picture("main-80x24-mono", 80, 24, "mono"),
    Picture("replay-80x24", 80, 24, "dark", ("v", "v", "right_square_bracket"), replay=True),
    Picture("back-80x24", 80, 24, "dark", ("left_square_bracket", "V", "V"), "jobs", kept=True),
    Picture("gpu-1-80x24", 80, 24, "dark", ("g",), "gpu-1"),
    Picture("gpu-1-160x48", 160, 48, "dark", ("g",), "gpu-1"),
    Picture("gpu-8-80x24", 80, 24, "dark", ("g", "n", "n"), "gpu-8"),
    Picture("gpu-8-160x48", 160, 48, "dark", ("g", "b"), "gpu-8"),
    Picture("device-80x24", 80, 24, "dark", (*_TO_DISKS[1:], "enter"), "jobs"),
    Picture("device-160x48", 160, 48, "dark", (*_TO_DISKS, "enter"), "jobs"),
    Picture("health-80x24", 80, 24, "dark", ("h",), "health"),
    Picture("health-160x48", 160, 48, "dark", ("h",), "health"),
    Picture("health-disk-80x24", 80, 24, "dark", ("h", "enter"), "health"),
    Picture("health-disk-160x48", 160, 48, "dark", ("h", "enter"), "health"),
    Picture("health-test-80x24", 80, 24, "dark", ("h", "enter", "T", "a", "b"), "health"),
    Picture("verdict-80x24", 80, 24, "dark", ("enter",), "jobs"),
    Picture("verdict-160x48", 160, 48, "dark", ("enter",), "jobs"),
    Picture("jobs-80x24", 80, 24, "dark", ("J",), "jobs"),
    Picture("jobs-160x48", 160, 48, "dark", ("J",), "jobs"),
    Picture("drop-caches-80x24", 80, 24, "dark", ("D", "d", "r"), "gpu-8"),
    Picture("main-gpu-1-80x24", 80, 24, "dark", (), "gpu-1"),
    Picture("main-gpu-8-80x24", 80, 24, "dark", (), "gpu-8"),
    Picture("main-gpu-8-160x48", 160, 48, "dark", (), "gpu-8"),
)
"""The pictures in this folder."""

MORE = (
    Picture("main-80x24-cvd", 80, 24, "cvd"),
    Picture("main-80x24-ansi", 80, 24, "ansi"),
    Picture("main-60x15", 60, 15, "dark"),
    Picture("focus-80x24", 80, 24, "dark", ("tab", "tab", "tab", "tab", "down", "down")),
)
"""Further pictures for work on the appearance. They are drawn only if they are requested."""


@contextlib.contextmanager
def load(seconds: float) -> Iterator[None]:
    """Run fio on a slow disk with a filesystem. If this machine cannot have one, print a line that says why."""
    if why := why_no_fuse_disk() or ("" if shutil.which("fio") else "needs fio"):
        sys.stderr.write(f"no load: {why}\n")
        yield
        return
    with tempfile.TemporaryDirectory() as folder, FuseDisk(Path(folder), mebibytes=256) as disk:
        run("mkfs.ext4", "-q", disk.node)
        mount_is_new = not MOUNT.exists()
        MOUNT.mkdir(parents=True, exist_ok=True)
        run("mount", disk.node, str(MOUNT))
        try:
            file = f"--filename={MOUNT}/set.bin"
            run("fio", "--name=lay", file, "--size=200M", "--rw=write", "--bs=1M", "--end_fsync=1")
            job = ("--rw=randread", "--bs=128k", "--direct=1", "--size=200M", "--time_based", f"--runtime={seconds}")
            # The first third is calm, so that the change for the worse is in the picture.
            disk.set(delay_us=3_000)
            fio = subprocess.Popen(
                ["fio", "--name=train", file, *job, "--numjobs=8", "--thread=0"], stdout=subprocess.DEVNULL
            )
            slowdown = threading.Timer(seconds / 3, disk.set, kwargs={"delay_us": 40_000})
            slowdown.start()
            yield
            slowdown.cancel()
            fio.terminate()
            fio.wait()
        finally:
            run("umount", str(MOUNT))
            if mount_is_new:
                MOUNT.rmdir()


def run(*argv: str) -> None:
    """Run a program. If it fails, the script ends."""
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def record(seconds: float) -> MemoryRecording:
    """Return Snapshots of this machine, one per second."""
    source = LiveSource(Settings())
    snapshots: list[Snapshot] = []
    end: int | None = None
    try:
        for snapshot in source:
            snapshots.append(snapshot)
            end = end or snapshot.at_ns + int(seconds * 1e9)
            if snapshot.at_ns >= end:
                break
    finally:
        source.close()
    return MemoryRecording(snapshots)


class ThisMachine(MemoryRecording):
    """A source that stands for the live machine, so that keys that act on it are enabled. No picture runs an action."""

    live = True
    smartctl = ""

    def refresh_smart(self) -> None:
        """Do nothing, because no disk can be queried."""


async def draw(picture: Picture, shown: list[Frame], folder: Path) -> None:
    """Draw a picture of the last of the Frames, as SVG and PNG."""
    view = View(interval_s=1.0, utc_offset_s=0)
    if picture.replay:
        await draw_replay(picture, shown, view, folder)
        return
    session_recorder = SessionRecorder(Clock(), Ring) if picture.kept else None
    app = MonitorApp(shown[0], (), ThisMachine(), view, picture.theme, session_recorder=session_recorder)
    async with app.run_test(size=(picture.width, picture.height)) as pilot:
        for frame in shown[1:]:  # one by one, because graphs reach further back than one Frame
            if session_recorder is not None:
                session_recorder.put(frame)
            app.main.live.receive(frame)
        for key in picture.keys if picture.kept else ():
            await pilot.press(key)
            await pilot.pause(DECODED_S)
        if picture.keys and not picture.kept:
            await pilot.press(*picture.keys)
            await pilot.pause(DIALOG_S)
        await pilot.pause()
        svg = tidy(app.export_screenshot(simplify=True), picture)
    rasterise(svg, folder / f"{picture.name}.png", picture)


async def draw_replay(picture: Picture, shown: list[Frame], view: View, folder: Path) -> None:
    """Draw a picture of a recording of the Frames: at its start, then where the keys lead."""
    with tempfile.TemporaryDirectory() as place:
        recorder = Recorder(FileSink(f"{place}/a.iotop.jsonl"), Clock(), min_free_bytes=0)
        for frame in shown:
            recorder.put(frame)
            while recorder.state().snapshots + 60 < frame.snapshot.seq - shown[0].snapshot.seq:
                await asyncio.sleep(0.01)
        recorder.close()
        cursor = FrameCursor([FileRecording(f"{place}/a.iotop.jsonl")])
        first = cursor.seek(0)
        line = Timeline(cursor.begin_wall_ns, cursor.end_wall_ns(), cursor.begin_wall_ns)
        view = view._replace(mode="replay", timeline=line)
        source = MemoryRecording()
        app = MonitorApp(
            first, (), source, view, picture.theme, make_playback=lambda app: PlaybackThread(cursor, app, Clock())
        )
        async with app.run_test(size=(picture.width, picture.height)) as pilot:
            for key in ("", *picture.keys):
                if key:
                    await pilot.press(key)
                await pilot.pause(DECODED_S)
            svg = tidy(app.export_screenshot(simplify=True), picture)
    rasterise(svg, folder / f"{picture.name}.png", picture)


def tidy(svg: str, picture: Picture) -> str:
    """Return only the cells, without a window frame and without a font that is fetched from a web server."""
    svg = re.sub(r"@font-face\s*\{.*?\}", "", svg, flags=re.DOTALL)
    # The cells leave a narrow strip of the frame free at the right and the top. It gets the screen's background colour.
    ground = text_styles(picture.theme)["bg"].bg
    frame = r'<rect fill="([^"]*)" stroke="[^"]*"( stroke-width="[^"]*")?([^>]*) rx="8"/>'
    svg = re.sub(frame, lambda m: f'<rect fill="{ground or m[1]}"{m[3]}/>', svg, count=1)
    box = f"{LEFT} {TOP} {picture.width * CELL_WIDTH:.1f} {picture.height * CELL_HEIGHT:.1f}"
    return re.sub(r'viewBox="[^"]*"', f'viewBox="{box}"', svg, count=1)


def rasterise(svg: str, png: Path, picture: Picture) -> None:
    """Make the PNG with chromium, the only usual renderer that keeps braille and rules in their columns."""
    width, height = round(picture.width * CELL_WIDTH), round(picture.height * CELL_HEIGHT)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "screen.svg").write_text(svg)
        page = Path(folder) / "page.html"
        page.write_text(f'<body style="margin:0"><img src="screen.svg" width={width} height={height}>')
        load_page(str(page), png, width, height)


def load_page(page: str, png: Path, width: int, height: int) -> None:
    """Make a picture of a page."""
    with tempfile.TemporaryDirectory() as folder:
        run(
            *("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
            *(f"--user-data-dir={folder}/profile", "--allow-file-access-from-files"),
            *(f"--window-size={width},{height}", f"--screenshot={png}", f"file://{page}"),
        )


def main() -> None:
    """Record, then draw all pictures or the requested ones."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=100.0, help="how long to watch this machine (100)")
    parser.add_argument("--into", type=Path, default=HERE, help="folder of the pictures")
    parser.add_argument("names", nargs="*", help="pictures to draw, those of this folder by default")
    args = parser.parse_args()
    wanted = [p for p in (*PICTURES, *MORE) if p.name in args.names or (not args.names and p in PICTURES)]
    shown = {name: list(frames(SCENES[name](int(args.seconds)))) for name in {p.scene for p in wanted} - {""}}
    if any(not picture.scene for picture in wanted):
        with load(args.seconds + 10):
            recording = record(args.seconds)
        # The names and paths of the machine's other programs are private, so they are replaced.
        shown[""] = list(frames(Slim(list(recording)).all()))
    for picture in wanted:
        asyncio.run(draw(picture, shown[picture.scene], args.into.resolve()))
        sys.stdout.write(f"{picture.name}.png\n")


if __name__ == "__main__":
    main()
