from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from iotop_ai.cli.commands.record.options import RecordOptions
from iotop_ai.cli.commands.record.output import Output
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.model.errors import UsageError
from iotop_ai.model.settings import Settings
from iotop_ai.pipeline import frames
from iotop_ai.present.text.units import size
from iotop_ai.store.write import rotation
from iotop_ai.store.write.recorder import SYNC_S, Rotation
from iotop_ai.store.write.retries import LONGEST_PAUSE_S
from iotop_ai.store.write.sink import FileSink
from tests.clocks import ShiftedClock
from tests.store.scenario import session
from tests.store.write.test_recorder_failing import put


class StoppedClock(Clock):
    """A clock whose wall time is always the same."""

    def wall_ns(self) -> int:
        return 1_795_262_400 * 10**9


def record_options(output: str, *, append: bool = False) -> RecordOptions:
    return RecordOptions(
        Settings(),
        output,
        append,
        "",
        None,
        Rotation(),
        None,
        (),
        min_free_bytes=0,
        burst_s=None,
        command=(),
    )


def output_of(options: RecordOptions, clock: Clock | None = None, messages: list[str] | None = None) -> Output:
    say = (lambda text: None) if messages is None else messages.append
    return Output(options, clock or StoppedClock(), say, lambda: None)


@pytest.mark.parametrize("append", [False, True])
def test_without_a_name_recordings_of_the_same_second_get_different_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, append: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    outputs = [output_of(record_options("", append=append)) for _ in range(3)]
    first, second, third = (output.path for output in outputs)
    stem = first.removesuffix(".iotop.jsonl")
    assert (second, third) == (f"{stem}-2.iotop.jsonl", f"{stem}-3.iotop.jsonl")
    assert all(os.path.exists(output.path) for output in outputs)
    for output in outputs:
        output.close()


def test_a_given_name_that_exists_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").touch()
    with pytest.raises(UsageError, match="exists"):
        output_of(record_options(str(tmp_path / "run")))


def test_an_empty_file_that_cannot_be_removed_is_left(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    output = output_of(record_options(str(folder / "run")))
    (folder / "run").unlink()
    folder.rmdir()
    folder.write_text("")  # this makes the removal fail, as on a filesystem that became read-only
    output.close()
    assert folder.is_file()


def test_a_deleted_file_is_reported_and_begun_again(tmp_path: Path) -> None:
    live = list(frames(session(3, 8)))
    path, clock = tmp_path / "run", ShiftedClock()
    messages: list[str] = []
    output = output_of(record_options(str(path)), clock, messages)
    put(output._recorder, live[:3])
    path.unlink()
    clock.skip(SYNC_S + 1)
    put(output._recorder, live[3:])
    output.close()
    # A summary would give the new file the time of the deleted one.
    assert messages == [f"{path} was deleted; continuing in {path}"]
    assert path.exists()


def test_no_summary_names_a_file_that_was_deleted(tmp_path: Path) -> None:
    path = tmp_path / "run"
    messages: list[str] = []
    output = output_of(record_options(str(path)), Clock(), messages)
    put(output._recorder, list(frames(session(3, 3))))
    path.unlink()
    output.close()
    assert messages == ["no longer recording: the file was deleted"]
    assert output.error_text == messages[0]


def test_the_summary_does_not_name_a_new_file_that_stayed_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(sink: FileSink, data: bytes) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    live = list(frames(session(3, 12)))
    path, clock = tmp_path / "run.iotop.jsonl", ShiftedClock()
    messages: list[str] = []
    output = output_of(record_options(str(path)), clock, messages)
    put(output._recorder, live[:3])
    monkeypatch.setattr(FileSink, "write", fail)
    for frame in live[3:]:
        put(output._recorder, [frame])
        clock.skip(LONGEST_PAUSE_S)
    output.close()
    assert messages == [
        "not recording: Input/output error",
        f"{path} cannot be written; continuing in {tmp_path / 'run-2.iotop.jsonl'}",
        f"9 min, {size(path.stat().st_size)} in {path}; 9 snapshots missing",
    ]
    assert os.listdir(tmp_path) == [path.name]


def test_a_wait_for_packing_is_reported_and_can_be_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rotation, "own_python", lambda *arguments: ["/bin/sleep", "60"])
    messages: list[str] = []

    def say(text: str) -> None:
        messages.append(text)
        if text.startswith("packing"):
            output.stop_waiting()  # as a second Ctrl-C does

    options = record_options(str(tmp_path / "run.iotop.jsonl"))._replace(rotation=Rotation(bytes=1))
    output = Output(options, StoppedClock(), say, lambda: None)
    put(output._recorder, list(frames(session(3, 2))))
    output.close()
    part = "run.20261121T120000.iotop.jsonl"
    assert messages == [f"packing {part}; Ctrl-C leaves it unpacked", f"{part} could not be packed and stays as it is"]
    assert (tmp_path / part).exists()
