"""A monitor of a training process that several threads use at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from iotop_ai.train import steps
from iotop_ai.train.monitor import Monitor
from iotop_ai.train.recorder import Recorder

pytestmark = pytest.mark.xdist_group("marks")  # the group is shared because a mark reaches every monitor of the user


@pytest.fixture(autouse=True)
def own_runtime_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.delenv("IOTOP_AI_SOCKET", raising=False)


def test_several_threads_can_ask_at_the_same_time(tmp_path: Path) -> None:
    answers = []
    with Monitor(tmp_path / "run.iotop.jsonl", interval=0.2) as m:
        m.verdict(wait=60)

        def ask(wait: float) -> None:
            answers.extend(m.verdict(wait) is not None for _ in range(60))

        threads = [threading.Thread(target=ask, args=(wait,)) for wait in (0, 60, 60)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert m.error == ""
    assert answers == [True] * 180


def test_two_threads_can_stop_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Old and free-threaded Pythons may switch threads between any two steps; here they do so at the worst places.
    arrived, checked, errors = threading.Barrier(2), threading.Barrier(2), []

    class Switching(Monitor):
        @property
        def _recorder(self) -> Recorder | None:
            recorder: Recorder | None = self.__dict__.get("recorder")
            if threading.current_thread() in threads:
                arrived.wait(60)
            return recorder

        @_recorder.setter
        def _recorder(self, recorder: Recorder | None) -> None:
            self.__dict__["recorder"] = recorder

    class Listeners(list[Callable[..., None]]):
        def __contains__(self, one: object) -> bool:
            contained = super().__contains__(one)
            if threading.current_thread() in threads:
                checked.wait(60)
            return contained

    def stop() -> None:
        try:
            m.stop()
        except ValueError as error:
            errors.append(error)

    monkeypatch.setattr(steps.COUNTER, "listeners", Listeners(steps.COUNTER.listeners))
    threads = [threading.Thread(target=stop) for _ in range(2)]
    with Switching(tmp_path / "run.iotop.jsonl", interval=0.2) as m:
        assert m.verdict(wait=60) is not None
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert errors == []
    assert m.error == ""
    assert Path(m.path).read_text().rpartition("\n{")[2].startswith('"k":"end"')
