"""The unit under a real systemd: it is started, confined, killed, started again and stopped."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from iotop_ai.cli.commands.service import program, unit
from tests.rigs.systemd import booted, until, why_no_systemd

UNIT = "iotop-ai.service"
CAPABILITIES = 0x4002A1004
"""The bits of DAC_READ_SEARCH, NET_ADMIN, SYS_RAWIO, SYS_PTRACE, SYS_ADMIN and SYSLOG."""


def kinds(path: Path) -> list[str]:
    """The kinds of the lines that are complete."""
    return [json.loads(line)["k"] for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]


@pytest.mark.slow
def test_systemd_runs_the_unit(tmp_path: Path) -> None:
    why = why_no_systemd()
    if why:
        pytest.skip(why)
    with booted(tmp_path, {UNIT: unit(program(), user=False)}, [UNIT]) as box:
        folder = box.root / "var/lib/iotop-ai/recordings"

        def recorded(kind: str, count: int) -> bool:
            return any(kinds(path).count(kind) >= count for path in folder.glob("*.iotop.jsonl"))

        until(lambda: recorded("snap", 2), "nothing was recorded")
        (path,) = folder.glob("*.iotop.jsonl")
        assert path.stat().st_mode & 0o777 == 0o600
        main = int(box.value_of(UNIT, "MainPID"))
        status = dict(line.split(":", 1) for line in box.run("cat", f"/proc/{main}/status").splitlines())
        assert int(status["CapBnd"], 16) == int(status["CapEff"], 16) == CAPABILITIES
        assert (status["NoNewPrivs"].strip(), status["Seccomp"].strip()) == ("1", "2")
        box.run("kill", f"-{signal.SIGKILL.value}", str(main))
        until(lambda: box.value_of(UNIT, "SubState") == "auto-restart", "systemd does not start it again")
        box.run("systemctl", "start", UNIT)
        until(lambda: recorded("hdr", 2), "the second start recorded nothing")
        before = kinds(path).count("snap")
        until(lambda: recorded("snap", before + 1), "the second start recorded no Snapshot")
        box.run("systemctl", "stop", UNIT)
        assert (box.value_of(UNIT, "ActiveState"), box.value_of(UNIT, "Result")) == ("inactive", "success")
        journal = box.run("journalctl", "--no-pager", "-o", "cat", "-u", UNIT)
        assert f"record: to /var/lib/iotop-ai/recordings/{path.name}" in journal
        assert "Traceback" not in journal
        assert kinds(path)[-1] == "end"
    assert not os.path.ismount(tmp_path / "root")
