"""A machine whose disks have every state of health, as one Frame."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from iotop_ai.collectors.health.parse import parse_state
from iotop_ai.model.frame import Frame
from iotop_ai.model.health.growth import DAY_S
from iotop_ai.model.health.rules import with_verdict
from iotop_ai.model.health.smart import ErrorEntry, HealthPoint, PastPoint, SelfTest, SmartState
from iotop_ai.model.reading import Reading, Status
from iotop_ai.model.snapshot import Snapshot
from tests.present.make import NS, START_NS, TIB, Disk, Machine, disk, frame
from tests.present.make import snapshots as make_snapshots

DATA = Path(__file__).parents[1] / "data/smart"
NOW_S = 1_794_884_000
SUDOERS = (
    "alice ALL=(root) NOPASSWD: /usr/sbin/smartctl --json\\=c --scan-open, "
    "/usr/sbin/smartctl --json\\=c -a -n standby\\,3 -d nvme /dev/nvme3, "
    "/usr/sbin/smartctl -n standby\\,3 -d nvme --all /dev/nvme3"
)


def saved(name: str, device: str, kind: str) -> SmartState:
    return parse_state(json.loads((DATA / name).read_text()), None, device, kind)._replace(read_wall_s=NOW_S)


def failing(self_test_left: int | None = None) -> SmartState:
    state = saved("sata_failing_attr5.json", "/dev/sda", "sat")
    past = tuple(
        PastPoint(NOW_S - (40 - n) * DAY_S, 41 + (n * 7) % 9 + n // 4 + 6 * (n == 40), None) for n in range(41)
    )
    return with_verdict(
        state._replace(
            model="ST4000NM0035",
            serial="ZC1A7F4K",
            earlier=HealthPoint(NOW_S - DAY_S, reallocated=1791, pending=20, uncorrectable=24),
            past=past,
            power_on_hours=31_204,
            self_test_left_percent=self_test_left,
            self_test_log=(
                SelfTest("Extended offline", "Completed: read failure", False, 31_180),
                SelfTest("Short offline", "Completed without error", True, 30_000),
            ),
            error_log=(ErrorEntry(12, 31_181, "Error: UNC at LBA = 0x00ffa1c8"),),
            io_errors=37,
            io_timeouts=2,
            exit_status=0x60,
        )
    )


def worn() -> SmartState:
    state = saved("shim_nvme_a.json", "/dev/nvme0", "nvme")
    past = tuple(PastPoint(NOW_S - (60 - n) * DAY_S, 38 + n % 5, 89 + n // 20) for n in range(61))
    return with_verdict(state._replace(serial="S64GNE0T500001", used_percent=92, past=past))


def machine(self_test_left: int | None = None) -> Machine:
    infos = [disk("sda", detail="HDD", transport="ata", model="ST4000NM0035", size_bytes=4 * TIB)]
    infos += [disk(f"nvme{n}n1", detail="NVMe", transport="nvme", size_bytes=2 * TIB) for n in range(4)]
    infos += [disk("sdb", detail="HDD", transport="ata", model="WDC WD40"), disk("vda", detail="virtio")]
    fine = saved("shim_nvme_a.json", "/dev/nvme1", "nvme")

    def answer(state: SmartState | None, status: Status = Status.OK, reason: str = "", remedy: str = "") -> Reading:  # type: ignore[type-arg]
        return Reading(state, status, reason, remedy, START_NS - 180 * NS)

    sysfs = SmartState("/dev/nvme3", "nvme", "KXD51RUE", "", "", None, "unknown", (), io_errors=None)
    return Machine(
        disks=tuple(Disk(info) for info in infos),
        smart={
            "sda": answer(failing(self_test_left)),
            "nvme0n1": answer(worn()),
            "nvme1n1": answer(fine),
            "nvme2n1": answer(None, Status.FAILED, "smartctl did not answer within 20 s and was killed"),
            "nvme3n1": answer(sysfs, Status.DENIED, "reading SMART needs root", SUDOERS),
            "sdb": answer(saved("sata_ok_from_dump.json", "/dev/sdb", "sat"), Status.ASLEEP, "the disk sleeps"),
            "vda": answer(None, Status.UNSUPPORTED, "a virtio disk has no SMART here: read its health on the host"),
        },
    )


def ill_snapshots(count: int) -> list[Snapshot]:
    """Snapshots of the machine, a second apart, while sda runs a self-test of which 40 % is left."""
    return make_snapshots(lambda _: machine(self_test_left=40), count)


@cache
def ill(self_test_left: int | None = None) -> Frame:
    return frame(make_snapshots(lambda _: machine(self_test_left), 3))
