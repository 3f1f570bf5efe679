"""The kernel's log: lines as kernels of several versions write them, a log that a test writes, and the real log."""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

from iotop_ai.collectors.base import take_reading
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.machine.kernel_log.collector import KernelLogCollector
from iotop_ai.collectors.machine.kernel_log.event import LogEvent
from iotop_ai.collectors.machine.kernel_log.parse import KERNEL, parse_line, parse_record
from iotop_ai.model.reading import Status

LINES = {
    # Linux 6.18, a loop device whose file was truncated
    "I/O error, dev loop0, sector 16 op 0x0:(READ) flags 0x800 phys_seg 1 prio class 2": (
        "io_error", "loop0", "loop0: I/O error, read at sector 16",
    ),
    # Linux 5.4 to 5.15
    "blk_update_request: critical medium error, dev sdb, sector 1953525128 op 0x0:(READ) flags 0x80700 phys_seg 4 "
    "prio class 0": ("io_error", "sdb", "sdb: critical medium error, read at sector 1953525128"),
    # Linux 4.18 (RHEL 8), which leaves the operation out
    "print_req_error: I/O error, dev nvme0n1, sector 4096": ("io_error", "nvme0n1", "nvme0n1: I/O error, sector 4096"),
    "timeout error, dev sda, sector 8 op 0x1:(WRITE) flags 0x4000 phys_seg 1 prio class 2": (
        "io_error", "sda", "sda: timeout error, write at sector 8",
    ),
    "I/O error, dev cciss!c0d0, sector 0 op 0x3:(DISCARD) flags 0x0 phys_seg 1 prio class 2": (
        "io_error", "cciss/c0d0", "cciss/c0d0: I/O error, discard at sector 0",
    ),
    "Buffer I/O error on dev dm-3, logical block 34, lost async page write": (
        "io_error", "dm-3", "dm-3: lost async page write at block 34",
    ),
    "nvme nvme0: I/O 834 QID 3 timeout, aborting": ("disk_timeout", "nvme0", "nvme0: a request timed out, aborting"),
    "nvme nvme1: I/O tag 194 (10c2) opcode 0x2 (I/O Cmd) QID 9 timeout, aborting req_op:READ(0) size:131072": (
        "disk_timeout", "nvme1", "nvme1: a request timed out, aborting",
    ),
    "Out of memory: Killed process 2841 (python3) total-vm:24531820kB, anon-rss:15301244kB, file-rss:4kB, "
    "shmem-rss:0kB, UID:1000 pgtables:30888kB oom_score_adj:0": (
        "oom_kill", "python3", "the kernel killed python3 (pid 2841) for memory",
    ),
    "Memory cgroup out of memory: Killed process 77 (pt_data_worker) total-vm:1kB, anon-rss:1kB, file-rss:0kB, "
    "shmem-rss:0kB, UID:0 pgtables:64kB oom_score_adj:1000": (
        "oom_kill", "pt_data_worker",
        "the kernel killed pt_data_worker (pid 77) for memory: its cgroup reached its limit",
    ),
    "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.": (
        "xid", "0000:3b:00",
        "0000:3b:00: Xid 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    ),
    "NVRM: Xid (PCI:0000:01:00): 62, 2ca8(2d50) 00000000 00000000": (
        "xid", "0000:01:00", "0000:01:00: Xid 62, 2ca8(2d50) 00000000 00000000",
    ),
    "EXT4-fs (sdb1): Remounting filesystem read-only": (
        "read_only", "sdb1", "sdb1: the kernel made its filesystem read-only after an error",
    ),
    "XFS (nvme0n1p2): Filesystem has been shut down due to log error (0x2).": (
        "read_only", "nvme0n1p2", "nvme0n1p2: the kernel shut its filesystem down after an error",
    ),
    "XFS (dm-0): Corruption of in-memory data (0x8) detected at xfs_defer_finish (fs/xfs/x.c:1).  Shutting down "
    "filesystem.": ("read_only", "dm-0", "dm-0: the kernel shut its filesystem down after an error"),
    "BTRFS info (device sdc state EA): forced readonly": (
        "read_only", "sdc", "sdc: the kernel made its filesystem read-only after an error",
    ),
    "md: resync of RAID array md0": ("raid", "md0", "md0: resync began"),
    "md: data-check of RAID array md127": ("raid", "md127", "md127: data-check began"),
    "md: md0: recovery done.": ("raid", "md0", "md0: recovery done"),
    "md/raid1:md0: Disk failure on sdb1, disabling device.": (
        "raid", "md0", "md0: sdb1 failed and is out of the array",
    ),
    "INFO: task jbd2/sda1-8:312 blocked for more than 120 seconds.": (
        "hung_task", "jbd2/sda1-8", "jbd2/sda1-8 (pid 312) has been stuck in the kernel for more than 120 s",
    ),
    # Linux 6.17
    "INFO: task python3:99 blocked in I/O wait for more than 122 seconds.": (
        "hung_task", "python3", "python3 (pid 99) has been stuck in the kernel for more than 122 s",
    ),
    "ata3.00: exception Emask 0x0 SAct 0x40000000 SErr 0x0 action 0x6 frozen": (
        "ata_error", "ata3.00", "ata3.00: link error (SErr 0x0, frozen)",
    ),
    "ata3: exception Emask 0x10 SAct 0x0 SErr 0x4010000 action 0xe frozen": (
        "ata_error", "ata3", "ata3: link error (SErr 0x4010000, frozen)",
    ),
    "ata3.00: failed command: READ FPDMA QUEUED": ("ata_error", "ata3.00", "ata3.00: READ FPDMA QUEUED failed"),
    "ata1.00: error: { UNC }": ("ata_error", "ata1.00", "ata1.00: the medium cannot be read"),
    "ata1.00: error: { ICRC ABRT }": ("ata_error", "ata1.00", "ata1.00: data was damaged on the cable"),
    "ata3: SATA link down (SStatus 0 SControl 300)": ("ata_error", "ata3", "ata3: the link is down"),
    "ata3: limiting SATA link speed to 3.0 Gbps": ("ata_error", "ata3", "ata3: its link is slowed to 3.0 Gbps"),
    "nvme nvme0: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0x10": (
        "disk_reset", "nvme0", "nvme0: the controller is down and is reset (CSTS 0xffffffff)",
    ),
    "nvme nvme0: Removing after probe failure status: -19": (
        "disk_reset", "nvme0", "nvme0: the kernel gave up on the controller",
    ),
    "nvme nvme2: Disabling device after reset failure: -19": (
        "disk_reset", "nvme2", "nvme2: the kernel gave up on the controller",
    ),
    "pcieport 0000:00:1c.5: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)": (
        "pcie_error", "0000:00:1c.5", "0000:00:1c.5: PCIe error, corrected, Physical Layer",
    ),
    "nvidia 0000:3b:00.0: AER: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (Requester ID)": (
        "pcie_error", "0000:3b:00.0", "0000:3b:00.0: PCIe error, uncorrected and fatal, Transaction Layer",
    ),
    # Linux 6.14
    "nvme 0000:01:00.0: PCIe Bus Error: severity=Uncorrectable (Non-Fatal), type=Data Link Layer, (Transmitter ID)": (
        "pcie_error", "0000:01:00.0", "0000:01:00.0: PCIe error, uncorrected, Data Link Layer",
    ),
    "EDAC MC0: 1 CE memory read error on CPU_SrcID#0_Ha#0_Chan#1_DIMM#0 (channel:1 slot:0 page:0x1f offset:0x0 "
    "grain:32 syndrome:0x0 -  area:DRAM err_code:0001:0091 socket:0 ha:0 channel_mask:2 rank:1)": (
        "memory_error", "CPU_SrcID#0_Ha#0_Chan#1_DIMM#0",
        "memory CPU_SrcID#0_Ha#0_Chan#1_DIMM#0 (MC0): 1 corrected error",
    ),
    "EDAC MC1: 2 UE memory scrubbing error on mc#1csrow#2channel#0 (csrow:2 channel:0 page:0x0 offset:0x0 grain:0)": (
        "memory_error", "mc#1csrow#2channel#0", "memory mc#1csrow#2channel#0 (MC1): 2 uncorrected errors",
    ),
    "mce: Uncorrected hardware memory error in user-access at 3a0c0000": (
        "memory_error", "3a0c0000", "memory at 3a0c0000: an uncorrected error in use",
    ),
    "Memory failure: 0x3a0c0: recovery action for dirty LRU page: Recovered": (
        "memory_error", "0x3a0c0", "memory page 0x3a0c0: damaged, dirty LRU page: recovered",
    ),
    "nfs: server 10.0.0.9 not responding, still trying": (
        "server_silent", "10.0.0.9", "nfs server 10.0.0.9 does not answer",
    ),
    "nfs: server nas.lan not responding, timed out": ("server_silent", "nas.lan", "nfs server nas.lan does not answer"),
    "nfs: server 10.0.0.9 OK": ("server_silent", "10.0.0.9", "nfs server 10.0.0.9 answers again"),
    r"CIFS: VFS: \\nas has not responded in 180 seconds. Reconnecting...": (
        "server_silent", "nas", "SMB server nas has not answered for 180 s",
    ),
    "EXT4-fs error (device sdb1): ext4_find_entry:1455: inode #2: comm ls: reading directory lblock 0": (
        "fs_error", "sdb1", "sdb1: EXT4 found an error (ext4_find_entry)",
    ),
    "XFS (nvme0n1p2): Metadata CRC error detected at xfs_agf_read_verify+0x9d/0x110 [xfs], xfs_agf block 0x1 ": (
        "fs_error", "nvme0n1p2", "nvme0n1p2: XFS found an error (metadata CRC error)",
    ),
    'XFS (dm-0): metadata I/O error in "xfs_imap_to_bp+0x6b/0x90 [xfs]" at daddr 0x8080 len 32 error 5': (
        "fs_error", "dm-0", "dm-0: XFS found an error (metadata I/O error)",
    ),
    "BTRFS error (device sdc): bdev /dev/sdd errs: wr 0, rd 3, flush 0, corrupt 1, gen 0": (
        "fs_error", "sdd", "sdd: BTRFS counts errors: 3 read, 1 corruption",
    ),
    "BTRFS warning (device sdc): csum failed root 5 ino 257 off 0 csum 0x8941f998 expected csum 0x93413794 mirror 1": (
        "fs_error", "sdc", "sdc: BTRFS found data of inode 257 damaged",
    ),
    "amdgpu 0000:03:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=123, emitted seq=125": (
        "gpu_reset", "0000:03:00.0", "0000:03:00.0: ring gfx_0.0.0 hangs",
    ),
    "amdgpu 0000:c1:00.0: amdgpu: GPU reset begin!. Source:  1": (
        "gpu_reset", "0000:c1:00.0", "0000:c1:00.0: the driver resets it",
    ),
    "amdgpu 0000:c1:00.0: amdgpu: GPU reset end with ret = -110": (
        "gpu_reset", "0000:c1:00.0", "0000:c1:00.0: its reset failed",
    ),
    "amdgpu 0000:c1:00.0: amdgpu: 2 uncorrectable hardware errors detected in umc block": (
        "gpu_reset", "0000:c1:00.0", "0000:c1:00.0: 2 uncorrectable errors in umc",
    ),
    "i915 0000:00:02.0: [drm] GPU HANG: ecode 12:1:85dffffb, in python3 [1234]": (
        "gpu_reset", "0000:00:02.0", "0000:00:02.0: the GPU hangs (12:1:85dffffb)",
    ),
    "xe 0000:03:00.0: [drm] GT0: Engine reset: engine_class=ccs, logical_mask: 0x1, guc_id=5": (
        "gpu_reset", "0000:03:00.0", "0000:03:00.0: GT0 engine reset",
    ),
}  # fmt: skip

QUIET = [
    "",
    "operation not supported error, dev sda, sector 0 op 0x9:(WRITE_ZEROES) flags 0x8000800 phys_seg 0 prio class 2",
    "reservation conflict error, dev sda, sector 5 op 0x1:(WRITE) flags 0x0 phys_seg 1 prio class 2",
    "critical nexus error, dev sda, sector 5 op 0x1:(WRITE) flags 0x0 phys_seg 1 prio class 2",
    "zone open resource error, dev sda, sector 5 op 0x1:(WRITE) flags 0x0 phys_seg 1 prio class 2",
    "zone active resource error, dev sda, sector 5 op 0x1:(WRITE) flags 0x0 phys_seg 1 prio class 2",
    "device resource error, dev sda, sector 5 op 0x1:(WRITE) flags 0x0 phys_seg 1 prio class 2",
    "Buffer I/O error on dev loop0, logical block 2, async page read",  # the failed request already has a line
    "EXT4-fs (sda1): mounted filesystem 49e0f6e8 ro without journal. Quota mode: none.",
    "EXT4-fs (sda1): re-mounted 49e0f6e8 ro. Quota mode: none.",  # a user's mount -o remount,ro causes this line
    "Bluetooth: hci0: Firmware timeout, trying again",
    "md: md0 stopped.",
    "usb 1-1: device descriptor read/64, error -71",
    "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.95.05",
    "amd_pstate: driver load is disabled",
    "ata3: SATA link up 6.0 Gbps (SStatus 133 SControl 300)",
    "ata3.00: configured for UDMA/133",
    "ata3: EH complete",
    "ata1.00: error: { ABRT }",  # the disk does not support the command
    "nvme nvme0: 8/0/0 default/read/poll queues",
    "pcieport 0000:00:1c.5: AER: enabled with IRQ 122",
    "pcieport 0000:00:1c.5:   device [8086:a115] error status/mask=00000001/00002000",
    "EDAC MC0: Giving out device to module skx_edac controller Skylake Socket#0 IMC#0: DEV 0000:3a:0a.0 (INTERRUPT)",
    "Memory failure: 0x3a0c0: Sending SIGBUS to python3:77 due to hardware memory corruption",
    "nfs: server 10.0.0.9 is not a server at all",
    "EXT4-fs (sdb1): error count since last fsck: 3",
    "XFS (sdb1): Mounting V5 Filesystem 49e0f6e8",
    # this line is printed at each mount
    "BTRFS info (device sdc): bdev /dev/sdd errs: wr 0, rd 3, flush 0, corrupt 1, gen 0",
    "amdgpu 0000:03:00.0: amdgpu: GPU reset(2) succeeded!",
    "amdgpu 0000:03:00.0: amdgpu: ring gfx_0.0.0 uses VM inv eng 0 on hub 0",
    "i915 0000:00:02.0: [drm] Finished loading DMC firmware i915/adlp_dmc.bin (v2.20)",
    "INFO: task python3:99 is fine",
]


@pytest.mark.parametrize("line", LINES)
def test_lines_become_events(line: str) -> None:
    found = parse_line(line)
    assert found is not None
    assert (found.kind, found.subject, found.text) == LINES[line]


@pytest.mark.parametrize("line", QUIET)
def test_other_lines_are_ignored(line: str) -> None:
    assert parse_line(line) is None


def test_further_figures_of_a_line_are_parsed() -> None:
    lines = list(LINES)
    assert parse_line(lines[1]) == LogEvent(*LINES[lines[1]], what="critical medium", is_counted=True)
    assert [found.pid for line in lines if (found := parse_line(line)) and found.kind == "oom_kill"] == [2841, 77]
    assert [found.number for line in lines if (found := parse_line(line)) and found.kind == "xid"] == [79, 62]


@pytest.mark.parametrize(
    ("number", "change", "recovery"),
    [
        (154, "from 0x0 (None) to 0x1 (GPU Reset Required)", 1),
        (154, "from 0x0 (None) to 0x2 (Node Reboot Required)", 2),
        (154, "from 0x1 (GPU Reset Required) to 0x4 (Drain and Reset)", 4),
        (154, "from 0x2 (OS Reboot) to 0x0 (None)", 0),
        (154, "from None to Node Reboot Required", None),
        (155, "from 0x0 (None) to 0x1 (GPU Reset Required)", None),
    ],
)
def test_an_xid_154_names_the_recovery_that_the_driver_requests(number: int, change: str, recovery: int | None) -> None:
    found = parse_line(f"NVRM: Xid (PCI:0000:97:00): {number}, GPU recovery action changed {change}")
    assert found is not None
    assert (found.number, found.recovery) == (number, recovery)
    assert found.text == f"0000:97:00: Xid {number}, GPU recovery action changed {change}"


def test_a_full_pool_is_an_event_but_not_an_error_of_its_disk() -> None:
    text = "critical space allocation error, dev sda, sector 5 op 0x1:(WRITE) flags 0x0 phys_seg 1 prio class 2"
    shown = "sda: its pool has no space left for a write: enlarge the pool"
    assert parse_line(text) == LogEvent("io_error", "sda", shown)


def test_a_record_is_parsed_to_its_facility_and_its_first_line() -> None:
    raw = b"6,339,5140900,-,caller=T1;NET: Registered protocol family 10\n SUBSYSTEM=net\n DEVICE=n1\n"
    assert parse_record(raw) == (KERNEL, "NET: Registered protocol family 10")
    assert parse_record(b"11,340,1,-;from a program\n") == (1, "from a program")
    assert parse_record(b"12,5,7,c,later,fields;x") == (1, "x")
    for broken in (b"", b";", b"x,1,2,-;y", b"6,339", b"\xff" * 50, b"6,1,2," + b"a" * 100 + b";y"):
        assert parse_record(broken) is None


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (rb"\x1b]0;x\x07", "\ufffd]0;x\ufffd"),
        (rb"b) total-vm:\x5c", "b"),
        ("café".encode().hex(" ").replace(" ", "\\x").join(["\\x", ""]).encode(), "café"),
        (rb"[@click=quit]x", "[@click=quit]x"),
    ],
)
def test_hostile_process_names_are_harmless(name: bytes, shown: str) -> None:
    record = parse_record(b"3,1,2,-;Out of memory: Killed process 5 (" + name + b") total-vm:1kB, anon-rss:0kB\n")
    assert record is not None
    found = parse_line(record.text)
    assert found is not None
    assert (found.kind, found.subject, found.pid) == ("oom_kill", shown, 5)
    assert found.text.isprintable()


class Log:
    """A log that a test writes: a pipe in packet mode gives one record per read, as /dev/kmsg does."""

    def __init__(self, folder: Path) -> None:
        (folder / "dev").mkdir()
        self.read_fd, self.write_fd = os.pipe2(os.O_DIRECT | os.O_NONBLOCK | os.O_CLOEXEC)
        fcntl.fcntl(self.write_fd, fcntl.F_SETPIPE_SZ, 1 << 18)  # each packet takes a page of the pipe
        (folder / "dev/kmsg").symlink_to(f"/proc/self/fd/{self.read_fd}")
        self.collector = KernelLogCollector(Root(str(folder)), Clock())
        self.number = 0

    def write(self, text: str, facility: int = KERNEL) -> None:
        self.number += 1
        os.write(self.write_fd, f"{facility << 3 | 3},{self.number},99,-;{text}\n".encode())

    def close(self) -> None:
        self.collector.close()
        os.close(self.read_fd)
        os.close(self.write_fd)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    made = Log(tmp_path)
    yield made
    made.close()


def test_errors_are_counted_by_device_and_reported_once_a_tick(log: Log) -> None:
    assert log.collector.read().errors == {}
    for sector in range(20):
        log.write(f"I/O error, dev sda, sector {sector} op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2")
    log.write("critical medium error, dev sdb, sector 7 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2")
    log.write("md: resync of RAID array md0")
    errors = log.collector.read().errors
    assert {name: (one.lines, one.what) for name, one in errors.items()} == {
        "sda": (20, "I/O"), "sdb": (1, "critical medium"),
    }  # fmt: skip
    assert [one.text for one in log.collector.events()] == [
        "sda: I/O error, read at sector 0 (and 19 more)",
        "sdb: critical medium error, read at sector 7",
        "md0: resync began",
    ]
    assert log.collector.events() == []
    before = log.collector.read()
    assert log.collector.read() is before
    log.write("I/O error, dev sda, sector 3 op 0x1:(WRITE) flags 0x0 phys_seg 1 prio class 2")
    assert log.collector.read().errors["sda"].lines == 21


def test_a_kill_by_a_cgroups_limit_names_the_cgroup(log: Log) -> None:
    log.collector.read()
    log.write(
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/kubepods/pod1,"
        "task_memcg=/kubepods/pod1/c2,task=python3,pid=77,uid=0"
    )
    log.write("Memory cgroup out of memory: Killed process 77 (python3) total-vm:1kB, anon-rss:1kB")
    log.write("Memory cgroup out of memory: Killed process 78 (python3) total-vm:1kB, anon-rss:1kB")
    log.collector.read()
    assert [one.text for one in log.collector.events()] == [
        "the kernel killed python3 (pid 77) for memory: its cgroup reached its limit (/kubepods/pod1)",
        "the kernel killed python3 (pid 78) for memory: its cgroup reached its limit",
    ]


def test_an_uncorrected_pcie_error_belongs_to_the_disk_at_that_address(log: Log, tmp_path: Path) -> None:
    (tmp_path / "sys/bus/pci/devices/0000:01:00.0/nvme/nvme0").mkdir(parents=True)
    log.collector.read()
    tail = "type=Data Link Layer, (Transmitter ID)"
    log.write(f"nvme 0000:01:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), {tail}")
    log.write(f"nvme 0000:01:00.0: PCIe Bus Error: severity=Corrected, {tail}")
    assert log.collector.read().errors["nvme0"][::2] == (1, "PCIe")


def test_btrfs_errors_of_a_partition_belong_to_its_disk(log: Log, tmp_path: Path) -> None:
    (tmp_path / "sys/devices/sdd/sdd1").mkdir(parents=True)
    (tmp_path / "sys/devices/sdd/sdd1/partition").write_text("1\n")
    (tmp_path / "sys/class/block").mkdir(parents=True)
    (tmp_path / "sys/class/block/sdd1").symlink_to("../../devices/sdd/sdd1")
    log.collector.read()
    log.write("BTRFS error (device sdc1): bdev /dev/sdd1 errs: wr 1, rd 0, flush 0, corrupt 0, gen 0")
    assert log.collector.read().errors["sdd"][::2] == (1, "BTRFS")


def test_timeouts_of_a_controller_are_counted_for_it(log: Log) -> None:
    log.collector.read()
    log.write("nvme nvme0: I/O 834 QID 3 timeout, aborting")
    log.write("nvme nvme0: I/O 834 QID 3 timeout, reset controller")
    errors = log.collector.read().errors
    assert {name: (one.lines, one.what) for name, one in errors.items()} == {"nvme0": (2, "timeout")}


def test_a_flood_of_events_is_bounded(log: Log) -> None:
    log.collector.read()
    for pid in range(12):
        log.write(f"Out of memory: Killed process {pid} (p{pid}) total-vm:1kB")
    log.collector.read()
    assert len(log.collector.events()) == 8


def test_records_of_programs_are_ignored(log: Log) -> None:
    log.collector.read()
    log.write("I/O error, dev sda, sector 1 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2", facility=1)
    assert log.collector.read().errors == {}
    assert log.collector.events() == []


def test_the_log_of_a_machine_without_a_log_is_absent(tmp_path: Path) -> None:
    reading = take_reading(KernelLogCollector(Root(str(tmp_path)), Clock()), Clock())
    assert (reading.status, reading.remedy) == (Status.ABSENT, "")
    assert "container" in reading.reason


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_an_ordinary_user_gets_the_remedy() -> None:
    if Path("/proc/sys/kernel/dmesg_restrict").read_text().strip() != "1":
        pytest.skip("every user can read the log of this machine")
    code = (
        "import os\nfrom iotop_ai.collectors.base import take_reading\nfrom iotop_ai.collectors.io.clock import Clock\n"
        "from iotop_ai.collectors.machine.kernel_log.collector import KernelLogCollector\n"
        "from iotop_ai.collectors.io.root import Root\n"
        "os.setgid(65534); os.setuid(65534)\nc = KernelLogCollector(Root(), Clock())\n"
        "r = [take_reading(c, Clock()) for _ in range(2)][-1]\nprint(r.status.value, '|', r.reason, '|', r.remedy)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == (
        "denied | the kernel's log cannot be read | run as root, or: sudo sysctl kernel.dmesg_restrict=0\n"
    )


def real_log() -> KernelLogCollector:
    collector = KernelLogCollector(Root(), Clock())
    if take_reading(collector, Clock()).status is not Status.OK:
        pytest.skip("the kernel's log cannot be read here")
    return collector


def test_forged_records_in_the_real_log_are_ignored() -> None:
    collector = real_log()
    try:
        try:
            with open("/dev/kmsg", "wb", buffering=0) as kmsg:
                kmsg.write(b"<3>I/O error, dev forged, sector 1 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2\n")
        except OSError:
            pytest.skip("the kernel's log cannot be written here")
        assert "forged" not in collector.read().errors
    finally:
        collector.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a loop device")
def test_a_real_error_of_a_real_device_is_reported(tmp_path: Path) -> None:
    image = tmp_path / "image"
    with open(image, "wb") as file:
        file.truncate(1 << 20)
    made = subprocess.run(["losetup", "-f", "--show", image], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip("no loop device")
    device = made.stdout.strip()
    collector = real_log()
    try:
        os.truncate(image, 4096)
        fd = os.open(device, os.O_RDONLY)
        with contextlib.suppress(OSError):
            os.pread(fd, 4096, 1 << 19)
        os.close(fd)
        name = device.removeprefix("/dev/")
        assert collector.read().errors[name].what == "I/O"
        mine = [one for one in collector.events() if one.subject == name]
        assert mine[0].text.startswith(f"{name}: I/O error, read at sector {(1 << 19) // 512}")
    finally:
        collector.close()
        subprocess.run(["losetup", "-d", device], check=False)


@pytest.fixture
def small_group() -> Iterator[Path]:
    """A cgroup with a limit of 32 MiB."""
    v1, v2 = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
    folder = (v1 if v1.is_dir() else v2) / f"iotop-ai-test-{os.getpid()}"
    limit = "memory.limit_in_bytes" if v1.is_dir() else "memory.max"
    try:
        folder.mkdir()
        (folder / limit).write_text(str(32 << 20))
    except OSError:
        with contextlib.suppress(OSError):
            folder.rmdir()
        pytest.skip("no memory cgroup may be made here")
    yield folder
    with contextlib.suppress(OSError):
        folder.rmdir()


def test_a_real_kill_for_memory_names_its_victim(small_group: Path) -> None:
    collector = real_log()
    code = "open('/proc/self/comm', 'w').write('hungry [x]'); input(); b = bytearray(256 << 20); b[::4096] = b[::4096]"
    try:
        with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as victim:
            (small_group / "cgroup.procs").write_text(str(victim.pid))
            victim.communicate(b"\n", timeout=60)
        assert victim.returncode == -9
        collector.read()
        found = [one for one in collector.events() if one.pid == victim.pid]
        assert [(one.kind, one.subject) for one in found] == [("oom_kill", "hungry [x]")]
    finally:
        collector.close()


def test_a_log_that_cannot_be_read_takes_no_memory_at_each_tick(tmp_path: Path) -> None:
    collector = KernelLogCollector(Root(str(tmp_path)), Clock())
    for _ in range(5):
        take_reading(collector, Clock())
    assert collector._unavailable is not None
    assert len(list(traceback.walk_tb(collector._unavailable.__traceback__))) <= 2
