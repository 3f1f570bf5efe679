"""The controllers of the main screen, without the app of Textual."""

from __future__ import annotations

import re
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from textual.message import Message

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.model.job.records import JobMount
from iotop_ai.playback.session_recording import SessionRecorder
from iotop_ai.present.screen.actions import Action
from iotop_ai.present.screen.palette import Entry, Wording
from iotop_ai.present.screen.view import View
from iotop_ai.store.write.recorder import Recorder
from iotop_ai.store.write.sink import FileSink
from iotop_ai.tui.screens.main.list_actions import OF_THE_JOB, ListActions
from iotop_ai.tui.screens.main.live_updates import LiveUpdates
from iotop_ai.tui.screens.main.recording_actions import RecordingActions, RecordingResult, path_from_home
from iotop_ai.tui.screens.main.state import MainState
from iotop_ai.tui.screens.main.time_actions import NOTHING_YET, TimeActions
from iotop_ai.tui.screens.main.verdict_actions import VerdictActions
from iotop_ai.tui.screens.palette import TakeAction
from iotop_ai.tui.threads.actions import ActionResult, ActionThreads
from tests.diagnosis.build import JOB_ALONE, MB, Disk, last
from tests.diagnosis.job_scenes import DATA_SCENES
from tests.present import make
from tests.rigs.threads import no_thread
from tests.tui.scene import DISKS, made_frames
from tests.tui.test_app import Upstream


class CountingCanvas:
    """A canvas that counts how often it is redrawn."""

    columns = 80

    def __init__(self) -> None:
        self.drawn = 0
        self.messages: list[str] = []

    def redraw(self) -> None:
        self.drawn += 1

    def redraw_if_in_front(self) -> None:
        self.drawn += 1

    def show_change(self, message: str) -> None:
        self.messages.append(message)


FRAMES = made_frames()


@pytest.fixture
def canvas() -> CountingCanvas:
    return CountingCanvas()


@pytest.fixture
def state(canvas: CountingCanvas) -> MainState:
    return MainState(FRAMES[0], View(), canvas)


def test_the_time_controller_pauses_and_sends_the_interval_to_the_source(
    state: MainState, canvas: CountingCanvas
) -> None:
    source = Upstream()
    recording = RecordingActions(state, source, None, lambda message: True)
    time = TimeActions(state, source, recording, lambda: None)
    verdict = VerdictActions(state, ActionThreads(source, lambda message: True), str, lambda text: None)
    live = LiveUpdates(state, source, recording, verdict)
    live.receive(FRAMES[1])
    assert state.frame is FRAMES[1]
    assert canvas.drawn == 1
    time.pause()
    live.receive(FRAMES[2])
    assert (state.frame, state.newest) == (FRAMES[1], FRAMES[2])
    time.pause()
    assert state.frame is FRAMES[2]
    time.change_interval(1)
    assert source.intervals == [state.view.interval_s] == [2.0]
    time.step(-1)
    recording.record()
    assert canvas.messages[-2:] == [NOTHING_YET, "not available: this screen is read-only"]


def test_an_empty_time_begins_no_look_back(state: MainState, canvas: CountingCanvas) -> None:
    source = Upstream()
    begun: list[str] = []
    recording = RecordingActions(state, source, None, lambda message: True)
    time = TimeActions(state, source, recording, lambda: begun.append("look-back"))
    time.ask_time()
    time.type_time("space", " ")
    time.type_time("enter", None)
    assert begun == []
    assert canvas.messages[-1] == ""
    assert state.view.time_input is None


async def test_a_device_is_chosen_from_a_list(state: MainState) -> None:
    opened: list[tuple[tuple[Entry, ...], TakeAction]] = []

    def open_list(entries: tuple[Entry, ...], take: TakeAction, wording: Wording) -> None:
        opened.append((entries, take))

    lists = ListActions(state, open_list)
    lists.open_device_list()
    entries, take = opened[0]
    assert {entry.action.name for entry in entries} > set(DISKS)
    await take(Action((), "", "", DISKS[1]))
    assert state.view.device == DISKS[1]
    lists.find()
    for key in "sdx":
        lists.type_filter(key, key)
    lists.type_filter("backspace", None)
    lists.type_filter("enter", None)
    assert (state.view.pattern, state.view.typing) == ("sd", False)
    lists.clear_filter()
    assert state.view.pattern == ""


def test_a_device_in_the_list_has_its_size_as_on_the_other_screens(canvas: CountingCanvas) -> None:
    machine = make.Machine((make.Disk(make.disk("sda", size_bytes=274_877_906_944)),))
    state = MainState(make.frame(make.snapshots(lambda _: machine, 3)), View(), canvas)
    opened: list[tuple[Entry, ...]] = []
    ListActions(state, lambda entries, *_: opened.append(entries)).open_device_list()
    assert opened[0][-1].action.text.endswith("275 GB")


async def test_the_slow_disk_of_a_job_is_followed(canvas: CountingCanvas) -> None:
    disks = (
        Disk("sda", mount="/tank", fstype="zfs", read_bytes_per_s=12 * MB, await_ms=0.8, busy=0.1),
        Disk("sdb", mount="/tank", fstype="zfs", read_bytes_per_s=36 * MB, await_ms=20.0, busy=0.1),
    )
    assert JOB_ALONE.job is not None
    job = replace(JOB_ALONE.job, mounts=(JobMount("/tank", "zfs", "tank/data", "0:45"),))
    state = MainState(last(replace(JOB_ALONE, disks=disks, job=job)), View(), canvas)
    opened: list[TakeAction] = []
    lists = ListActions(state, lambda _, take, __: opened.append(take))
    lists.open_device_list()
    await opened[0](Action((), "", "", OF_THE_JOB))
    assert (state.view.device, canvas.messages) == ("sdb", ["done: follows the job, now sdb"])


def test_no_disk_is_selected_while_the_followed_job_reads_from_a_network_mount(canvas: CountingCanvas) -> None:
    state = MainState(last(DATA_SCENES["network_fs"]), View(device="sda", follow_job=True), canvas)
    ListActions(state, lambda *_: None).follow_job_device()
    assert (state.view.device, state.view.follow_job) == ("", True)


@pytest.mark.parametrize(
    ("key", "edited"), [("down", "pythonx"), ("f5", "pythonx"), ("left", "pythoxn"), ("home", "xpython")]
)
def test_a_key_that_types_nothing_does_not_replace_the_filter(state: MainState, key: str, edited: str) -> None:
    state.update(pattern="python")
    lists = ListActions(state, lambda *_: None)
    lists.find()
    lists.type_filter(key, None)
    assert (state.view.pattern, state.view.pattern_selected) == ("python", False)
    lists.type_filter("x", "x")
    assert state.view.pattern == edited


@pytest.mark.parametrize("end", ["escape", "enter"])
def test_the_cursor_of_a_time_is_not_that_of_the_filter(state: MainState, end: str) -> None:
    """A time can be asked for while a filter is being typed."""
    state.update(pattern="yython", typing=True)
    times = TimeActions(
        state, Upstream(), RecordingActions(state, Upstream(), None, lambda message: True), lambda: None
    )
    times.ask_time()
    for key in ("1", "4", "left", "left"):
        times.type_time(key, key if len(key) == 1 else None)
    assert state.view.text_right == 2
    times.type_time(end, None)
    ListActions(state, lambda *_: None).type_filter("x", "x")
    assert state.view.pattern == "yythonx"


@pytest.mark.parametrize(
    ("key", "character", "pattern"), [("p", "p", "p"), ("backspace", None, ""), ("ctrl+u", None, "")]
)
def test_a_key_that_types_replaces_the_selected_filter(
    state: MainState, key: str, character: str | None, pattern: str
) -> None:
    state.update(pattern="python")
    lists = ListActions(state, lambda *_: None)
    lists.find()
    lists.type_filter(key, character)
    assert state.view.pattern == pattern


def test_sums_on_a_paused_screen_begin_at_the_frame_that_is_shown(state: MainState) -> None:
    source = Upstream()
    recording = RecordingActions(state, source, None, lambda message: True)
    time = TimeActions(state, source, recording, lambda: None)
    time.pause()
    state.newest = FRAMES[2]
    time.accumulate()
    assert state.view.base is FRAMES[0].snapshot


def test_the_path_of_a_recording_is_absolute_or_begins_at_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert path_from_home("./a.jsonl") == f"{tmp_path}/a.jsonl"
    assert path_from_home("home/a.jsonl") == "~/a.jsonl"
    assert path_from_home(f"{tmp_path}/home2/a.jsonl") == f"{tmp_path}/home2/a.jsonl"
    monkeypatch.setenv("HOME", "/")
    assert path_from_home("/a.jsonl") == "/a.jsonl"


def test_the_last_answer_is_that_of_the_last_key(state: MainState, tmp_path: Path) -> None:
    """The thread of the first key may be slow to send its answer after it began the recording."""
    path = tmp_path / "run.iotop.jsonl"
    session_recorder = SessionRecorder(
        Clock(), record=lambda lines: Recorder(FileSink(str(path)), Clock(), preroll=lines, min_free_bytes=0)
    )
    session_recorder.put(FRAMES[0])
    answers: list[str] = []

    def post(message: Message) -> bool:
        assert isinstance(message, RecordingResult)
        if message.answer.startswith("recording, R stops it: "):
            time.sleep(0.5)
        answers.append(message.answer)
        return True

    recording = RecordingActions(state, Upstream(), session_recorder, post)
    recording.record()
    recording.record()
    for thread in [one for one in threading.enumerate() if one.name == "record"]:
        thread.join(20)
    begun, ended = answers
    assert begun.startswith("recording, R stops it: ")
    assert re.match(r"done: \d+ s, \d+K in ", ended)


def test_the_answer_begins_with_what_happens_and_ends_with_why(state: MainState, tmp_path: Path) -> None:
    path, why = tmp_path / "run.iotop.jsonl", "/tmp is writable by every user"
    session_recorder = SessionRecorder(
        Clock(),
        record=lambda lines: Recorder(FileSink(str(path)), Clock(), preroll=lines, min_free_bytes=0),
        why_other_folder=lambda: why,
    )
    session_recorder.put(FRAMES[0])
    answers: list[str] = []

    def post(message: Message) -> bool:
        assert isinstance(message, RecordingResult)
        answers.append(message.answer)
        return True

    RecordingActions(state, Upstream(), session_recorder, post).record()
    for thread in [one for one in threading.enumerate() if one.name == "record"]:
        thread.join(20)
    session_recorder.close()
    assert answers == [f"recording, R stops it: {path_from_home(str(path))}; {why}"]


def test_keys_say_that_no_thread_can_start(
    state: MainState, canvas: CountingCanvas, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[str] = []

    def post(message: Message) -> bool:
        assert isinstance(message, ActionResult)
        answers.append(message.answer)
        return True

    session_recorder = SessionRecorder(
        Clock(), record=lambda lines: Recorder(FileSink("/nowhere/x"), Clock(), preroll=lines)
    )
    threads = ActionThreads(Upstream(), post)
    monkeypatch.setattr(threading.Thread, "start", no_thread)
    RecordingActions(state, Upstream(), session_recorder, post).record()
    threads.run("drop", lambda: ActionResult("done: never"))
    assert canvas.messages == answers == ["failed: can't start new thread"]
    assert not threads.running("drop")
