"""The end of the helper process at SIGTERM, and a disk that only root can read with an old smartctl."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from iotop_ai.collectors.base import Unavailable
from iotop_ai.collectors.health import helper
from iotop_ai.collectors.health.parse import parse_json, parse_state
from iotop_ai.model.reading import Status


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


OLD_SMARTCTL = """#!/bin/sh
case $1 in --json*) echo "=======> UNRECOGNIZED OPTION: ${1#--}"; exit 1;; esac
[ "$AS_ROOT" ] || { echo "Smartctl open device: /dev/sda failed: Permission denied"; exit 2; }
printf 'smartctl 6.6\\nCopyright\\n\\n=== START OF INFORMATION SECTION ===\\nDevice Model:     M\\n'
echo "SMART overall-health self-assessment test result: PASSED"
"""


@pytest.mark.parametrize("has_rule", [True, False])
def test_a_smartctl_without_json_is_called_through_sudo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_rule: bool
) -> None:
    smartctl, sudo = tmp_path / "smartctl", tmp_path / "sudo"
    smartctl.write_text(OLD_SMARTCTL)
    call = 'AS_ROOT=1 exec "$@"' if has_rule else "echo 'sudo: a password is required' >&2; exit 1"
    sudo.write_text(f"#!/bin/sh\nshift; {call}\n")
    for path in (smartctl, sudo):
        path.chmod(0o755)
    monkeypatch.setattr(helper, "sudo_prefix", lambda: [str(sudo), "-n"])
    request = {"do": "read", "smartctl": str(smartctl), "device": "/dev/sda", "type": "sat", "timeout_s": 20}
    response = helper.serve({**request, "sudo": True})
    assert response["refused"] is not has_rule
    assert parse_json(response["out"]) is None
    if has_rule:
        assert parse_state(None, response["pysmart_values"], "/dev/sda", "sat").model == "M"
        return
    with pytest.raises(Unavailable, match="reading SMART needs root") as denied:
        parse_state(None, response["pysmart_values"], "/dev/sda", "sat")
    assert denied.value.status is Status.DENIED
