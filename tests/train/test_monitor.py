"""The recorder that a training process starts: a real child that records, answers, and ends with the process."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import iotop_ai
from iotop_ai.export.tables.recording import Recording
from iotop_ai.model.errors import UnknownError
from iotop_ai.train import steps
from iotop_ai.train.monitor import Monitor, MonitorWarning
from iotop_ai.train.program import program
from iotop_ai.train.recorder import Recorder

pytestmark = pytest.mark.xdist_group("marks")  # the group is shared because a mark reaches every monitor of the user

TOP = Path(iotop_ai.__file__).parent.parent


@pytest.fixture(autouse=True)
def own_runtime_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.delenv("IOTOP_AI_SOCKET", raising=False)


def slow(count: int, seconds: float) -> Iterator[int]:
    for i in range(count):
        time.sleep(seconds)
        yield i


def eventually(condition: Callable[[], bool], seconds: float = 60) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


def is_closed(path: Path) -> bool:
    """Whether the recording was closed properly."""
    return path.read_text().rpartition("\n{")[2].startswith('"k":"end"')


def loaded(path: Path) -> Recording:
    return iotop_ai.load(path, allow_root=True)  # type: ignore[attr-defined,no-any-return]


def test_a_run_is_recorded_with_its_marks_and_steps(tmp_path: Path) -> None:
    path = tmp_path / "run.iotop.jsonl"
    before = steps.COUNTER.batches
    with Monitor(path, interval=0.2) as m:
        for batch in m.watch(slow(20, 0.05)):
            m.step()
            if batch == 10:
                m.mark("half")
        verdict = m.verdict(wait=60)
        assert verdict is not None
        assert str(verdict).startswith(verdict.state)
        assert m.error == ""
    recording = loaded(path)
    assert [row["text"] for row in recording.marks] == ["half"]
    last = [row for row in recording.steps if row["pid"] == os.getpid()][-1]
    assert last["batches"] == before + 20
    assert any(row["device"] for row in recording.devices)
    assert is_closed(path)
    assert m.verdict() == m.verdict(wait=0) is not None, "the last verdict did not stay"


def test_an_existing_file_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "run.iotop.jsonl"
    path.write_text("mine")
    with Monitor(path, interval=0.2) as m:
        m.verdict(wait=60)
    assert path.read_text() == "mine"
    assert m.path == str(tmp_path / "run-2.iotop.jsonl")
    assert len(loaded(Path(m.path)).system) > 0


def test_monitors_that_begin_at_the_same_time_all_record(tmp_path: Path) -> None:
    monitors = [Monitor(tmp_path / "run.iotop.jsonl", interval=0.2) for _ in range(3)]
    for m in monitors:
        m.start()
    for m in monitors:
        assert m.verdict(wait=60) is not None
        m.stop()
    assert [m.error for m in monitors] == [""] * 3
    assert {Path(m.path).name for m in monitors} == {f"run{n}.iotop.jsonl" for n in ("", "-2", "-3")}
    assert all(is_closed(Path(m.path)) for m in monitors)


def test_a_second_run_of_a_monitor_begins_without_the_answers_of_the_first(tmp_path: Path) -> None:
    m = Monitor(tmp_path / "run.iotop.jsonl", interval=0.2)
    with m:
        assert m.verdict(wait=60) is not None
    m.error = "the recorder has ended"
    with m:
        assert (m.verdict(wait=0), m.error) == (None, "")
    assert m.path == str(tmp_path / "run-2.iotop.jsonl")


@pytest.mark.parametrize("path", [None, "run.iotop.jsonl", "/tmp/a\0b"], ids=["default", "relative", "not a path"])
def test_an_impossible_path_gives_a_warning(path: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with Monitor(path) as m:
            m.verdict(wait=60)
    assert ("embedded null byte" if path and "\0" in path else "the current folder: No such file") in m.error
    assert [one.category for one in caught] == [MonitorWarning]


def test_a_warning_does_not_need_standard_error() -> None:
    code = """
import sys, iotop_ai
sys.stderr.close()
with iotop_ai.Monitor(program="/no-such-program") as m:
    print(m.error)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=TOP, capture_output=True, text=True, check=True)
    assert "no-such-program" in done.stdout


def test_a_decorated_function_is_recorded(tmp_path: Path) -> None:
    @iotop_ai.monitored(tmp_path / "run.iotop.jsonl", interval=0.2)
    def train(count: int) -> int:
        """Trains."""
        iotop_ai.mark("within")
        return count + 1

    assert (train(2), train.__doc__) == (3, "Trains.")
    assert [row["text"] for row in loaded(tmp_path / "run.iotop.jsonl").marks] == ["within"]


async def coroutine() -> int:
    await asyncio.sleep(0)
    iotop_ai.mark("within")
    return 3


def generator() -> Iterator[int]:
    yield 1
    iotop_ai.mark("within")
    yield 2


async def async_generator() -> AsyncIterator[int]:
    yield 1
    iotop_ai.mark("within")


async def items(all_items: AsyncIterator[int]) -> list[int]:
    return [item async for item in all_items]


@pytest.mark.parametrize(
    ("function", "run", "wanted"),
    [
        (coroutine, asyncio.run, 3),
        (generator, list, [1, 2]),
        (async_generator, lambda found: asyncio.run(items(found)), [1]),
    ],
    ids=["a coroutine", "a generator", "an asynchronous generator"],
)
def test_functions_that_run_later_are_recorded(
    function: Callable[[], Any], run: Callable[[Any], Any], wanted: object, tmp_path: Path
) -> None:
    monitored = iotop_ai.monitored(tmp_path / "run.iotop.jsonl", interval=0.2)(function)
    assert run(monitored()) == wanted
    assert [row["text"] for row in loaded(tmp_path / "run.iotop.jsonl").marks] == ["within"]


async def answering() -> AsyncGenerator[str, str]:
    try:
        answer = yield "first"
        try:
            answer = yield answer
        except KeyError as error:
            answer = yield f"caught {error}"
        yield answer
    finally:
        await asyncio.sleep(0.01)
        iotop_ai.mark("closed")


@pytest.mark.parametrize("ends", ["closed", "exhausted", "the loop ends"])
def test_an_asynchronous_generator_gets_sent_values_and_closes_before_its_recording(ends: str, tmp_path: Path) -> None:
    async def drive() -> list[str]:
        found = iotop_ai.monitored(tmp_path / "run.iotop.jsonl", interval=0.2)(answering)()
        out = [await anext(found), await found.asend("a"), await found.athrow(KeyError("b")), await found.asend("c")]
        if ends == "closed":
            await found.aclose()
        elif ends == "exhausted":
            out += [one async for one in found]
        else:
            kept.append(found)
            asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
        return out

    kept: list[Any] = []
    errors: list[Any] = []
    assert asyncio.run(drive()) == ["first", "a", "caught 'b'", "c"]
    assert errors == []
    assert [row["text"] for row in loaded(tmp_path / "run.iotop.jsonl").marks] == ["closed"]


def test_a_generator_that_is_not_exhausted_ends_its_recording_without_an_error(tmp_path: Path) -> None:
    for item in iotop_ai.monitored(tmp_path / "run.iotop.jsonl", interval=0.2)(generator)():
        assert item == 1
        break
    assert eventually(lambda: is_closed(tmp_path / "run.iotop.jsonl"))
    assert list(loaded(tmp_path / "run.iotop.jsonl").marks) == []


def test_a_forked_child_leaves_the_answers_to_its_parent(tmp_path: Path) -> None:
    with Monitor(tmp_path / "run.iotop.jsonl", interval=0.2) as m:
        m.verdict(wait=60)
        asked = m._recorder and m._recorder._requests
        child = os.fork()
        if not child:
            status = 1
            try:
                status = m.verdict(wait=60) is None or (m._recorder and m._recorder._requests) != asked
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0


def test_an_error_of_the_training_is_marked_and_raised(tmp_path: Path) -> None:
    @iotop_ai.monitored(tmp_path / "run.iotop.jsonl", interval=0.2)  # type: ignore[attr-defined,untyped-decorator]
    def train() -> None:
        raise ValueError("loss is nan")

    with pytest.raises(ValueError, match="nan"):
        train()
    assert [row["text"] for row in loaded(tmp_path / "run.iotop.jsonl").marks] == ["ended by ValueError"]


@pytest.mark.parametrize("holder", ["alone", "a forked child holds the pipe"])
def test_the_recorder_ends_when_the_trainer_is_killed(tmp_path: Path, holder: str) -> None:
    path = tmp_path / "run.iotop.jsonl"
    forks = "os.fork() or (signal.pause(), os._exit(0))" if holder != "alone" else "None"
    code = f"""
import os, signal, sys
import iotop_ai
m = iotop_ai.Monitor({str(path)!r}, interval=0.2)
m.start()
m.verdict(wait=60)
child = {forks}
print(m._recorder.pid, child or 0, flush=True)
signal.pause()
"""
    trainer = subprocess.Popen([sys.executable, "-c", code], cwd=TOP, stdout=subprocess.PIPE, text=True)
    assert trainer.stdout is not None
    recorder, child = map(int, trainer.stdout.readline().split())
    trainer.kill()
    trainer.wait()
    try:
        assert eventually(lambda: is_closed(path))
        assert eventually(lambda: not os.path.exists(f"/proc/{recorder}") or state(recorder) == "Z")
    finally:
        if child:
            os.kill(child, signal.SIGKILL)
        trainer.stdout.close()


def state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][:1]
    except (FileNotFoundError, ProcessLookupError):
        return "Z"


def test_the_recording_ends_although_a_forked_worker_has_the_pipe_open(tmp_path: Path) -> None:
    with Monitor(tmp_path / "run.iotop.jsonl", interval=0.2) as m:
        m.verdict(wait=60)
        worker = os.fork()
        if not worker:
            try:
                signal.pause()
            finally:
                os._exit(0)
        began = time.monotonic()
    took = time.monotonic() - began
    os.kill(worker, signal.SIGKILL)
    os.waitpid(worker, 0)
    assert m.error == ""
    assert took < 20, "the end of the recording took too long"


def test_a_mark_of_a_forked_child_is_recorded(tmp_path: Path) -> None:
    path = tmp_path / "run.iotop.jsonl"
    with Monitor(path, interval=0.2) as m:
        m.verdict(wait=60)
        child = os.fork()
        if not child:
            try:
                iotop_ai.mark("of the child")
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        m.mark("of the parent")
        assert eventually(lambda: path.read_text().count('"text":"of the') == 2, seconds=20)
    assert {row["text"] for row in loaded(path).marks} == {"of the child", "of the parent"}


def test_only_the_first_rank_of_a_machine_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_RANK", "1")
    with Monitor(tmp_path / "run.iotop.jsonl") as m:
        assert m.verdict() is None
        assert m.breakdown() is None
    assert list(tmp_path.iterdir()) == []


def test_the_recording_can_be_switched_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IOTOP_AI", "0")
    with Monitor(tmp_path / "run.iotop.jsonl") as m:
        assert m.verdict() is None
    assert list(tmp_path.iterdir()) == []


def test_a_training_continues_without_its_recorder(tmp_path: Path) -> None:
    m = Monitor(program="/no-such-program")
    with pytest.warns(MonitorWarning, match="no-such-program"):
        m.start()
    m.step()
    m.mark("epoch 1")
    assert m.verdict() is None
    m.stop()
    assert "no-such-program" in m.error
    m = Monitor(tmp_path / "no/folder/x.iotop.jsonl")
    m.start()
    with pytest.warns(MonitorWarning, match="No such file"):
        assert m.verdict(wait=60) is None
    m.stop()
    assert m.error.startswith("input: ")


ODD_ANSWERS = (
    '{"kind": "status", "verdict": {"state": "OK"}}',
    '{"kind": "status", "verdict": "OK", "time": "x", "measured": 3, "path": ["x"]}',
    '{"kind": "status", "verdict": [1], "time": {"compute": "x"}, "path": {"a": 1}}',
    '{"kind": "status", "verdict": {"state": 1, "class": [], "text": {}, "because": 2, "do": 3}, "time": [1]}',
    '{"kind": "status", "time": {"compute": 1.0}, "time_s": [2], "verdict": {"lost_ratio": 1' + "0" * 400 + "}}",
    '{"kind": ["status"]}',
    "[" * 100_000,
    "[]",
)
"""Answers of a recorder of another version, or of another program."""


@pytest.mark.parametrize("answer", ODD_ANSWERS, ids=range(len(ODD_ANSWERS)))
def test_an_answer_of_another_form_gives_none(tmp_path: Path, answer: str) -> None:
    recorder = tmp_path / "iotop-ai"
    then = "" if '"status",' in answer else 'echo \'{"kind": "status"}\''
    recorder.write_text(
        f'#!/bin/sh\necho \'{{"kind": "ready"}}\'\nwhile read -r line; do\n'
        f"  case $line in *end*) exit 0;; esac\n  echo '{answer}'; {then}\ndone\n"
    )
    recorder.chmod(0o755)
    m = Monitor(tmp_path / "x.iotop.jsonl", program=str(recorder))
    m.start()
    assert m.error == ""
    for _ in range(3):
        assert m.verdict(wait=10) is None
        assert m.breakdown(wait=10) is None
    m.stop()
    assert m.path == str(tmp_path / "x.iotop.jsonl")


@pytest.mark.filterwarnings("error")
def test_a_training_continues_even_if_warnings_are_errors() -> None:
    with Monitor(program="/no-such-program") as m:
        m.step()
    assert "no-such-program" in m.error


def test_a_warning_points_to_the_line_that_uses_the_monitor() -> None:
    @iotop_ai.monitored(program="/no-such-program")  # type: ignore[attr-defined,untyped-decorator]
    def train() -> None: ...

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with Monitor(program="/no-such-program"):
            pass
        train()
    assert [one.filename for one in caught] == [__file__] * 2


def test_an_invalid_flag_is_reported(tmp_path: Path) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for options in (["--no-such-flag"], "--device 'a b' --no-such-flag"):
            with Monitor(tmp_path / "run.iotop.jsonl", options=options) as m:
                m.verdict(wait=60)
            assert m.error.startswith("usage: unrecognized arguments: --no-such-flag")
        with Monitor(options="'open") as m:
            assert m.error == "No closing quotation"
    assert len(caught) == 3


def test_the_program_is_run_by_this_python_unless_another_one_is_named(tmp_path: Path) -> None:
    assert program("", {})[:1] == [sys.executable]
    own = tmp_path / "iotop-ai"
    own.write_text("#!/bin/sh\n")
    own.chmod(0o755)
    assert program("", {"IOTOP_AI_PROGRAM": str(own)}) == [str(own)]
    assert program(str(own), {"IOTOP_AI_PROGRAM": "/other"}) == [str(own)]
    for other in ("iotop-ai", str(tmp_path)):
        with pytest.raises(UnknownError, match="is not the absolute path of a program"):
            program(other, {})


def test_a_missing_program_is_explained_in_an_embedded_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(UnknownError, match="is not found, and this Python does not know its own path"):
        program("", {"PATH": str(tmp_path)})


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_root_does_not_start_a_program_that_another_user_named(tmp_path: Path) -> None:
    own = tmp_path / "iotop-ai"
    own.write_text("#!/bin/sh\n")
    own.chmod(0o777)
    with pytest.raises(UnknownError, match="not started as root"):
        program("", {"IOTOP_AI_PROGRAM": str(own), "SUDO_UID": "1000"})


ANSWERS = """
import json, sys
print('{"kind":"ready"}', flush=True)
for line in sys.stdin:
    if json.loads(line)["kind"] == "status":
        print('{"kind":"status","path":"x"}', flush=True)
"""


INTERRUPTS = """
import os, signal, sys, time
sys.stdin.read()
os.kill(os.getppid(), signal.SIGINT)
time.sleep(0.5)
"""


def test_an_interrupted_end_does_not_leave_a_zombie() -> None:
    recorder = Recorder([sys.executable, "-c", INTERRUPTS])
    with pytest.raises(KeyboardInterrupt):
        recorder.end(20)
    assert eventually(lambda: not os.path.exists(f"/proc/{recorder.pid}"))


def test_waiting_takes_no_cpu_if_standard_error_is_closed() -> None:
    recorder = Recorder([sys.executable, "-c", "import os, time; os.close(2); time.sleep(60)"])
    try:
        before = time.thread_time()
        recorder.ask(1.0)
        assert time.thread_time() - before < 0.3
        assert not recorder.ended
    finally:
        os.kill(recorder.pid, signal.SIGKILL)
        recorder.end(5)


def test_a_request_that_met_a_full_pipe_is_sent_again() -> None:
    recorder = Recorder([sys.executable, "-c", ANSWERS])

    def answered() -> bool:
        recorder.poll()
        return bool(recorder.status)

    try:
        recorder.ask(20)
        assert recorder.status == {"path": "x"}
        recorder.status = {}
        os.kill(recorder.pid, signal.SIGSTOP)
        for text in ["x" * 100] * 2000 + [""] * 100:
            recorder.send({"kind": text})
        recorder.poll()
        os.kill(recorder.pid, signal.SIGCONT)
        assert eventually(answered, 5)
    finally:
        assert recorder.end(5) == 0
