from __future__ import annotations

from dataclasses import replace

import pytest

from iotop_ai.diagnosis.facts.block import (
    DeviceFacts,
    all_devices,
    base_of,
    latency_is_typical,
    prior_ms,
    serves_serially,
)
from iotop_ai.diagnosis.facts.mounts import mount_on
from iotop_ai.diagnosis.facts.per_sample_cache import PerSampleCache
from iotop_ai.diagnosis.facts.window import recent_window
from iotop_ai.model.block.counters import BlockInfo, Mount
from tests.diagnosis.build import MB, Disk, Machine, play


def info(name: str, kind: str = "disk", **fields: object) -> BlockInfo:
    return BlockInfo(name, 8, 0, kind, name, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("transport", "rotational", "size", "expected"),
    [
        ("nvme", False, 128 * 1024, 0.3437),
        ("ata", False, 128 * 1024, 1.2621),
        ("ata", True, 4096, 12.0273),
        ("virtio", True, 128 * 1024, 5.5243),
        ("xen", None, None, 5.0),
        ("unknown", None, 4096, 5.0164),
    ],
)
def test_the_normal_await_depends_on_the_transport(
    transport: str, rotational: bool | None, size: float | None, expected: float
) -> None:
    base = info("x", transport=transport, rotational=rotational)
    assert prior_ms(base, size) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(
    ("model", "detail", "network"),
    [
        ("Amazon Elastic Block Store", "NVMe", True),
        ("Linux", "NVMe over tcp", True),
        ("Linux", "NVMe over rdma", True),
        ("Linux", "NVMe over fc", True),
        ("Linux", "NVMe over loop", False),
        ("APPLE SSD AP0512Q", "NVMe over apple-nvme", False),
        ("Samsung SSD 990 PRO", "NVMe", False),
    ],
)
def test_an_nvme_disk_reached_over_a_network_is_a_network_volume(model: str, detail: str, network: bool) -> None:
    base = info("nvme0n1", transport="nvme", model=model, detail=detail)
    assert prior_ms(base, 0) == (5.0 if network else 0.3)
    assert latency_is_typical(base) is not network


def test_the_rotational_flag_is_used_only_for_scsi_and_ata_disks() -> None:
    assert serves_serially(info("sda", transport="ata", rotational=True))
    assert not serves_serially(info("vda", transport="virtio", rotational=True))
    assert not serves_serially(info("sda", transport="ata", rotational=None))


def test_a_stacked_device_is_judged_by_the_device_at_the_bottom_of_its_stack() -> None:
    infos = {
        "dm-0": info("dm-0", "dm", slaves=("md0",)),
        "md0": info("md0", "md", slaves=("nvme0n1p1",)),
        "nvme0n1p1": info("nvme0n1p1", "partition", parent="nvme0n1"),
        "nvme0n1": info("nvme0n1", transport="nvme"),
    }
    assert base_of(infos["dm-0"], infos).name == "nvme0n1"
    cyclic = {"a": info("a", slaves=("b",)), "b": info("b", slaves=("a",))}
    assert base_of(cyclic["a"], cyclic).name in cyclic
    assert base_of(info("dm-1", "dm", slaves=("gone",)), {}).name == "dm-1"


def test_a_device_over_several_kinds_of_disks_is_judged_by_the_slowest() -> None:
    ssd, disk = info("nvme0n1", transport="nvme"), info("sda", transport="ata", rotational=True)
    part = info("sda2", "partition", parent="sda")
    cached = info("bcache0", slaves=("nvme0n1", "sda2"))
    pool = info("dm-3", "dm", slaves=("dm-1", "dm-2"))
    cache, origin = info("dm-1", "dm", slaves=("nvme0n1",)), info("dm-2", "dm", slaves=("bcache0",))
    infos = {one.name: one for one in (ssd, disk, part, cached, pool, cache, origin)}
    assert base_of(cached, infos) == base_of(pool, infos) == disk
    assert base_of(cache, infos) == ssd
    pair = info("md0", "md", slaves=("nvme0n1", "nvme1n1"))
    assert base_of(pair, infos | {"nvme1n1": ssd._replace(name="nvme1n1")}) == ssd


def test_a_cycle_of_many_devices_is_followed_once() -> None:
    names = tuple(f"dm-{number}" for number in range(200))
    infos = {name: info(name, "dm", slaves=names) for name in names}
    assert base_of(infos["dm-7"], infos).name == "dm-7"


def test_a_cached_disk_is_judged_by_the_disk_behind_its_cache() -> None:
    disk = Disk("sda", "ata", rotational=True, mount="", read_bytes_per_s=0.4 * MB, await_ms=10.0, busy=0.97)
    cached = replace(disk, name="bcache0", transport="unknown", rotational=False, slaves=("nvme0n1", "sda"))
    frame = play((Machine(disks=(cached, Disk("nvme0n1", "nvme", mount=""), disk)), 12))[-1]
    window = recent_window(frame.history, frame.snapshot.at_ns, 10, ("block",))
    found = {one.name: one for one in all_devices(frame.snapshot.disks.value, window, PerSampleCache())}
    assert found["bcache0"].serves_serially
    assert found["bcache0"].normal_ms == found["sda"].normal_ms


def test_a_mount_is_found_through_partitions_and_holders() -> None:
    infos = {
        "sda": info("sda"),
        "sda1": info("sda1", "partition", parent="sda", holders=("dm-0",)),
        "dm-0": info("dm-0", "dm", slaves=("sda1",), mounts=(Mount("/data", "ext4", "/dev/dm-0"),)),
    }
    assert mount_on("sda", infos) == "/data"
    assert mount_on("sdb", infos) == ""


def test_means_are_weighted_and_leave_out_partitions() -> None:
    disk = Disk(read_bytes_per_s=90 * MB, await_ms=20.0, busy=0.97)
    part = Disk("sda1", kind="partition", read_bytes_per_s=90 * MB, await_ms=20.0)
    frame = play((Machine(disks=(disk, part, Disk("sdb"))), 12))[-1]
    window = recent_window(frame.history, frame.snapshot.at_ns, 10, ("block",))
    facts = all_devices(frame.snapshot.disks.value, window, PerSampleCache())
    assert [d.name for d in facts] == ["sda"]
    assert facts[0].read_await_ms == pytest.approx(20.0)
    assert facts[0].inflation == pytest.approx(20.0 / facts[0].normal_ms)
    assert facts[0].is_flat
    assert all_devices(None, window, PerSampleCache()) == ()


def test_an_untimed_array_has_the_times_of_its_members() -> None:
    untimed = {"await_ms": 0.0, "queue": 0.0, "busy": 0.0, "major": 9, "transport": ""}
    volume = Disk("dm-0", kind="dm", slaves=("md0",), read_bytes_per_s=400 * MB, **untimed)  # type: ignore[arg-type]
    array = replace(volume, name="md0", kind="md", slaves=("nvme0n1", "nvme1n1"))
    first = Disk("nvme0n1", "nvme", read_bytes_per_s=300 * MB, await_ms=8.0, queue=20.0, busy=1.0)
    second = replace(first, name="nvme1n1", read_bytes_per_s=100 * MB, await_ms=4.0, queue=3.0, busy=0.5)

    def first_device(*disks: Disk) -> DeviceFacts:
        frame = play((Machine(disks=disks), 12))[-1]
        window = recent_window(frame.history, frame.snapshot.at_ns, 10, ("block",))
        return all_devices(frame.snapshot.disks.value, window, PerSampleCache())[0]

    for top in (volume, array):
        facts = first_device(top, *((array,) if top is volume else ()), first, second)
        assert (facts.name, facts.read_bytes_per_s) == (top.name, 400 * MB)
        assert (facts.read_await_ms, facts.await_ms) == (pytest.approx(7.0), pytest.approx(7.0))
        assert (facts.queue_size, facts.busy_ratio) == (23.0, 1.0)
        assert all(facts.slow)
    lone = first_device(array)
    assert (lone.read_await_ms, lone.queue_size, lone.inflation) == (None, None, None), (
        "nothing is known of its members"
    )
    timed = first_device(replace(array, await_ms=1.0, queue=5.0), first, second)
    assert (timed.read_await_ms, timed.queue_size) == (1.0, 5.0)
