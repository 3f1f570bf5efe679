"""The file for node_exporter is written on a thread of its own."""

from __future__ import annotations

import threading
from itertools import islice
from pathlib import Path

import pytest

from iotop_ai.cli.commands.serve.command import ServeSession
from iotop_ai.cli.commands.serve.options import serve_options
from iotop_ai.cli.main import build_parser
from iotop_ai.export.prometheus.textfile import Textfile
from iotop_ai.model.frame import Frame
from tests.bench.scrape import session
from tests.rigs.threads import no_thread
from tests.waiting import until


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lines that ``serve`` has written."""
    lines: list[str] = []
    monkeypatch.setattr("iotop_ai.cli.commands.serve.command.say", lines.append)
    return lines


def serve_session(path: Path) -> ServeSession:
    argv = ["serve", "--textfile", str(path), "--no-smart"]
    return ServeSession(serve_options(build_parser(argv).parse_args(argv)))


def test_a_filesystem_that_hangs_does_not_hold_up_the_metrics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, printed: list[str]
) -> None:
    hangs, answers = threading.Event(), threading.Event()

    def put(self: Textfile, frame: Frame) -> bool:
        hangs.set()
        return answers.wait(60)

    monkeypatch.setattr(Textfile, "put", put)
    served, path = serve_session(tmp_path / "iotop.prom"), tmp_path / "iotop.prom"
    assert served._textfile is not None
    served._textfile.start()
    frames = list(session(25))

    def publish() -> None:
        served._publish(frames[0])
        assert hangs.wait(60)
        for frame in frames[1:]:
            served._publish(frame)

    thread = threading.Thread(target=publish, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive(), "the loop of serve hangs"
    assert served._scrape._frame is frames[-1]
    assert printed == [f"--textfile: {path}: the filesystem does not answer"]
    answers.set()
    until(lambda: len(printed) == 2, "the end of the error")
    assert printed[1] == f"writing {path} again"
    served._textfile.close()


def test_an_error_is_reported_once(tmp_path: Path, printed: list[str]) -> None:
    path = tmp_path / "later" / "iotop.prom"
    path.parent.mkdir()
    served = serve_session(path)
    thread = served._textfile
    assert thread is not None
    thread.start()
    path.parent.rmdir()
    frames = session(60)

    def publish(frame: Frame) -> None:
        """A Frame is a second, so a thread that does not get to run for some Frames seems not to answer."""
        served._publish(frame)
        until(lambda: (thread._frame, thread._writing_since_ns) == (None, None), "the end of the attempt")

    for frame in islice(frames, 30):
        publish(frame)
    assert len(printed) == 1
    assert printed[0].startswith("--textfile: ")
    assert printed[0].endswith("iotop.prom: No such file or directory")
    path.parent.mkdir()
    for frame in frames:
        publish(frame)
    until(lambda: len(printed) == 2, "the end of the error")
    assert printed[1] == f"writing {path} again"
    assert path.exists()
    thread.close()
    assert not path.exists()


def test_a_thread_that_cannot_start_is_reported_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, printed: list[str]
) -> None:
    served = serve_session(tmp_path / "iotop.prom")
    monkeypatch.setattr(threading.Thread, "start", no_thread)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        served.run()
    assert printed == []
