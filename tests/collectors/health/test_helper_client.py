"""What the caller reports about a helper that gives no complete response, with shells in place of the helper."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from iotop_ai.collectors.base import Unavailable
from iotop_ai.collectors.health import helper_client
from iotop_ai.collectors.health.helper_client import SmartProcess
from iotop_ai.collectors.io.clock import Clock


class Unkillable(subprocess.Popen[bytes]):
    """A process that looks as if it hung in the kernel. It ends with its stdin."""

    def terminate(self) -> None:
        """Do nothing."""

    def wait(self, timeout: float | None = None) -> int:
        """Never see the end."""
        raise subprocess.TimeoutExpired(self.args, timeout or 0.0)


@pytest.fixture
def children() -> Iterator[list[subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for child in started:
        subprocess.Popen.wait(child, 30)


@pytest.mark.parametrize(
    ("kind", "script", "reason"),
    [
        (subprocess.Popen, "exit 3", "the SMART helper ended with status 3"),
        (subprocess.Popen, "head -c 17M /dev/zero; exec cat", "the SMART helper sent more than 16 MiB"),
        (Unkillable, "exec cat >&-", "the SMART helper closed its output and cannot be killed"),
    ],
)
def test_the_reason_says_why_there_is_no_complete_response(
    monkeypatch: pytest.MonkeyPatch,
    children: list[subprocess.Popen[bytes]],
    kind: type[subprocess.Popen[bytes]],
    script: str,
    reason: str,
) -> None:
    def start(module: str) -> subprocess.Popen[bytes]:
        command = ["/bin/sh", "-c", f"read request; {script}"]
        children.append(kind(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL))
        return children[-1]

    monkeypatch.setattr(helper_client, "start_own_child", start)
    with pytest.raises(Unavailable, match=f"^{reason}$"):
        SmartProcess(Clock()).ask({}, 30.0)
