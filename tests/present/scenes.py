"""Whole machines as Frames: an 8-GPU node that is starved, a healthy one, an unclear one, and one without a GPU.

Each Frame is made once per process, because making it takes most of a second. No test may change a Frame.
"""

from __future__ import annotations

from functools import cache

from iotop_ai.model.finding import Advice, Evidence, Finding, RuledOut, Severity, Verdict
from iotop_ai.model.frame import Frame
from iotop_ai.model.reading import Reading, Status
from iotop_ai.model.snapshot import Snapshot
from tests.present.make import GIB, KIB, MIB, TIB, TRAINER_PROCESSES, Disk, Machine, Proc, disk, frame, gpu, smart
from tests.present.make import snapshots as make_snapshots

SDA = disk("sda", detail="SATA SSD", transport="ata", model="Micron 5300", size_bytes=int(3.5 * TIB), rotational=False)
SDA1 = disk("sda1", "partition", [("/data", "ext4")], parent="sda")
MD0 = disk("md0", "md", [("/raid", "xfs")], slaves=tuple(f"nvme{n}n1" for n in range(4)), detail="raid0")
NVME4 = disk("nvme4n1", "disk", [("/", "ext4")], detail="NVMe", transport="nvme")
MEMBERS = tuple(
    disk(f"nvme{n}n1", detail="NVMe", transport="nvme", holders=("md0",), size_bytes=3 * TIB) for n in range(4)
)
USAGE = {"/data": 0.37, "/raid": 0.21, "/": 0.64, "/dev/shm": 0.03}
NET = {"eth0": (12_500_000, 100_000_000_000), "ib0": (0, 400_000_000_000)}
REALLOCATED = ("312 reallocated sectors, +9 today",)


def root_disk(read: int) -> Disk:
    return Disk(NVME4, reads=3, read_bytes=read, read_await=0.1, writes=20, write_bytes=410 * KIB, write_await=0.1)


def workers(read: int, blocked: float, state: str) -> tuple[Proc, ...]:
    return tuple(
        Proc(48301 + n, "pt_data_worker", state=state, read=read, cpu=0.01, blocked=blocked, wchan="folio_wait_bit")
        for n in range(64)
    )


def trainers(cpu: float) -> tuple[Proc, ...]:
    command = ("python", "train.py", "--data", "/data/in21k")
    return tuple(
        Proc(48213 + n, "train.py", write=256, cpu=cpu, cmdline=command, wchan="futex_wait_queue") for n in range(8)
    )


OTHERS = tuple(Proc(1200 + n, f"service{n}", "root") for n in range(300))
DENIED = tuple(Proc(9000 + n, "julia", "bob", denied=True) for n in range(37))


def _starved_second(i: int, onset: int) -> Machine:
    slowness = min(1.0, max(0.0, (i - onset) / 6))
    wave = (0, 3, -4, 6, -2, 5, -7, 2)[i % 8] if slowness == 1.0 else 0
    busy = round(96 - 74 * slowness) + wave
    mb = 480 - 388 * slowness + wave
    gpus = tuple(gpu(n, busy + (n % 3) - 1, processes=TRAINER_PROCESSES[n : n + 1]) for n in range(8))
    read_await, write_await = 0.9 + 86.1 * slowness + (wave if slowness else 0), 0.8 + 90.4 * slowness
    sda = {"reads": 735, "read_await": read_await, "writes": 2, "write_await": write_await}
    return Machine(
        disks=(
            Disk(SDA, read_bytes=round(mb * MIB), write_bytes=100 * KIB, busy=0.4 + 0.6 * slowness, **sda),
            Disk(SDA1, read_bytes=round(mb * MIB), busy=0.4 + 0.6 * slowness, **sda),
            Disk(MD0, writes=11, write_bytes=round(3.2 * MIB), write_await=0.1, busy=0.0),
            *(Disk(m, writes=3, write_bytes=800 * KIB, write_await=0.1) for m in MEMBERS),
            root_disk(98 * KIB),
        ),
        procs=(
            *workers(round(mb * MIB / 64), 0.04 + 0.93 * slowness, "D" if slowness > 0.5 else "S"),
            *trainers(0.06),
            *OTHERS,
            *DENIED,
        ),
        gpus=gpus,
        smart={
            "sda": smart("sda", "critical", REALLOCATED, 48),
            "nvme4n1": smart("nvme4n1", celsius=41),
            **{m.name: smart(m.name) for m in MEMBERS},
        },
        pressure={"io": 0.02 + 0.95 * slowness, "cpu": 0.01, "memory": 0.0},
        net=NET,
        usage=USAGE,
    )


STARVED_ARGS = (
    ("device", "sda"),
    ("label", "sda"),
    ("mount", "/data"),
    ("read_bytes_per_s", 92.0 * MIB),
    ("read_size_bytes", 128.0 * KIB),
    ("await_ms", 87.0),
    ("normal_ms", 0.9),
    ("lost", 0.78),
    ("gpus", 8.0),
    ("gpus_all", 8.0),
    ("gpu_busy", 0.22),
    ("task", "pt_data_worker"),
    ("tasks", 64.0),
    ("tasks_all", 64.0),
    ("blocked", 0.97),
)


def starved_verdict(since_ns: int | None = None) -> Verdict:
    copy = Advice(
        "copy_data",
        (
            ("source", "/data"),
            ("bytes", 1.3 * TIB),
            ("hours", 4.0),
            ("target", "/raid"),
            ("target_device", "md0"),
            ("room", 11.0 * TIB),
        ),
    )
    storage = Finding(
        "storage_read",
        Severity.CRITICAL,
        0.93,
        "sda",
        STARVED_ARGS,
        (Evidence("disks.sda.read_await_ms", 87.0, "ms", 2.7),),
        (RuledOut("cpu_prep", "cpu_low", (("task", "pt_data_worker"), ("cpu", 0.01))),),
        (copy,),
        0.78,
        6.2,
        since_ns,
    )
    failing = Finding(
        "failing_disk",
        Severity.CRITICAL,
        0.9,
        "sda",
        (("device", "sda"), ("reasons", REALLOCATED[0])),
        since_ns=since_ns,
    )
    return Verdict((storage, failing), 60.0, 10.0, 6, 6)


@cache
def _starved_snapshots(count: int, onset: int) -> tuple[Snapshot, ...]:
    return tuple(make_snapshots(lambda i: _starved_second(i, onset), count))


def starved_snapshots(count: int = 101, onset: int = 35) -> list[Snapshot]:
    return list(_starved_snapshots(count, onset))


@cache
def starved(count: int = 101) -> Frame:
    taken = starved_snapshots(count)
    return frame(taken, starved_verdict(taken[max(0, count - 60)].at_ns))


def _healthy_second(i: int) -> Machine:
    gpus = tuple(gpu(n, 95 + (i + n) % 3, power_mw=655_000, temperature_celsius=61 + n % 5) for n in range(8))
    return Machine(
        disks=(
            Disk(MD0, reads=13_400, read_bytes=1_701 * MIB, read_await=0.19, writes=11, write_bytes=3 * MIB, busy=0.38),
            *(Disk(m, reads=3_350, read_bytes=425 * MIB, read_await=0.18, busy=0.38) for m in MEMBERS),
            root_disk(98 * KIB),
            Disk(SDA),
            Disk(SDA1),
        ),
        procs=(*workers(round(1_700 * MIB / 64), 0.01, "S"), *trainers(0.99), *OTHERS),
        gpus=gpus,
        smart={"sda": smart("sda"), "nvme4n1": smart("nvme4n1"), **{m.name: smart(m.name) for m in MEMBERS}},
        pressure={"io": 0.01, "cpu": 0.0, "memory": 0.0},
        net=NET,
        usage=USAGE,
        busy_cores=14.0,
    )


@cache
def healthy() -> Frame:
    taken = make_snapshots(_healthy_second, 61)
    compute = Finding(
        "gpu_bound",
        Severity.INFO,
        0.9,
        args=(("gpus", 8.0), ("gpus_all", 8.0), ("gpu_busy", 0.96), ("power", 0.94)),
        advice=(Advice("gpu_limits"),),
        since_ns=taken[1].at_ns,
    )
    return frame(taken, Verdict((compute,), 60.0, 10.0, 6, 6))


def _unsure_second(i: int) -> Machine:
    healthy_one = _healthy_second(i)
    gpus = tuple(gpu(n, 97 if (i // 5) % 3 else 3, memory_activity_percent=None, clock_reasons=None) for n in range(8))
    denied = tuple(p._replace(denied=True) for p in (*workers(0, 0.0, "S"), *OTHERS))
    denied_smart: Reading = Reading(None, Status.DENIED, "needs root", "sudo iotop-ai")
    return healthy_one._replace(
        disks=(
            Disk(MD0, writes=11, write_bytes=3 * MIB, write_await=0.1),
            *(Disk(m) for m in MEMBERS),
            root_disk(30 * KIB),
            Disk(SDA),
            Disk(SDA1),
        ),
        procs=(*trainers(0.99), *denied),
        gpus=gpus,
        smart={
            "sda": Reading(None, Status.ASLEEP, "in standby"),
            **dict.fromkeys(("nvme4n1", *(m.name for m in MEMBERS)), denied_smart),
        },
        pressure=None,
        delayacct=False,
    )


@cache
def unsure() -> Frame:
    taken = make_snapshots(_unsure_second, 61)
    unknown = Finding(
        "unknown",
        Severity.INFO,
        0.3,
        args=(("gpus", 8.0), ("gpus_all", 8.0), ("gpu_busy", 0.6)),
        advice=(Advice("run_as_root"),),
        ruled_out=(RuledOut("storage_read", "disks_idle"),),
        gpu_hours_lost=2.1,
    )
    return frame(taken, Verdict((unknown,), 60.0, 10.0, 3, 6, ("not root", "PSI is off", "PIDs hidden")))


VDA = disk("vda", mounts=[("/", "ext4")], detail="virtio", transport="virtio", size_bytes=64 * GIB)


def _small_second(i: int) -> Machine:
    return Machine(
        disks=(Disk(VDA, writes=4, write_bytes=30 * KIB, write_await=0.3, busy=0.002),),
        procs=(Proc(812, "postgres", "postgres", write=30 * KIB, cpu=0.02), Proc(1, "systemd", "root")),
        smart={"vda": Reading(None, Status.UNSUPPORTED, "a virtual disk has no SMART")},
        pressure={"io": 0.0, "cpu": 0.0, "memory": 0.0},
        net={"eth0": (900, None)},
        usage={"/": 0.4},
        cores=2,
        allowed=2,
        busy_cores=0.04,
        delayacct=False,
    )


@cache
def no_gpu(count: int = 31) -> Frame:
    taken = make_snapshots(_small_second, count)
    idle = Finding(
        "idle",
        Severity.INFO,
        0.8,
        args=(("cpu", 0.02),),
        advice=(Advice("start_job"),),
        since_ns=taken[min(10, count - 1)].at_ns,
    )
    return frame(taken, Verdict((idle,), 30.0, 10.0, 5, 6, ("no NVIDIA driver",)))


@cache
def first() -> Frame:
    """The Frame of the very first Snapshot, in which no rate is known yet."""
    taken = starved_snapshots(1)
    unknown = Finding("unknown", Severity.INFO, 0.0)
    return frame(taken, Verdict((unknown,), 0.0, 10.0, 6, 6))
