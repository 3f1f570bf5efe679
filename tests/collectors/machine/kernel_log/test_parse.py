"""Long lines of the kernel's log, and discards that a disk rejects."""

from __future__ import annotations

import pytest

from iotop_ai.collectors.machine.kernel_log.parse import parse_line, parse_record

CONTAINER = "c8b3b4dd6ee0c8bcbd5c9b2b5d4b8e2b2a1bc8b3b4dd6ee0c8bcbd5c9b2b5d4b"
CGROUP = (
    "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0f2cd9f2_6d87_4bb2_8b28_d2b34e6dff0c.slice"
    f"/cri-containerd-{CONTAINER}.scope"
)


def test_a_kill_in_a_kubernetes_pod_names_its_cgroup() -> None:
    line = (
        f"oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=cri-containerd-{CONTAINER}.scope,"
        f"mems_allowed=0-1,oom_memcg={CGROUP},task_memcg={CGROUP},task=python3,pid=1234567,uid=0"
    )
    assert len(line) > 512
    record = parse_record(f"6,1,2,-;{line}\n".encode())
    assert record is not None
    found = parse_line(record.text)
    assert found is not None
    assert (found.kind, found.subject, found.pid) == ("oom_cgroup", CGROUP, 1234567)


def test_a_record_is_cut_to_the_longest_line_of_the_kernel() -> None:
    record = parse_record(b"6,1,2,-;" + b"x" * 5000)
    assert record is not None
    assert record.text == "x" * 1024


@pytest.mark.parametrize(
    ("kind", "op", "counts"),
    [
        ("critical target", "0x3:(DISCARD)", False),
        ("critical target", "0x5:(SECURE_ERASE)", False),
        ("I/O", "0x9:(WRITE_ZEROES)", False),
        ("critical medium", "0x9:(WRITE_ZEROES)", True),
        ("timeout", "0x3:(DISCARD)", True),
        ("critical target", "0x1:(WRITE)", True),
    ],
)
def test_a_rejected_discard_is_an_event_but_not_an_error_of_its_disk(kind: str, op: str, counts: bool) -> None:
    event = parse_line(f"{kind} error, dev sda, sector 2048 op {op} flags 0x800 phys_seg 1 prio class 2")
    assert event is not None
    assert (event.kind, event.is_counted, event.what) == ("io_error", counts, kind if counts else "")
    assert event.text.startswith(f"sda: {kind} error, ")
