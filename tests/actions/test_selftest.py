from __future__ import annotations

import errno
import json
import os
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from iotop_ai.actions.audit import Audit
from iotop_ai.actions.outcome import Outcome, audited
from iotop_ai.actions.selftest import Target, outcome_of, self_test
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.model.health.identity import DiskIdentity
from tests.rigs.smart import Smartctl, why_no_smartctl

WHY = why_no_smartctl()
needs_smartctl = pytest.mark.skipif(bool(WHY), reason=WHY or "there")
SDA = Target("sda", "/dev/sda", "sat")


def lines(audit: Audit) -> list[tuple[str, str, str]]:
    entries = [json.loads(line) for line in audit.path.read_text().splitlines()]
    return [(line["action"], line["target"], line["result"]) for line in entries]


@needs_smartctl
def test_a_self_test_starts_blocks_a_second_one_and_is_aborted(tmp_path: Path) -> None:
    smartctl = Smartctl(tmp_path)
    smartctl.sata("sda", seconds=1000.0)
    audit = Audit(Clock(), tmp_path / "state")

    def act(what: str) -> Outcome:
        return self_test(what, SDA, str(smartctl.path), Clock(), audit, live=False)

    assert act("short") == Outcome(True, "short self-test begun")
    assert act("long") == Outcome(False, "Can't start self-test without aborting current test")
    assert act("abort") == Outcome(True, "self-test aborted")
    target = "sda (/dev/sda, -d sat)"
    assert lines(audit) == [
        ("self-test short", target, "asked"),
        ("self-test short", target, "short self-test begun"),
        ("self-test long", target, "asked"),
        ("self-test long", target, "Can't start self-test without aborting current test"),
        ("self-test abort", target, "asked"),
        ("self-test abort", target, "self-test aborted"),
    ]
    assert stat.S_IMODE(audit.path.stat().st_mode) == 0o600
    assert [call for call in smartctl.asked() if "-t" in call.split()] == [
        "--json=c -t short -d sat /dev/sda",
        "--json=c -t long -d sat /dev/sda",
    ]


@needs_smartctl
def test_a_smartctl_that_silently_starts_no_test_has_failed(tmp_path: Path) -> None:
    """smartctl below 7.4 does this on an NVMe disk: exit status 0, no message, and no self-test."""
    smartctl = Smartctl(tmp_path)
    smartctl.disk("nvme8", {"model": "M", "serial": "S"})
    audit = Audit(Clock(), tmp_path / "state")
    outcome = self_test("short", Target("nvme8n1", "/dev/nvme8", "nvme"), str(smartctl.path), Clock(), audit)
    assert not outcome.done


@needs_smartctl
def test_a_disk_that_was_replaced_gets_no_command(tmp_path: Path) -> None:
    """The answer of smartctl, or the diskseq in sysfs, shows that it is another disk."""
    smartctl = Smartctl(tmp_path)
    smartctl.sata("sda")
    diskseq = smartctl.tree / "sys/block/sda/diskseq"
    diskseq.write_text("9\n")
    audit, root = Audit(Clock(), tmp_path / "state"), Root(str(smartctl.tree))
    for identity in (DiskIdentity(8), DiskIdentity(smart_serial="OTHER"), DiskIdentity(9, smart_model="OTHER")):
        for what in ("short", "abort"):
            outcome = self_test(
                what, SDA._replace(identity=identity), str(smartctl.path), Clock(), audit, live=False, root=root
            )
            assert outcome == Outcome(False, "not done: sda is another disk now, or was reconnected")
    assert not [call for call in smartctl.asked() if {"-t", "-X"} & set(call.split())]
    same = SDA._replace(identity=DiskIdentity(9))
    assert self_test("short", same, str(smartctl.path), Clock(), audit, live=False, root=root).done


def test_a_disk_that_is_replaced_while_the_command_runs_is_reported(tmp_path: Path) -> None:
    diskseq = tmp_path / "root/sys/block/sda/diskseq"
    diskseq.parent.mkdir(parents=True)
    diskseq.write_text("8\n")
    script = tmp_path / "smartctl"
    script.write_text(f'#!/bin/sh\necho 9 > {diskseq}\necho \'{{"smartctl": {{"exit_status": 0}}}}\'\n')
    script.chmod(0o755)
    audit, target = Audit(Clock(), tmp_path / "state"), SDA._replace(identity=DiskIdentity(8))
    root = Root(str(tmp_path / "root"))
    outcome = self_test("short", target, str(script), Clock(), audit, live=False, root=root)
    assert outcome == Outcome(False, "unknown whether it was done: sda is another disk now, or was reconnected")


def test_without_an_audit_log_nothing_is_done(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file where the folder should be")
    script = tmp_path / "smartctl"
    script.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\necho '{{}}'\n")
    script.chmod(0o755)
    outcome = self_test("short", SDA, str(script), Clock(), Audit(Clock(), tmp_path / "state"), live=False)
    assert not outcome.done
    assert outcome.text.startswith("not done: the audit log")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("target", "what"),
    [(Target("x", "/dev/../sda", "sat"), "short"), (Target("sda", "/dev/sda", "-x"), "short"), (SDA, "captive")],
)
def test_no_command_runs_for_an_invalid_target(tmp_path: Path, target: Target, what: str) -> None:
    script = tmp_path / "smartctl"
    script.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    script.chmod(0o755)
    assert not self_test(what, target, str(script), Clock(), Audit(Clock(), tmp_path / "state"), live=False).done
    assert not (tmp_path / "ran").exists()


def test_a_missing_smartctl_is_an_error(tmp_path: Path) -> None:
    audit = Audit(Clock(), tmp_path / "state")
    missing = self_test("short", SDA, "/nowhere/smartctl", Clock(), audit, live=False)
    assert (missing.done, missing.text) == (False, "no smartctl at /nowhere/smartctl")
    assert lines(audit)[-1][2] == "no smartctl at /nowhere/smartctl"


@pytest.mark.parametrize(
    ("response", "done", "text"),
    [
        ({"timed_out": True}, False, "smartctl did not answer within 20 s and was killed"),
        ({"out": "", "stderr": "boom\n", "status": 1}, False, "boom"),
        (
            {"out": '{"smartctl":{"exit_status":4}}', "status": 4},
            False,
            "the disk refused (smartctl ended with status 4)",
        ),
        (
            {"out": '{"smartctl":{"exit_status":2,"messages":[{"string":"open: Permission denied"}]}}', "status": 2},
            False,
            "a self-test needs root",
        ),
        ({"out": '{"smartctl":{"exit_status":0}}', "status": 0}, True, "long self-test begun"),
    ],
)
def test_the_answers_of_smartctl_are_understood(response: dict[str, object], done: bool, text: str) -> None:
    outcome = outcome_of("long", response)
    assert (outcome.done, outcome.text) == (done, text)


def test_the_audit_log_is_append_only_and_clean(tmp_path: Path) -> None:
    audit = Audit(Clock(), tmp_path)
    audit.write("act", "a\x1b]0;x\x07b\n", "asked")
    audit.write("act", "c", "done")
    assert lines(audit) == [("act", "a\ufffd]0;x\ufffdb\ufffd", "asked"), ("act", "c", "done")]
    audit.path.unlink()
    audit.path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match=r"symbolic|loop"):
        audit.write("act", "d", "asked")


def fails_on_full_disk(write: Callable[[], object]) -> bool:
    """Whether the filesystem refused the write for lack of space."""
    try:
        write()
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        return True
    return False


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount")
def test_a_full_filesystem_leaves_no_partial_line(tmp_path: Path) -> None:
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(tmp_path)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        audit = Audit(Clock(), tmp_path / "state")
        audit.write("first", "", "asked")
        with (tmp_path / "filler").open("wb", buffering=0) as filler:
            while not fails_on_full_disk(lambda: filler.write(b"x" * 4096)):
                pass
        # The last page of the log has some space left, so a line that does not fit is written in part.
        while not fails_on_full_disk(lambda: audit.write("more", "t" * 200, "asked")):
            pass
        raw = audit.path.read_bytes()
        assert raw.endswith(b"\n")
        assert {action for action, _, _ in lines(audit)} == {"first", "more"}
        done: list[int] = []

        def act() -> Outcome:
            done.append(1)
            return Outcome(True, "done")

        refused = audited(audit, "act", "t" * 200, act)
        assert (refused.done, done) == (False, [])
        assert "cannot be written: No space left" in refused.text
        (tmp_path / "filler").unlink()
        assert audited(audit, "act", "", act).done
        assert [action for action, _, _ in lines(audit)][-2:] == ["act", "act"]
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)
