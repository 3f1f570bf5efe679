"""Each cure has a machine for which it is advised, and a similar machine for which it is not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from iotop_ai.diagnosis.thresholds import LIMITS
from iotop_ai.model.block.read_latency_baseline import MINUTE_NS, DeviceBaseline, size_bucket, with_minute
from iotop_ai.model.finding import Advice, Severity
from iotop_ai.model.fold_state import FoldState
from iotop_ai.model.machine.filesystem import FilesystemUsage
from iotop_ai.model.machine.kernel_log import DeviceErrors
from iotop_ai.present.verdict.cures import advice_text, cure_templates
from tests.diagnosis.build import (
    FETCHING,
    GIB,
    IDLE,
    JOB_ALONE,
    JOB_HEALTHY,
    JOB_PREPARING,
    JOB_STARVED,
    LOADERS,
    MB,
    SLOW_SSD,
    STARVED,
    TRAINER_OLD,
    Disk,
    Machine,
    Task,
    play,
)
from tests.diagnosis.facts.test_late_ranks import late
from tests.diagnosis.gpu_scenes import DETAIL, FED, GPU_ASIDE, GPU_SCENES, ON_CPU, SPINNING, rates
from tests.diagnosis.host_scenes import (
    CROWDED,
    FIO,
    GONE,
    HOG,
    MEASURING,
    OOM,
    SERVING,
    SHARED,
    SLOWED_LOADERS,
    ended,
    epochs,
)
from tests.diagnosis.job_scenes import (
    DATA_SCENES,
    FULL,
    NFS,
    NO_INODES,
    ON_GPU,
    SAVING,
    STATE_SCENES,
    THREADS,
    TIME_SCENES,
    with_job,
)
from tests.diagnosis.rules.job.test_neighbours import on_mirrors
from tests.diagnosis.rules.test_health import CABLE, HOT, MEDIA, SLOW
from tests.diagnosis.verdict.test_nfs_advice import on_nfs

Play = Machine | list[tuple[Machine, int]]


def died(code: int | None, *more: Any) -> Machine:
    return replace(GONE, events=(ended("trainer", code), *more))


def gpu_job(framework: str, machine: Machine) -> Machine:
    return with_job(machine, framework=framework, evidence=("library", "gpu"))


def worker_kind(kind: str) -> Machine:
    return with_job(JOB_PREPARING, worker_kind=kind)


TB = 1 << 40
NVME = Disk("nvme0n1", "nvme", mount="/raid")
USED_1TB = {
    "/data": FilesystemUsage(2 * TB, TB, TB, 0, 0),
    "/raid": FilesystemUsage(16 * TB, 5 * TB, 11 * TB, 0, 0),
}
COPY = replace(STARVED, disks=(SLOW_SSD, NVME), usage=USED_1TB)
SMALL = {"/data": FilesystemUsage(TB, TB - 10 * GIB, TB, 0, 0), "/raid": USED_1TB["/raid"]}
ROOMY = replace(COPY, usage=SMALL, available_bytes=200 * GIB)
JAX_THREADS = replace(ON_GPU, job=replace(THREADS, time=(("data_cpu", 0.6), ("compute", 0.4)), framework="jax"))
TF_THREADS = with_job(JAX_THREADS, framework="tensorflow")
LATENT = Disk("vda", "virtio", read_bytes_per_s=6.8 * MB, await_ms=36.0, busy=1.0, queue=1.95)
"""A disk that has served each read in 36 ms so far, while only two readers read from it."""
TWO = with_job(replace(JOB_STARVED, disks=(LATENT,)), workers=LOADERS[:2], blocked=1.95)
QUICK = replace(TWO, disks=(replace(LATENT, await_ms=9.0),))
LINKED = {**DETAIL, "nvlinks_active": 18}
BOARD = GPU_SCENES["gpu_fault board"]
RECOVERY = replace(FED, gpu_detail={**DETAIL, "recovery": 3})
WORKING = Disk(read_bytes_per_s=10 * MB, await_ms=0.4, busy=0.2)
MAPPED = Disk("dm-0", "virtual", kind="dm", read_bytes_per_s=10 * MB, await_ms=0.4, busy=0.2)
BOBS_FIO = tuple(replace(task, user="bob", uid=1001) for task in FIO)
BOBS_HOG = tuple(replace(task, user="bob", uid=1001) for task in HOG)
STOPPED = TIME_SCENES["hung stopped"]
UNSEEN = replace(SHARED, tasks=(TRAINER_OLD, *SLOWED_LOADERS, *(replace(task, denied=True) for task in FIO)), euid=1000)
IN_CONTAINER = with_job(STATE_SCENES["shm_full"], label="container 0123456789ab")
SINGLE = DATA_SCENES["single_thread"]
MIRRORED = on_mirrors(90 * MB)
CHECKED = replace(MIRRORED, disks=(replace(MIRRORED.disks[0], md_sync="check", major=9), *MIRRORED.disks[1:]))


def hangs(disk: Disk) -> list[tuple[Machine, int]]:
    works = Machine(disks=(disk,), cpu=0.5)
    stuck = replace(disk, read_bytes_per_s=0.0, in_flight=12, busy=1.0)
    return [(works, 12), (replace(works, disks=(stuck,), tasks=(Task(70, "python", blocked=1.0),)), 14)]


def with_xid(number: int, **detail: Any) -> Machine:
    return replace(FED, gpu_only={0: {"last_xid": number, "last_xid_at_ns": 0}}, gpu_detail={**DETAIL, **detail})


def asked_in_the_log(number: int, asked: int, **detail: Any) -> Machine:
    machine = with_xid(number, **{"recovery": None, **detail})
    return replace(machine, gpu_only={0: {**machine.gpu_only[0], "recovery": asked}})


CASES: dict[str, tuple[Play, Play]] = {
    "cool_gpu": (GPU_SCENES["gpu_throttle"], FED),
    "raise_power": (GPU_SCENES["gpu_throttle lowered"], FED),
    "check_power": (GPU_SCENES["gpu_throttle brake"], GPU_SCENES["gpu_throttle"]),
    "reseat": (GPU_SCENES["pcie narrow"], GPU_SCENES["pcie full"]),
    "send_less": (GPU_SCENES["pcie full"], GPU_SCENES["pcie replays"]),
    "less_gpu_memory": (GPU_SCENES["gpu_memory shared"], FED),
    "end_sharer": (GPU_SCENES["gpu_memory shared"], GPU_ASIDE["gpu_bound gpu_memory"]),
    "reset_gpu": (BOARD, replace(BOARD, gpu_detail=LINKED)),
    "replace_gpu": (GPU_SCENES["gpu_fault rows"], BOARD),
    "reboot_node": (replace(BOARD, gpu_detail=LINKED), BOARD),
    "read_gpu_log": (GPU_SCENES["gpu_fault reset"], BOARD),
    "drain_gpu": (RECOVERY, replace(RECOVERY, gpu_detail={**LINKED, "recovery": 3})),
    "debug_kernel": (GPU_SCENES["gpu_fault program"], with_xid(999)),
    "look_xid_up": (with_xid(999), GPU_SCENES["gpu_fault program"]),
    "check_gpu_power": (with_xid(54), BOARD),
    "use_gpu": (ON_CPU, FED),
    "ask_peers": (SPINNING, GPU_SCENES["comm_wait network"]),
    "wider_network": (GPU_SCENES["comm_wait network"], SPINNING),
    "compare_ranks": (late(0.8, 0.02), late(0.8, 0.7)),
    "help_late": (GPU_SCENES["imbalance"], FED),
    "copy_data": (COPY, replace(COPY, usage={"/data": USED_1TB["/data"]})),
    "keep_in_memory": (ROOMY, replace(ROOMY, available_bytes=11 * GIB)),
    "pack_files": (DATA_SCENES["small_random"], JOB_STARVED),
    "needed_rate": (JOB_STARVED, JOB_ALONE),
    "drawn_rate": (QUICK, TWO),
    "more_in_flight": (TWO, replace(TWO, disks=(replace(LATENT, transport="ata", rotational=True),))),
    "more_reads_at_once": (
        replace(STARVED, disks=(replace(SLOW_SSD, await_ms=2.5, read_bytes_per_s=92 * MB),)),
        STARVED,
    ),
    "faster_storage": (JOB_ALONE, replace(COPY, gpus=(), gpu_pids=())),
    "more_workers": (JOB_PREPARING, replace(JOB_PREPARING, cpu=0.99)),
    "worker_options": (SINGLE, gpu_job("jax", SINGLE)),
    "cheaper_transforms": (replace(JOB_PREPARING, cpu=0.99), JOB_PREPARING),
    "raise_quota": (with_job(JOB_PREPARING, quota=4.0), JOB_PREPARING),
    "more_readers": (DATA_SCENES["loader_serial"], with_job(DATA_SCENES["loader_serial"], worker_kind="pool")),
    "one_worker": (replace(SINGLE, cpu=0.99), SINGLE),
    "parallel_calls": (TF_THREADS, JAX_THREADS),
    "more_threads": (JAX_THREADS, TF_THREADS),
    "faster_simulation": (worker_kind("env"), JOB_PREPARING),
    "ray_tasks": (worker_kind("ray"), JOB_PREPARING),
    "more_processes": (worker_kind("prep"), JOB_PREPARING),
    "nfs_options": (on_nfs(), on_nfs(queue_ms=0.1)),
    "stage_local": (DATA_SCENES["network_fs"], JOB_ALONE),
    "raise_limit": (DATA_SCENES["io_limit"], JOB_ALONE),
    "more_cache": (DATA_SCENES["cache_thrash"], JOB_ALONE),
    "more_connections": (DATA_SCENES["object_stream"], JOB_PREPARING),
    "wait": (STATE_SCENES["starting"], JOB_HEALTHY),
    "fewer_syncs": (TIME_SCENES["host_bound"], ON_GPU),
    "compile_model": (TIME_SCENES["host_bound"], ON_GPU),
    "keep_compiled": (TIME_SCENES["compiling"], ON_GPU),
    "dump_stacks": (TIME_SCENES["hung"], STOPPED),
    "continue_job": (replace(STOPPED, euid=1000), STOPPED),
    "save_async": (SAVING, JOB_HEALTHY),
    "less_memory": (STATE_SCENES["mem_pressure"], JOB_HEALTHY),
    "larger_shm": (STATE_SCENES["shm_full"], JOB_HEALTHY),
    "make_room": (STATE_SCENES["fs_full"], JOB_HEALTHY),
    "ask_owner": (replace(SHARED, tasks=(TRAINER_OLD, *SLOWED_LOADERS, *BOBS_FIO)), SHARED),
    "replace_disk": (Machine(disks=(SLOW,), smart=(MEDIA,), cpu=0.5), Machine(disks=(SLOW,), smart=(CABLE,), cpu=0.5)),
    "reach_device": (hangs(WORKING), Machine(disks=(WORKING,), cpu=0.5)),
    "resume_device": (hangs(MAPPED), hangs(WORKING)),
    "check_cable": (Machine(disks=(SLOW,), smart=(CABLE,), cpu=0.5), Machine(disks=(SLOW,), smart=(HOT,), cpu=0.5)),
    "cool_disk": (Machine(disks=(SLOW,), smart=(HOT,), cpu=0.5), Machine(disks=(SLOW,), smart=(CABLE,), cpu=0.5)),
    "larger_kernels": (rates(FED, sm_ratio=0.2, power_watts=640.0), FED),
    "gpu_limits": (FED, rates(FED, sm_ratio=0.2, power_watts=640.0)),
    "start_job": (IDLE, replace(IDLE, cpu=0.5)),
    "run_as_root": (UNSEEN, replace(UNSEEN, euid=0)),
    "psi_on": (Machine(cpu=0.5, psi=False), Machine(cpu=0.5)),
    "calm_neighbour": (SHARED, replace(SHARED, tasks=(TRAINER_OLD, *SLOWED_LOADERS, *BOBS_FIO))),
    "calm_cpu": (CROWDED, replace(CROWDED, tasks=(*CROWDED.tasks[:-4], *BOBS_HOG))),
    "slow_resync": (CHECKED, MIRRORED),
    "ask_for_share": (UNSEEN, SHARED),
    "wait_for_check": (MEASURING, SHARED),
    "keep_workers": (epochs(20, 3, 5), [(JOB_HEALTHY, 100)]),
    "who_killed": (died(-9), died(-9, OOM)),
    "who_stopped": (died(-15), died(-9)),
    "outlive_session": (died(-1), died(-10)),
    "fault_handler": (died(-11), died(-10)),
    "read_log": (died(1), died(-11)),
    "more_requests": (SERVING, JOB_HEALTHY),
    "look_into": (
        with_job(JOB_PREPARING, running=0.3, disk=0.3),
        Machine(cpu=0.5),
    ),
}


def cures(scene: Play) -> dict[str, Advice]:
    """Every cure in the last verdict, by its template."""
    frames = play(*scene) if isinstance(scene, list) else play((scene, 40 if scene is IDLE else 20))
    return {advice.template: advice for finding in frames[-1].verdict.findings for advice in finding.advice}


def test_every_cure_has_a_machine_that_allows_it_and_one_that_forbids_it() -> None:
    missing = set(CASES) ^ set(cure_templates())
    assert not missing, f"{missing}: CASES needs a machine that allows it and one that forbids it"


@pytest.mark.parametrize("template", CASES)
def test_a_cure_is_advised_on_the_first_machine_and_not_on_the_second(template: str) -> None:
    allowed, forbidden = (cures(scene) for scene in CASES[template])
    assert template in allowed, sorted(allowed)
    assert template not in forbidden


@pytest.mark.parametrize(
    ("machine", "cure"),
    [
        (with_xid(48), "reset_gpu"),
        (with_xid(140), "reset_gpu"),
        (with_xid(119, recovery=2), "reboot_node"),
        (with_xid(79), "reboot_node"),
        (with_xid(64), "replace_gpu"),
        (with_xid(31), "debug_kernel"),
        (with_xid(32), "look_xid_up"),
        (with_xid(154), "look_xid_up"),
        (with_xid(154, recovery=1), "reset_gpu"),
        (asked_in_the_log(154, 1), "reset_gpu"),
        (asked_in_the_log(154, 2), "reboot_node"),
        (asked_in_the_log(154, 4), "drain_gpu"),
        (asked_in_the_log(119, 2), "reboot_node"),
        # NVML answers by now and reports that no recovery is needed any more.
        (asked_in_the_log(154, 2, recovery=0), "look_xid_up"),
        (with_xid(45, rows_failed=True), "replace_gpu"),
        (GPU_SCENES["gpu_fault lost"], "reboot_node"),
    ],
)
def test_the_cure_of_an_xid_depends_on_its_cause(machine: Machine, cure: str) -> None:
    subject = "GPU-3" if machine.gpu_lost else "GPU-0"
    found = [one for one in play((machine, 3))[-1].verdict.findings if one.subject == subject]
    assert [advice.template for one in found for advice in one.advice] == [cure]
    mild = cure in ("debug_kernel", "look_xid_up")
    assert [one.severity for one in found] == [Severity.WARNING if mild else Severity.CRITICAL]


def test_the_log_is_searched_for_the_address_in_the_kernels_form() -> None:
    logged = replace(
        FED, gpu_only={2: {"bus_id": "00000000:3B:00.0"}}, errors={"0000:3b:00.0": DeviceErrors(1, 0, "PCIe")}
    )
    assert cure_text("read_gpu_log", logged).startswith("run dmesg | grep 0000:3b:00.0 to see why")


def test_each_cure_names_what_to_do_and_the_process_to_look_into() -> None:
    look = cure_text("look_into", with_job(JOB_PREPARING, running=0.3, disk=0.3))
    assert look == "py-spy dump --pid 50 shows what train.py waits for", "a verdict without a fault gives an order"
    kept = "read /data (at most 10 GB) once: it then stays in memory (200 GB free)"
    assert cure_text("keep_in_memory", ROOMY) == kept
    assert cure_text("slow_resync", CHECKED).startswith("run sysctl ")


def cure_text(template: str, machine: Machine) -> str:
    return advice_text(cures(machine)[template])


def test_the_library_that_reads_the_data_decides_how_to_read_more() -> None:
    assert "LMDB" in cure_text("pack_files", with_job(DATA_SCENES["small_random"], readers=("lmdb", "datasets")))
    assert "DALI" in cure_text("more_threads", with_job(JAX_THREADS, readers=("dali",)))


def test_a_quota_is_named_with_the_share_of_its_periods_in_which_it_ran_out() -> None:
    machine = with_job(JOB_PREPARING, quota=4.0)
    quota = "raise the CPU quota of 4.0 cores"
    assert cure_text("raise_quota", machine).startswith(f"{quota}: ")
    known = with_job(machine, throttled=0.63)
    assert cure_text("raise_quota", known).startswith(f"{quota} (used up in 63 % of its periods): ")


def test_all_cores_are_called_used_only_if_none_is_idle() -> None:
    half, full = (replace(with_job(JOB_PREPARING, cores=None), cores=2, cpu=cpu) for cpu in (0.65, 0.99))
    assert cure_text("cheaper_transforms", full) == "use cheaper transforms: all 2 cores are used"
    assert cure_text("cheaper_transforms", half) == "use cheaper transforms: only 0.7 of 2 cores idle"


def test_other_programs_that_use_most_cores_are_named() -> None:
    full = replace(JOB_PREPARING, cpu=0.99)
    words = "use cheaper transforms: all 40 cores are used"
    assert cure_text("cheaper_transforms", full) == f"{words}, mostly by other programs"
    # If a job can use only some of the cores, other programs may fill the others.
    assert "other programs" not in cure_text("cheaper_transforms", with_job(full, cores=8))


def test_decoding_on_the_gpu_is_advised_only_with_a_gpu() -> None:
    full = replace(JOB_PREPARING, cpu=0.99)
    assert "GPU" not in cure_text("cheaper_transforms", full)
    assert cure_text("cheaper_transforms", replace(full, gpus=(0.2,), gpu_pids=(50,))).endswith("; decode on the GPU")


@pytest.mark.parametrize(
    ("template", "machine"),
    [
        ("save_async", SAVING),
        ("use_gpu", ON_CPU),
        ("gpu_limits", FED),
        ("fewer_syncs", TIME_SCENES["host_bound"]),
        ("compile_model", TIME_SCENES["host_bound"]),
        ("send_less", GPU_SCENES["pcie full"]),
        ("larger_kernels", rates(FED, sm_ratio=0.2, power_watts=640.0)),
        ("more_workers", JOB_PREPARING),
    ],
)
def test_a_jax_job_gets_no_advice_about_torch(template: str, machine: Machine) -> None:
    torch, jax = cure_text(template, with_job(machine, framework="torch")), cure_text(template, gpu_job("jax", machine))
    for word in ("torch", "pin_memory", "DataLoader", "num_workers", ".item()"):
        assert word not in jax
    assert torch != jax


CHECK = "(iotop-ai check /data measures it)"


def test_two_readers_with_a_read_each_do_not_show_the_limit_of_the_disk() -> None:
    assert "needed_rate" not in cures(TWO)
    drawn = "2 workers draw 6.5 MB/s, one read each at"
    assert cure_text("drawn_rate", QUICK) == f"give vda more reads at once if it serves them: {drawn} 9 ms"
    more = f"raise num_workers 2 -> 4 if vda serves more reads at once {CHECK}: {drawn} 36 ms"
    assert cure_text("more_in_flight", TWO) == more


@pytest.mark.parametrize(
    "disk",
    [
        replace(LATENT, queue=12.0),  # others read from it too
        replace(LATENT, transport="ata"),  # a local SSD answers in about 1 ms
        replace(LATENT, transport="ata", rotational=True),
    ],
)
def test_a_disk_at_its_limit_gets_advice_about_the_needed_rate(disk: Disk) -> None:
    found = cures(replace(TWO, disks=(disk,)))
    assert "needed_rate" in found
    assert not {"drawn_rate", "more_in_flight"} & set(found)


def test_a_disk_that_was_faster_before_is_at_its_limit() -> None:
    sizes = DeviceBaseline().sizes
    bucket = size_bucket(LATENT.size_bytes)
    for minute in range(LIMITS.baseline_minutes):
        known = with_minute(sizes[bucket], minute * MINUTE_NS, 6.0)
        sizes = (*sizes[:bucket], known, *sizes[bucket + 1 :])  # type: ignore[assignment]
    carry = FoldState(learned={"vda": DeviceBaseline(sizes=sizes)})
    finding = play((TWO, 20), carry=carry)[-1].verdict.primary
    assert "needed_rate" in [advice.template for advice in finding.advice]


def test_more_workers_are_advised_only_if_cores_are_idle_for_them() -> None:
    drawn = "2 workers draw 6.5 MB/s, one read each at 36 ms"
    larger = f"use larger reads, or more of them at once, if vda serves them {CHECK}: {drawn}"
    assert cure_text("more_in_flight", replace(TWO, cpu=0.99)) == larger
    assert "2 -> 3 if" in cure_text("more_in_flight", replace(TWO, cpu=0.97))
    assert cure_text("more_in_flight", with_job(TWO, worker_kind="pool")) == larger
    assert cure_text("more_in_flight", gpu_job("jax", TWO)).startswith("raise worker_count 2 -> 4 if")


@pytest.mark.parametrize(("gib", "cure"), [(0, "keep_in_memory"), (9, "keep_in_memory"), (11, "copy_data")])
def test_data_stays_in_memory_only_if_the_job_has_read_no_more_than_the_size_of_the_data(gib: int, cure: str) -> None:
    first, *others = LOADERS
    read = (replace(first, read_so_far=gib * GIB), *others)
    alone = replace(JOB_STARVED, disks=COPY.disks, usage=SMALL, available_bytes=200 * GIB)
    found = cures(replace(alone, tasks=(TRAINER_OLD, *read), job=replace(FETCHING, workers=read)))
    assert {"keep_in_memory", "copy_data"} & set(found) == {cure}


def test_the_size_of_a_copy_is_the_largest_possible() -> None:
    assert cure_text("copy_data", COPY).startswith("copy /data (at most 1 TB and ~")
    shared = replace(
        COPY, disks=(replace(SLOW_SSD, mount="/home"), NVME), usage={**USED_1TB, "/home": USED_1TB["/data"]}
    )
    assert cure_text("copy_data", shared) == "copy its dataset on /home to /raid (nvme0n1, 11 TB of room)"


def test_a_copy_to_an_nvme_disk_reached_over_a_network_is_not_advised() -> None:
    assert "copy_data" not in cures(replace(COPY, disks=(SLOW_SSD, replace(NVME, detail="NVMe over rdma"))))


def test_a_copy_to_a_slow_disk_or_a_boot_filesystem_is_not_advised() -> None:
    busy = replace(NVME, read_bytes_per_s=900 * MB, await_ms=9.0, busy=1.0)
    assert "copy_data" not in cures(replace(COPY, disks=(SLOW_SSD, busy)))
    boot = replace(COPY, disks=(SLOW_SSD, replace(NVME, mount="/boot")), usage={**USED_1TB, "/boot": USED_1TB["/raid"]})
    assert "copy_data" not in cures(boot)


def test_the_advice_names_what_fills_the_mount() -> None:
    full = replace(JOB_HEALTHY, usage=FULL)
    assert cure_text("make_room", full) == "delete old checkpoints and logs on /data"
    for mount, cure in (
        ("/boot", "remove old kernels from /boot with the package manager"),
        ("/boot/efi", "remove old kernels from /boot/efi with the package manager"),
        ("/", "run du -xh / | sort -h | tail to see what fills it"),
        ("/var/log", "run du -xh /var/log | sort -h | tail to see what fills it"),
    ):
        assert cure_text("make_room", replace(JOB_HEALTHY, usage={mount: FULL["/data"]})) == cure
    for mount in ("/", "/data"):
        assert cure_text("make_room", replace(JOB_HEALTHY, usage={mount: NO_INODES["/data"]})) == (
            f"pack or delete small files: du --inodes -x {mount} | sort -n | tail shows where they are"
        )


def test_only_the_faulty_gpu_is_reset() -> None:
    assert "(nvidia-smi -i 2 --gpu-reset)" in cure_text("reset_gpu", GPU_SCENES["gpu_fault board"])


def test_for_another_users_process_the_advice_is_to_ask_that_user() -> None:
    shared = replace(SHARED, tasks=(TRAINER_OLD, *SLOWED_LOADERS, *BOBS_FIO))
    assert cure_text("ask_owner", shared) == (
        "ask bob to run fio (pid 702) later, at low priority, or on a disk other than sda"
    )
    assert cure_text("ask_owner", STOPPED) == "ask alice to continue it: kill -CONT 50, or thaw its cgroup"


def test_a_memory_limit_is_named_if_it_is_the_cause() -> None:
    machine = with_job(STATE_SCENES["mem_pressure"], memory_limit=10 * GIB, memory_used=int(9.9 * GIB))
    assert cure_text("less_memory", machine).startswith("raise the memory limit of 10 GB, or use fewer workers")
    roomy = with_job(machine, memory_used=3 * GIB)
    assert cure_text("less_memory", roomy).startswith("use fewer workers")


def test_a_larger_shm_is_advised_only_if_half_of_the_memory_exceeds_its_size() -> None:
    assert "remount" in cure_text("larger_shm", replace(STATE_SCENES["shm_full"], total_bytes=64 * GIB))
    assert "remount" not in cure_text("larger_shm", replace(STATE_SCENES["shm_full"], total_bytes=2 * GIB))
    assert cure_text("larger_shm", replace(IN_CONTAINER, total_bytes=2 * GIB)).startswith("use fewer workers")


def test_a_container_is_started_with_twice_its_shm_and_at_least_8_gb() -> None:
    assert "--shm-size=8g" in cure_text("larger_shm", IN_CONTAINER)
    assert "--shm-size=32g" in cure_text("larger_shm", with_job(IN_CONTAINER, shm_total=16 * GIB))
    inside = replace(STATE_SCENES["shm_full"], container="docker")
    assert "start the container with --shm-size=8g" in cure_text("larger_shm", inside)
    assert "mount" not in cure_text("larger_shm", inside)


def test_an_lxc_container_changes_the_size_of_its_shm_itself() -> None:
    inside = replace(STATE_SCENES["shm_full"], container="lxc")
    assert cure_text("larger_shm", inside).startswith("run mount -o remount,size=50% /dev/shm, or use fewer workers")
    docker = with_job(inside, label="container 0123456789ab")
    assert "start the container with --shm-size=8g" in cure_text("larger_shm", docker)


def test_the_advice_for_a_larger_shm_after_a_worker_died_depends_on_the_container() -> None:
    bus = (ended("worker", -7, "pt_data_worker", 101),)
    assert "mount -o remount,size=50% /dev/shm, " in cure_text("larger_shm", replace(JOB_HEALTHY, events=bus))
    contained = with_job(replace(JOB_HEALTHY, events=bus), label="pod 1a2b3c4d", shm_total=16 * GIB)
    assert "start the container with --shm-size=32g" in cure_text("larger_shm", contained)
    gone = replace(GONE, events=bus)
    assert "(in a container: start it with --shm-size=8g)" in cure_text("larger_shm", gone)
    assert "start the container with --shm-size=8g" in cure_text("larger_shm", replace(gone, container="docker"))


def test_a_copy_of_remote_data_to_the_fast_disk_is_advised() -> None:
    remote = with_job(JOB_ALONE, mounts=NFS)
    assert cure_text("stage_local", replace(remote, disks=(Disk(),))).endswith("to a local disk before the run")
    local = replace(remote, disks=(Disk(), NVME), usage=USED_1TB)
    assert (
        cure_text("stage_local", local) == "copy its dataset on /nfs to /raid (nvme0n1, 11 TB of room) before the run"
    )


def test_for_a_link_at_its_full_width_a_wider_one_is_not_advised() -> None:
    assert cure_text("reseat", GPU_SCENES["pcie narrow"]).endswith("its link can do gen 5 x16")
    assert cure_text("reseat", GPU_SCENES["pcie replays"]).endswith("its link repeats packets")


def test_a_copy_to_the_array_of_the_slow_disk_is_not_advised() -> None:
    members = [
        replace(NVME, name=f"nvme{i}n1", mount="", holders=("md0",), major=259 + i, await_ms=latency,
                read_bytes_per_s=100 * MB, busy=0.9)
        for i, latency in enumerate((0.35, 0.35, 1.3))
    ]  # fmt: skip
    array = Disk("md0", "virtual", kind="md", slaves=tuple(one.name for one in members), major=9)
    half = FilesystemUsage(4 * TB, 3 * TB, 3 * TB, 0, 0)
    machine = replace(COPY, disks=(*members, array), usage={"/data": half}, available_bytes=GIB)
    assert play((machine, 20))[-1].verdict.primary.subject == "nvme2n1"
    assert "copy_data" not in cures(machine)
    other = replace(NVME, name="nvme8n1", major=300)
    beside = replace(machine, disks=(*members, array, other), usage={"/data": half, "/raid": half})
    assert "to /raid (nvme8n1" in cure_text("copy_data", beside)
