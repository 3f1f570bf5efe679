"""The step logs of real trainers, and files that only look like a log."""

from __future__ import annotations

import json
import os
import struct
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotop_ai.model.errors import InputError
from iotop_ai.model.parse import parse_moment_ns
from iotop_ai.sources.imports import common
from iotop_ai.sources.imports.step_log import EVENTS, PRINTED, STATE, StepPoint, StepSeries, read_step_log

AT = parse_moment_ns("2026-11-22 20:41:03.120")


def read(tmp_path: Path, text: str | bytes, name: str = "train.log") -> tuple[str, tuple[StepPoint, ...], float | None]:
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    found = read_step_log(str(path))
    return found.kind, found.points, found.per_s


@pytest.mark.parametrize(
    ("line", "point"),
    [
        ("2026-11-22 20:41:03,120 step 40 loss 0.512", StepPoint(40, AT)),
        ("[2026-11-22 20:41:03.120] Epoch 1 | Step: 40/900 | loss 0.5", StepPoint(40, AT)),
        ("2026-11-22T20:41:03.120 INFO iteration 40: lm loss 4.2", StepPoint(40, AT)),
        ("global_step=40, lr=0.1", StepPoint(40, None)),
        ("2026-11-22 20:41:03.120 step 1,234,500 loss 0.5", StepPoint(1_234_500, AT)),
        ("step 40,123,4 loss", StepPoint(40, None)),
        ("step=40,1000", StepPoint(40, None)),
        ("step 40.", StepPoint(40, None)),
        ("step 0.5 s, batch 12.7 ms, batch 1,234.5 ms, iter 40", StepPoint(40, None)),
        ('{"": "x"}\nstep 40', StepPoint(40, None)),
        ("Epoch: [0][ 40/1563]  batch 40  Time 0.3", StepPoint(40, None)),
        ('{"step": 40, "timestamp": 1795379263.12, "loss": 1}', StepPoint(40, 1795379263120000000)),
        ('{"loss": 1, "global_step": 40, "ts": "2026-11-22 20:41:03.120"}', StepPoint(40, AT)),
        (" 45%|####5     | 450/1000 [02:30<03:03,  3.02it/s]", StepPoint(450, None, 150.0, "1000")),
        ("train: 12/? [1:00:05<?, 2.00it/s, loss=1]", StepPoint(12, None, 3605.0, "?")),
    ],
)
def test_a_line_of_each_form_is_parsed(line: str, point: StepPoint, tmp_path: Path) -> None:
    kind, (found,), per_s = read(tmp_path, f"starting\n{line}\ndone in 3 s\n")
    assert (kind, found._replace(series=point.series), per_s) == (PRINTED, point, None)


@pytest.mark.parametrize(
    ("line", "series"),
    [
        ("Epoch 1 | Step: 40/900 | val loss 0.5", StepSeries(keyword="step")),
        ("validation batch 5", StepSeries(False, keyword="batch")),
        ("[Eval] iter 5", StepSeries(False, keyword="iter")),
        ("evaluator ready, step 5", StepSeries(keyword="step")),
        ("[rank 3] step 5", StepSeries(rank="3", keyword="step")),
        ("LOCAL_RANK=1 global_step=5 rank 7", StepSeries(rank="1", keyword="global_step")),
        ("[default2]:step 5", StepSeries(rank="2", keyword="step")),
        ("[default2]: 45%|####5     | 450/1000 [02:30<03:03,  3.02it/s]", StepSeries(rank="2")),
        ('{"rank": 2, "iteration": 5}', StepSeries(rank="2", keyword="iteration")),
        ('{"phase": "val", "batch": 5}', StepSeries(False, keyword="batch")),
    ],
)
def test_the_rank_the_phase_and_the_keyword_of_a_step_are_parsed(line: str, series: StepSeries, tmp_path: Path) -> None:
    (point,) = read(tmp_path, line)[1]
    assert point.series == series


def test_a_line_about_an_evaluation_belongs_to_the_next_step(tmp_path: Path) -> None:
    lines = ("step 1", "step 2", "evaluator ready", "step 3", "{'eval_loss': 0.5}", "step 4", "step 5 val_loss 1")
    points = read(tmp_path, "\n".join(lines))[1]
    assert [point.step for point in points if point.after_evaluation] == [4, 5]


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("berlin")
def test_the_hour_that_occurs_twice_at_the_end_of_summer_time_is_read_in_order(tmp_path: Path) -> None:
    lines = [f"2026-10-25 {at} step 1" for at in ("02:58:30", "02:59:30", "02:00:30", "02:01:30")]
    lines.append('{"step": 1, "timestamp": "2026-10-25 02:02:30"}')
    lines.append("2026-10-25T01:03:30Z step 1")
    points = read(tmp_path, "\n".join(lines))[1]
    begin_ns = parse_moment_ns("2026-10-25T00:58:30Z")
    assert [((point.wall_ns or 0) - begin_ns) // 10**9 for point in points] == [0, 60, 120, 180, 240, 300]


def test_a_progress_bar_that_overwrites_its_line_is_parsed(tmp_path: Path) -> None:
    _, points, _ = read(tmp_path, "  1/9 [00:01<00:08, 1it/s]\r  2/9 [00:02<00:07, 1it/s]\r\n")
    assert points == (StepPoint(1, None, 1.0, "9"), StepPoint(2, None, 2.0, "9"))


def test_the_state_of_a_huggingface_trainer_is_parsed(tmp_path: Path) -> None:
    state = {
        "global_step": 60,
        "log_history": [
            {"loss": 1.0, "step": 20, "epoch": 1.0},
            {"loss": 0.9, "step": 40},
            {"train_runtime": 12.0, "train_steps_per_second": 5.0, "step": 60},
        ],
    }
    points = tuple(StepPoint(step, None) for step in (20, 40, 60, 60))
    assert read(tmp_path, json.dumps(state, indent=2), "trainer_state.json") == (STATE, points, 5.0)
    assert read(tmp_path, json.dumps(state), "saved.json") == (STATE, points, 5.0)


@pytest.mark.parametrize("rate", ["1e999", "1" + "0" * 400, "-1", "NaN", '"fast"', "true"])
def test_an_invalid_rate_is_left_out(rate: str, tmp_path: Path) -> None:
    state = '{"log_history": [{"step": 60, "train_steps_per_second": ' + rate + "}]}"
    assert read(tmp_path, state, "trainer_state.json")[2] is None


def test_a_progress_bar_with_an_impossible_time_is_ignored(tmp_path: Path) -> None:
    (point,) = read(tmp_path, "step 1\n12/20 [99999999:00:05<?, 2.00it/s]\n")[1]
    assert point.step == 1


def varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
    return out + bytes([value])


def record(data: bytes) -> bytes:
    """A TFRecord, whose checksums are not read."""
    return struct.pack("<QI", len(data), zlib.crc32(data)) + data + b"crc4"


def event(wall_s: float, step: int, tag: bytes = b"loss") -> bytes:
    value = b"\x0a" + varint(len(tag)) + tag + b"\x15\x00\x00\x80\x3f"
    summary = b"\x0a" + varint(len(value)) + value
    head = b"\x09" + struct.pack("<d", wall_s) + b"\x10" + varint(step)
    return record(head + b"\x2a" + varint(len(summary)) + summary)


FIRST = record(b"\x09" + struct.pack("<d", 1795379000.0) + b"\x1a\x0dbrain.Event:2")


def test_a_tensorboard_event_file_is_parsed(tmp_path: Path) -> None:
    data = FIRST + event(1795379263.5, 40) + event(1795379264.5, 300)
    wanted = (StepPoint(40, 1795379263500000000), StepPoint(300, 1795379264500000000))
    assert read(tmp_path, data) == (EVENTS, wanted, None)
    assert read(tmp_path, data[:-7]) == (EVENTS, wanted[:1], None)
    (evaluated,) = read(tmp_path, FIRST + event(1795379263.5, 40, b"eval/loss"))[1]
    assert evaluated == wanted[0]._replace(after_evaluation=True)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no steps here\n" * 50,
        b'{"log_history": 3}',
        b'{"log_history": [',
        FIRST,
        FIRST + struct.pack("<QI", 1 << 60, 0),
        FIRST + record(b"\x2a\xff\xff\xff\xff\x0f"),
        FIRST + record(b"\x80" * 40),
        b"\x00" * 4096,
    ],
)
def test_a_file_without_steps_is_refused(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=str(tmp_path)):
        read(tmp_path, data)


@pytest.mark.parametrize("entry", [b"{}", b"[]", b'"ab"'])
def test_a_state_of_too_many_values_is_not_parsed(
    entry: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(common, "MOST_VALUES", 10_000)
    path = tmp_path / STATE
    path.write_bytes(b'{"log_history": [' + b",".join([entry] * 100_000) + b"]}")
    with pytest.raises(InputError, match="more than 10000 values in its JSON"):
        read_step_log(str(path))


def test_a_fifo_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, error in (("pipe", "not a regular file"), ("none", "No such file")):
        with pytest.raises(InputError, match=error):
            read_step_log(str(tmp_path / name))


@given(st.binary(max_size=300))
def test_any_bytes_are_read_as_a_log_or_refused_with_an_input_error(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    folder = tmp_path_factory.mktemp("log")
    for begin in (b"", FIRST):
        try:
            found = read(folder, begin + data)
        except InputError:
            continue
        assert all(point.step >= 0 for point in found[1])
