"""The health screen in the real app: its keys, the dialog before a self-test, and a self-test on a made-up disk."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot

from iotop_ai.collectors.health.collector import SmartCollector
from iotop_ai.collectors.health.history import HealthHistory
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.model.frame import Frame
from iotop_ai.model.health.smart import SmartState
from iotop_ai.model.reading import Reading
from iotop_ai.model.settings import Settings
from iotop_ai.present.screen.view import View
from iotop_ai.store.source import MemoryRecording
from iotop_ai.tui.app import MonitorApp
from iotop_ai.tui.messages import FrameReady
from iotop_ai.tui.screens.health import HealthScreen
from tests.present.health_scene import ill
from tests.rigs.smart import Smartctl, why_no_smartctl
from tests.tui.shown import text

WHY = why_no_smartctl()
needs_smartctl = pytest.mark.skipif(bool(WHY), reason=WHY or "there")
VIEW = View(interval_s=1.0, utc_offset_s=0)
SIZES = [(80, 24), (160, 48)]


class Own(MemoryRecording):
    """A live source that keeps the requests it gets."""

    live = True
    smartctl = "/nowhere/smartctl"

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.events: list[tuple[str, str]] = []

    def refresh_smart(self) -> None:
        self.asked += 1

    def add_event(self, kind: str, text: str) -> None:
        self.events.append((kind, text))


class Shown:
    """An app that shows one Frame."""

    def __init__(self, app: MonitorApp, pilot: Pilot[None], source: MemoryRecording) -> None:
        self.app, self.pilot, self.source = app, pilot, source

    async def press(self, *keys: str) -> str:
        await self.pilot.press(*keys)
        await self.pilot.pause()
        return self.text

    async def frame(self, frame: Frame) -> str:
        self.app.post_message(FrameReady(frame))
        await self.pilot.pause()
        return self.text

    @property
    def text(self) -> str:
        return text(self.app)

    @property
    def health(self) -> HealthScreen:
        assert isinstance(self.app.screen, HealthScreen)
        return self.app.screen

    @property
    def keys(self) -> str:
        return self.text.splitlines()[-1]


@asynccontextmanager
async def showing(
    frame: Frame | None = None,
    source: MemoryRecording | None = None,
    view: View = VIEW,
    size: tuple[int, int] = (100, 30),
) -> AsyncIterator[Shown]:
    source = Own() if source is None else source  # an empty recording counts as false, so it is compared with None
    app = MonitorApp(frame or ill(), (), source, view, "dark")
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        yield Shown(app, pilot, source)


@pytest.mark.parametrize("size", SIZES)
async def test_enter_opens_a_disk_and_escape_returns_to_the_list(size: tuple[int, int]) -> None:
    async with showing(size=size) as shown:
        text = await shown.press("h")
        assert "FAILING  sda fails" in text
        assert shown.health.health.cursor == "sda"  # the cursor begins at the worst disk
        text = await shown.press("enter")
        assert "because" in text
        assert "ST4000NM0035" in text
        assert "of 7" in text
        assert "1 of 7" in await shown.press("n", "n", "n")
        assert "FAILING  sda fails" in await shown.press("escape")
        await shown.press("escape")
        assert not isinstance(shown.app.screen, HealthScreen)


async def test_the_key_h_on_the_screen_of_a_disk_opens_only_its_health() -> None:
    async with showing() as shown:
        while shown.app.main.view.focus != "disk":
            await shown.press("tab")
        await shown.press("down", "enter", "h")
        name = shown.health.health.disk
        assert name
        assert f" {name} " in shown.text.splitlines()[1]
        await shown.press("escape")
        assert not isinstance(shown.app.screen, HealthScreen)


async def test_a_page_scrolls_and_a_new_frame_is_shown() -> None:
    async with showing(size=(80, 24)) as shown:
        await shown.press("h", "enter")
        assert "UNC at LBA" not in shown.text
        assert "UNC at LBA" in await shown.press("end")
        assert shown.health.health.scroll > 10
        assert "UNC at LBA" not in await shown.press("home")
        assert shown.health.health.scroll == 0
        assert "60 % done" in await shown.frame(ill(self_test_left=40))


async def test_a_click_opens_a_disk() -> None:
    async with showing() as shown:
        await shown.press("h")
        row = next(y for y, line in enumerate(shown.text.splitlines()) if line.startswith("  nvme1n1"))
        await shown.pilot.click(shown.health.panel, offset=(4, row))
        await shown.pilot.pause()
        assert shown.health.health.disk == "nvme1n1"


async def test_the_dialog_takes_every_key_and_escape_closes_it() -> None:
    async with showing() as shown:
        await shown.press("h")
        text = await shown.press("T")
        assert "Type short or long, then Enter:" in text
        assert "no data is" in text
        # In the dialog, q, h and u are letters.
        assert "Enter: qhu" in await shown.press("q", "h", "u")
        assert "Type short or long; press Esc to close." in await shown.press("enter")
        assert shown.health.health.dialog is not None
        await shown.press("s", "h", "escape")
        assert shown.health.health.dialog is None
        assert isinstance(shown.source, Own)
        assert (shown.source.events, shown.source.asked) == ([], 0)


async def test_ctrl_c_quits_from_the_dialog_as_from_every_other_place() -> None:
    async with showing() as shown:
        await shown.press("h", "T", *"short")
        await shown.pilot.press("ctrl+c")
        await shown.pilot.pause()
        assert shown.app._exit
    assert isinstance(shown.source, Own)
    assert (shown.app.return_code, shown.source.events, shown.source.asked) == (0, [], 0)


async def test_ctrl_c_bound_to_another_action_does_not_act_below_the_dialog() -> None:
    view = VIEW._replace(keymap=(("app.interrupt", ("ctrl+x",)), ("health.back", ("ctrl+c",))))
    async with showing(view=view) as shown:
        await shown.press("h", "T", *"short", "ctrl+c")
        assert shown.health.health.dialog is not None
        assert shown.health.health.dialog.typed.text == "short"
        await shown.press("escape", "ctrl+c")
        assert not isinstance(shown.app.screen, HealthScreen)


@pytest.mark.parametrize(
    ("view", "live"),
    [
        (VIEW._replace(readonly=True), True),
        (VIEW._replace(mode="replay"), True),
        (VIEW._replace(remote=True), True),
        (VIEW, False),
    ],
)
async def test_no_self_test_starts_in_read_only_mode_or_in_a_replay(view: View, live: bool) -> None:
    async with showing(source=Own() if live else MemoryRecording(), view=view) as shown:
        await shown.press("h")
        assert "T:self-test" not in shown.keys
        text = await shown.press("T")
        assert "not here" in text
        await shown.press("u", "h", "escape")
        assert shown.health.health.dialog is None


@pytest.mark.parametrize(
    ("view", "source", "why"),
    [
        (VIEW._replace(mode="replay"), Own, "not available in a replay"),
        (VIEW._replace(remote=True), MemoryRecording, "not available from another machine"),
        (VIEW, MemoryRecording, "only on the live screen of the machine itself"),
    ],
)
async def test_the_screen_says_why_the_disks_cannot_be_queried(
    view: View, source: type[MemoryRecording], why: str
) -> None:
    async with showing(source=source(), view=view) as shown:
        await shown.press("h", "u")
        assert why in shown.keys


async def test_keys_work_only_where_they_are_listed() -> None:
    async with showing() as shown:
        await shown.press("h")
        assert "T:self-test" in shown.keys
        await shown.press("home")
        assert "T:self-test" not in shown.keys
        await shown.press("T", "escape")
        assert shown.health.health.dialog is None
        assert isinstance(shown.source, Own)
        await shown.press("u")
        assert shown.source.asked == 1


async def test_a_refusal_of_smartctl_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    async with showing() as shown:
        await shown.press("h", "T", *"short", "enter")
        end = time.monotonic() + 30
        while "no smartctl at /nowhere/smartctl" not in shown.text:
            assert time.monotonic() < end, shown.text
            await shown.pilot.pause(0.02)
        assert isinstance(shown.source, Own)
        assert shown.source.events == [("action", "sda: no smartctl at /nowhere/smartctl")]
        entries = [json.loads(line) for line in (tmp_path / "iotop-ai/audit.jsonl").read_text().splitlines()]
        assert [line["result"] for line in entries] == ["asked", "no smartctl at /nowhere/smartctl"]


class Asking(Own):
    """A live source with made-up disks, which the real collector reads."""

    def __init__(self, smartctl: Smartctl) -> None:
        super().__init__()
        self.smartctl = str(smartctl.path)
        settings = Settings(smartctl=self.smartctl, smart_interval_s=1.0)
        history = HealthHistory(smartctl.folder / "history", Clock())
        self.collector = SmartCollector(Root(str(smartctl.tree)), Clock(), settings, 10.0, history)

    def refresh_smart(self) -> None:
        self.collector.refresh()

    def frame(self) -> Frame:
        """The machine, with the newest answers of its disks."""
        base = ill()
        table: dict[str, Reading[SmartState]] = dict(self.collector.read())
        return base._replace(snapshot=base.snapshot._replace(smart=base.snapshot.smart._replace(value=table)))


@needs_smartctl
async def test_a_self_test_runs_from_the_screen_to_its_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A typed word starts it, its progress is shown, and its result is in the log. A second one is aborted."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    smartctl = Smartctl(tmp_path)
    smartctl.sata("sda", seconds=6.0)
    source = Asking(smartctl)
    assert source.collector.wait(20)
    try:
        async with showing(source.frame(), source) as shown:

            async def until(*pieces: str) -> str:
                end = time.monotonic() + 30
                while not all(piece in shown.text for piece in pieces):
                    assert time.monotonic() < end, shown.text
                    await shown.frame(source.frame())
                    await shown.pilot.pause(0.1)
                return shown.text

            await shown.press("h", "home")
            while shown.health.health.cursor != "sda":
                await shown.press("down")
            await shown.press("enter")
            assert "none in its log" in shown.text
            await shown.press("T", *"short", "enter")
            await until("short self-test begun")
            assert "Short offline" not in await until("running", "% done")
            text = await until("Short offline", "Completed without error")
            assert "% done" not in text
            smartctl.sata("sda", seconds=1000.0)
            await shown.press("T", *"long", "enter")
            await until("running", "10 % done")
            assert "Type abort, then Enter" in await shown.press("T")
            await shown.press(*"abort", "enter")
            await until("self-test aborted", "Extended offline")
            assert [text for _, text in source.events] == [
                "sda: short self-test begun",
                "sda: long self-test begun",
                "sda: self-test aborted",
            ]
    finally:
        source.collector.close()


async def test_the_result_of_a_self_test_arrives_even_if_the_page_was_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    go = tmp_path / "go"
    source = Own()
    smartctl = tmp_path / "smartctl"
    smartctl.write_text(f"#!/bin/sh\nwhile ! [ -e {go} ]; do sleep 0.02; done\nexit 1\n")
    smartctl.chmod(0o755)
    source.smartctl = str(smartctl)
    async with showing(source=source) as shown:
        await shown.press("h", "T", *"short", "enter")
        await shown.press("escape", "h")
        assert "an earlier self-test command is still running" in await shown.press("T")
        await shown.press("escape", "escape")
        assert not source.events
        go.touch()
        end = time.monotonic() + 20
        while not source.events or not shown.app.main.view.message:
            assert time.monotonic() < end, shown.text
            await shown.pilot.pause(0.02)
        assert next(text for _, text in source.events).startswith("sda: ")
        assert shown.app.main.view.message.startswith("failed: sda: ")


async def test_on_a_paused_screen_no_self_test_starts_on_a_disk_that_is_gone() -> None:
    async with showing() as shown:
        await shown.press("space", "h", "T", *"short")
        frame = shown.app.main.frame
        smart, disks = frame.snapshot.smart, frame.snapshot.disks
        assert smart.value is not None
        assert disks.value is not None
        rest = frame.snapshot._replace(
            smart=smart._replace(value={name: one for name, one in smart.value.items() if name != "sda"}),
            disks=disks._replace(value={key: one for key, one in disks.value.items() if not key.startswith("sda")}),
        )
        await shown.frame(frame._replace(snapshot=rest))
        assert " sda " in shown.text  # the screen shows the old picture
        await shown.press("enter")
        assert shown.app.main.view.message == "failed: sda is gone"


@pytest.mark.parametrize("changed", ["diskseq", "serial", "smart_serial", "smart_wwn"])
async def test_no_self_test_starts_on_another_disk_that_has_taken_the_name(changed: str) -> None:
    first = with_identity(ill())
    async with showing(first) as shown:
        await shown.press("h", "T", *"short")
        assert "another disk" not in shown.text
        await shown.frame(with_identity(ill(), **{changed: "other"}))
        assert "sda is another disk now" in shown.text
        await shown.press("enter")
        assert shown.app.main.view.message == "failed: sda is another disk now, or was reconnected"
        assert shown.health.health.dialog is None
        assert isinstance(shown.source, Own)
        assert (shown.source.events, shown.source.asked) == ([], 0)


async def test_a_self_test_of_the_same_disk_is_not_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk stays the same one while a part of its identity is unknown for a moment."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    async with showing(with_identity(ill())) as shown:
        await shown.press("h", "T", *"short")
        await shown.frame(with_identity(ill(), serial="", smart_wwn=""))
        await shown.press("enter")
        end = time.monotonic() + 30
        while "no smartctl at /nowhere/smartctl" not in shown.text:
            assert time.monotonic() < end, shown.text
            await shown.pilot.pause(0.02)


def with_identity(frame: Frame, **changed: str) -> Frame:
    """The Frame with everything that distinguishes sda from another disk. changed: the parts that differ."""
    identity = {"serial": "Z1", "smart_serial": "ZC1A7F4K", "smart_wwn": "5000c500", **changed}
    snapshot = frame.snapshot
    assert snapshot.block.value is not None
    assert snapshot.disks.value is not None
    assert snapshot.smart.value is not None
    block = {
        key._replace(diskseq=9) if key.name == "sda" and "diskseq" in changed else key: counters
        for key, counters in snapshot.block.value.items()
    }
    disks = {**snapshot.disks.value, "sda": snapshot.disks.value["sda"]._replace(serial=identity["serial"])}
    reading = snapshot.smart.value["sda"]
    assert reading.value is not None
    state = reading.value._replace(serial=identity["smart_serial"], wwn=identity["smart_wwn"])
    smart = {**snapshot.smart.value, "sda": reading._replace(value=state)}
    return frame._replace(
        snapshot=snapshot._replace(
            block=snapshot.block._replace(value=block),
            disks=snapshot.disks._replace(value=disks),
            smart=snapshot.smart._replace(value=smart),
        )
    )


@needs_smartctl
async def test_a_smartctl_that_hangs_does_not_block_the_screen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    smartctl = Smartctl(tmp_path)
    smartctl.sata("sda")
    source = Asking(smartctl)
    assert source.collector.wait(20)
    hanging = tmp_path / "hanging"
    hanging.write_text("#!/bin/sh\nsleep 600\n")
    hanging.chmod(0o755)
    source.smartctl = str(hanging)
    try:
        async with showing(source.frame(), source) as shown:
            await shown.press("h", "home")
            while shown.health.health.cursor != "sda":
                await shown.press("down")
            await shown.press("T", *"short", "enter")
            began = time.monotonic()
            await shown.press("enter", "escape", "up", "down")
            assert time.monotonic() - began < 20  # the disk would answer only after 600 s
            assert "an earlier self-test command is still running" in await shown.press("T")
    finally:
        source.collector.close()
