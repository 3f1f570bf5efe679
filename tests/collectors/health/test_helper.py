"""The end of the helper process at SIGTERM."""

import os
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from iotop_ai.collectors.health import helper


@pytest.fixture
def sigterm(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Handle SIGTERM as the helper does."""
    monkeypatch.setattr(helper, "_sigterm", helper._Sigterm())
    before = signal.signal(signal.SIGTERM, helper._sigterm.handle)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("sigterm")
def test_a_smartctl_that_is_just_being_started_is_killed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    children = []

    def start(command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        children.append(subprocess.Popen(command, **options))
        os.kill(os.getpid(), signal.SIGTERM)  # Popen has made the process and has not returned yet
        return children[0]

    monkeypatch.setattr(helper, "start", start)
    with pytest.raises(SystemExit):
        helper.run(["/bin/sleep", "600"], 60.0)
    assert children[0].poll() == -signal.SIGKILL


@pytest.mark.usefixtures("sigterm")
def test_a_second_signal_does_not_interrupt_the_end() -> None:
    with pytest.raises(SystemExit):
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
