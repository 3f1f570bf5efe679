"""The cgroup of a job: files modelled on the kernel's documentation, and a real cgroup of this machine."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from iotop_ai.collectors.base import take_reading
from iotop_ai.collectors.block.inventory import BlockInfoCollector
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.job.cgroup import CgroupCollector, own_path, parse_io_stat, parse_v1_io
from iotop_ai.collectors.job.cgroup_limits import read_cores
from iotop_ai.collectors.job.cgroup_paths import levels
from iotop_ai.model.block.counters import BlockInfo
from iotop_ai.model.job.cgroup import Cgroup, CgroupCpu, CgroupIo, CgroupMemory, CgroupTable, cgroup_rates
from iotop_ai.model.job.records import Job, Rank
from iotop_ai.model.machine.pressure import PressureTotals
from iotop_ai.model.process.records import ProcessKey
from tests.collectors.job.cgroup_lines import docker_hybrid, slurm_v1
from tests.rigs.slowdisk.loop import whole_disk

KEY = ProcessKey(10, 1)
V1 = Path("/sys/fs/cgroup")
IO = "blkio.throttle.io_service_bytes"
NOT_COUNTED = CgroupIo(None, None, None, None)
BUSY = """\
import mmap, os, sys
for path in sys.argv[2:]:
    open(path + "/cgroup.procs", "w").write(str(os.getpid()))
kept, block = bytearray(1 << 20), mmap.mmap(-1, 1 << 16)
file = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
while True:
    os.preadv(file, [block], 0)
    sum(range(20000))
"""


class FoundJobs:
    """Stands in for the jobs' collector, with a job for each of these pids."""

    def __init__(self, *pids: int) -> None:
        keys = [ProcessKey(pid, 1) for pid in pids]
        self.jobs: Mapping[ProcessKey, Job] = {key: Job(key, "train.py", "alice", 1000, (Rank(key),)) for key in keys}


def put(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def read(root: Path, *pids: int) -> CgroupTable:
    reading = take_reading(CgroupCollector(Root(str(root)), Clock(), FoundJobs(*pids)), Clock())
    assert reading.value is not None, reading.reason
    return reading.value


V2 = {
    "proc/10/cgroup": "0::/train.slice/job\n",
    "proc/11/cgroup": "0::/train.slice/job\n",
    "proc/12/cgroup": "0::/\n",
    "proc/13/cgroup": "0::/../../elsewhere\n",
    "sys/fs/cgroup/cgroup.controllers": "io cpu memory\n",
    "sys/fs/cgroup/train.slice/job/io.stat": (
        "254:0 rbytes=90112 wbytes=4096 rios=22 wios=1 dbytes=0 dios=0\n8:16 \n"
        "259:1 rbytes=512 wbytes=0 rios=1 wios=0\n"
    ),
    "sys/fs/cgroup/train.slice/job/io.pressure": (
        "some avg10=0.00 avg60=0.00 avg300=0.00 total=500\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=400\n"
    ),
    "sys/fs/cgroup/train.slice/job/memory.current": "1000000\n",
    "sys/fs/cgroup/train.slice/job/memory.high": "2000000\n",
    "sys/fs/cgroup/train.slice/job/memory.max": "max\n",
    "sys/fs/cgroup/train.slice/job/memory.stat": "anon 300\nfile 700\nworkingset_refault_file 5\n",
    "sys/fs/cgroup/train.slice/job/memory.events": "low 0\nhigh 8\nmax 2\noom 1\noom_kill 1\noom_group_kill 0\n",
    "sys/fs/cgroup/train.slice/job/cpu.max": "150000 100000\n",
    "sys/fs/cgroup/train.slice/job/cpu.stat": (
        "usage_usec 5000\nuser_usec 4000\nsystem_usec 1000\nnr_periods 10\nnr_throttled 4\nthrottled_usec 3000\n"
    ),
}
V2_FOUND = Cgroup(
    {"254:0": CgroupIo(90112, 4096, 22, 1), "259:1": CgroupIo(512, 0, 1, 0)},
    CgroupMemory(1000000, 2000000, None, 300, 700, 5, 8, 2, 1),
    CgroupCpu(5000, 150000, 100000, 10, 4, 3000),
    {"io": PressureTotals(500, 400)},
)


@pytest.mark.parametrize(("quota", "cores"), [("25000 100000", 0.25), ("max 100000", None), ("99900000 100000", None)])
def test_a_process_can_use_the_cores_of_its_affinity_and_of_its_quota(
    tmp_path: Path, quota: str, cores: float | None
) -> None:
    put(tmp_path, {"proc/self/cgroup": "0::/job\n", "sys/fs/cgroup/cgroup.controllers": "cpu\n"})
    put(tmp_path, {"sys/fs/cgroup/job/cpu.max": f"{quota}\n"})
    assert read_cores(Root(str(tmp_path))) == (cores or len(os.sched_getaffinity(0)))


@pytest.mark.parametrize(
    ("top", "job", "found"),
    [
        ({"release_agent": "", IO: "Total 0\n"}, "Total 0\n", None),
        ({"release_agent": "", IO: "8:0 Read 0\nTotal 0\n"}, "Total 0\n", {"8:16": NOT_COUNTED}),
        ({"release_agent": "", IO: "8:0 Read 0\n8:16 Read 0\nTotal 0\n"}, "Total 0\n", {}),
        # In a container, the container's cgroup lists only the disks on which it moved bytes.
        ({IO: "Total 0\n"}, "Total 0\n", None),
        ({IO: "8:0 Read 9\nTotal 9\n"}, "Total 0\n", {}),
    ],
)
def test_v1_counts_a_disk_only_after_a_limit_was_set_on_it(
    tmp_path: Path, top: dict[str, str], job: str, found: dict[str, CgroupIo] | None
) -> None:
    blkio = "sys/fs/cgroup/blkio"
    disks = {"sda": "8:0", "sdb": "8:16", "loop0": "7:0", "dm-0": "253:0"}
    put(
        tmp_path,
        {"proc/10/cgroup": "2:blkio:/job\n0::/\n", f"{blkio}/job/{IO}": job}
        | {f"{blkio}/{name}": text for name, text in top.items()}
        | {f"sys/block/{name}/dev": f"{number}\n" for name, number in disks.items()},
    )
    (group,) = read(tmp_path, 10).groups.values()
    assert group.io == found


def test_a_deeply_nested_cgroup_keeps_its_nearest_and_its_outermost_levels() -> None:
    assert list(levels("/a/b")) == ["a/b", "a", ""]
    parts = [f"c{number}" for number in range(40)]
    found = list(levels("/" + "/".join(parts)))
    assert len(found) == 16
    assert found[0] == "/".join(parts)
    assert found[-2:] == ["c0", ""]
    assert list(levels("/../job")) == []


def test_a_cgroup_of_v2_is_read_once_for_all_its_jobs(tmp_path: Path) -> None:
    put(tmp_path, V2)
    table = read(tmp_path, 10, 11, 12, 13)
    assert table.groups == {"/train.slice/job": V2_FOUND}
    assert {key.pid: path for key, path in table.jobs.items()} == dict.fromkeys((10, 11), "/train.slice/job")


def test_the_files_of_v1_give_the_same_figures(tmp_path: Path) -> None:
    top = "sys/fs/cgroup"
    put(
        tmp_path,
        {
            "proc/10/cgroup": "4:memory:/job\n3:cpu,cpuacct:/quota/job\n2:blkio:/io\n0::/\n",
            f"{top}/blkio/io/blkio.throttle.io_service_bytes": "8:0 Read 4096\n8:0 Write 512\nTotal 4608\n",
            f"{top}/blkio/io/blkio.throttle.io_serviced": "8:0 Read 2\n8:0 Write 1\n8:0 Total 3\nTotal 3\n",
            f"{top}/memory/job/memory.usage_in_bytes": "900\n",
            f"{top}/memory/job/memory.limit_in_bytes": "9223372036854771712\n",
            f"{top}/memory/job/memory.failcnt": "0\n",
            f"{top}/memory/job/memory.stat": "cache 1\nrss 2\ntotal_cache 600\ntotal_rss 300\n",
            f"{top}/memory/job/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
            f"{top}/cpu/quota/job/cpu.cfs_quota_us": "-1\n",
            f"{top}/cpu/quota/job/cpu.cfs_period_us": "100000\n",
            f"{top}/cpu/quota/job/cpu.stat": "nr_periods 9\nnr_throttled 4\nthrottled_time 5000000\n",
            f"{top}/cpuacct/quota/job/cpuacct.usage": "7000000\n",
        },
    )
    assert read(tmp_path, 10).groups == {
        "/job": Cgroup(
            {"8:0": CgroupIo(4096, 512, 2, 1)},
            CgroupMemory(900, None, None, 300, 600, None, None, 0, 3),
            CgroupCpu(7000, None, 100000, 9, 4, 5000),
        )
    }


def memory_v1(path: str, used: int) -> dict[str, str]:
    return {f"sys/fs/cgroup/memory{path}/memory.usage_in_bytes": f"{used}\n"}


def memory_by_pid(table: CgroupTable) -> dict[int, tuple[str, int | None]]:
    return {key.pid: (path, table.groups[path].memory.current_bytes) for key, path in table.jobs.items()}


def test_each_container_has_its_own_figures_though_all_share_the_daemons_cgroup_of_v2(tmp_path: Path) -> None:
    one, two = (f"/docker/{letter * 64}" for letter in "ab")
    put(tmp_path, {"proc/10/cgroup": docker_hybrid("a" * 64), "proc/11/cgroup": docker_hybrid("b" * 64)})
    put(tmp_path, memory_v1(one, 700) | memory_v1(two, 100))
    assert memory_by_pid(read(tmp_path, 10, 11)) == {10: (one, 700), 11: (two, 100)}


def test_jobs_with_one_path_share_only_the_controllers_that_they_have_in_common(tmp_path: Path) -> None:
    unified = "sys/fs/cgroup/unified/user.slice"
    put(tmp_path, {f"proc/{pid}/cgroup": f"4:memory:/m{pid}\n0::/user.slice\n" for pid in (10, 11)})
    put(tmp_path, {f"{unified}/cpu.stat": "usage_usec 5000\n"} | memory_v1("/m10", 700) | memory_v1("/m11", 100))
    for pids, used in (((10, 11), None), ((10,), 700), ((11,), 100)):
        table = read(tmp_path, *pids)
        assert memory_by_pid(table) == dict.fromkeys(pids, ("/user.slice", used))
        assert table.groups["/user.slice"].cpu == CgroupCpu(5000)


def test_figures_of_the_daemons_cgroup_are_not_the_jobs(tmp_path: Path) -> None:
    """Slurm makes no blkio cgroup for its job, and Docker none of v2, so the job is in the daemon's cgroup there."""
    task, container = "/slurm/uid_1000/job_77/step_0/task_0", f"/docker/{'a' * 64}"
    slurm, docker = tmp_path / "slurm", tmp_path / "docker"
    daemon = "sys/fs/cgroup/blkio/system.slice/slurmd.service"
    put(slurm, {"proc/10/cgroup": slurm_v1(77), f"{daemon}/{IO}": "8:0 Read 500\nTotal 500\n"} | memory_v1(task, 700))
    assert read(slurm, 10).groups == {task: Cgroup(memory=CgroupMemory(700))}
    daemon = "sys/fs/cgroup/unified/system.slice/containerd.service"
    waits = "some avg10=0.00 avg60=0.00 avg300=0.00 total=500\n"
    put(docker, {"proc/10/cgroup": docker_hybrid("a" * 64), f"{daemon}/io.pressure": waits} | memory_v1(container, 700))
    assert read(docker, 10).groups == {container: Cgroup(memory=CgroupMemory(700))}


def read_as_one_job(root: Path, *pids: int) -> CgroupTable:
    jobs = FoundJobs()
    keys = [ProcessKey(pid, 1) for pid in pids]
    jobs.jobs = {keys[0]: Job(keys[0], "train.py", "alice", 1000, tuple(map(Rank, keys)))}
    return CgroupCollector(Root(str(root)), Clock(), jobs).read()


def test_the_cgroup_of_ranks_in_several_tasks_is_that_of_their_step(tmp_path: Path) -> None:
    step = "/system.slice/slurmstepd.scope/job_9/step_0/user"
    for task in range(8):
        put(tmp_path, {f"proc/{10 + task}/cgroup": f"0::{step}/task_{task}\n"})
        put(tmp_path, {f"sys/fs/cgroup{step}/task_{task}/memory.current": "100\n"})
    put(tmp_path, {"sys/fs/cgroup/cgroup.controllers": "", f"sys/fs/cgroup{step}/memory.current": "800\n"})
    table = read_as_one_job(tmp_path, *range(10, 18))
    assert table.groups == {step: Cgroup(memory=CgroupMemory(800))}
    assert table.jobs == {KEY: step}
    # The cgroup of a rank that has ended is unknown.
    assert read_as_one_job(tmp_path, *range(10, 19)) == table
    # With a rank of another step, the cgroup is that of the batch job.
    put(tmp_path, {"proc/18/cgroup": "0::/system.slice/slurmstepd.scope/job_9/step_1/user/task_0\n"})
    assert list(read_as_one_job(tmp_path, *range(10, 19)).groups) == ["/system.slice/slurmstepd.scope/job_9"]


def test_the_cgroup_of_ranks_in_several_tasks_is_found_by_controller_in_v1(tmp_path: Path) -> None:
    step, top = "/slurm/uid_1000/job_77/step_0", "sys/fs/cgroup"
    put(tmp_path, {f"proc/{10 + task}/cgroup": slurm_v1(77, task) for task in range(2)})
    put(tmp_path, {f"{top}/cpuacct{step}/cpuacct.usage": "7000000\n"} | memory_v1(step, 800))
    put(tmp_path, {f"{top}/blkio/system.slice/slurmd.service/{IO}": "8:0 Read 500\nTotal 500\n"})
    assert read_as_one_job(tmp_path, 10, 11).groups == {
        step: Cgroup(memory=CgroupMemory(800), cpu=CgroupCpu(7000)),
    }


@pytest.mark.parametrize(("file", "read_bytes"), [(IO, None), (f"{IO}_recursive", 500)])
def test_the_bytes_of_all_containers_of_a_pod_are_known_only_if_the_kernel_sums_them(
    tmp_path: Path, file: str, read_bytes: int | None
) -> None:
    pod = "/kubepods/pod3f2a1b0c-1111-2222-3333-444455556666"
    put(tmp_path, {f"proc/{pid}/cgroup": f"3:blkio:{pod}/{letter * 64}\n" for pid, letter in ((10, "a"), (11, "b"))})
    put(tmp_path, {f"sys/fs/cgroup/blkio{pod}/{file}": "8:0 Read 500\nTotal 500\n"})
    found = [group.io for group in read_as_one_job(tmp_path, 10, 11).groups.values()]
    assert found == ([] if read_bytes is None else [{"8:0": CgroupIo(read_bytes, None, None, None)}])


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (docker_hybrid("a" * 64), docker_hybrid("b" * 64)),
        ("0::/user.slice/user-1000.slice/session-1.scope\n", "0::/user.slice/user-1000.slice/session-2.scope\n"),
        ("0::/slurmstepd.scope/job_8/step_0\n", "0::/slurmstepd.scope/job_9/step_0\n"),
        (f"0::/docker/{'a' * 64}/job_8/step_0\n", f"0::/docker/{'a' * 64}/job_9/step_0\n"),
        (f"0::/docker/{'a' * 64}\n", "0::/\n"),
    ],
)
def test_ranks_in_cgroups_of_different_jobs_or_sessions_have_no_cgroup_in_common(
    tmp_path: Path, one: str, two: str
) -> None:
    put(tmp_path, {"proc/10/cgroup": one, "proc/11/cgroup": two})
    assert read_as_one_job(tmp_path, 10, 11).groups == {}


def test_absent_files_are_unknown_and_without_a_job_nothing_is_read(tmp_path: Path) -> None:
    put(tmp_path, {"proc/10/cgroup": "0::/job\n", "sys/fs/cgroup/cgroup.controllers": ""})
    assert read(tmp_path, 10).groups == {"/job": Cgroup()}
    assert read(tmp_path) == CgroupTable({}, {}, os.sysconf("SC_PAGE_SIZE"))
    collector = CgroupCollector(Root(str(tmp_path)), Clock(), FoundJobs())
    first = take_reading(collector, Clock())
    assert take_reading(collector, Clock()).at_ns == first.at_ns
    assert own_path({"": "/", "memory": "/a/../b"}) == ""
    assert own_path({"freezer": "/a", "": "/"}) == ""
    assert parse_io_stat(b"\n254:0 rbytes=x\n") == {}


def test_io_is_unknown_while_its_file_cannot_be_read(tmp_path: Path) -> None:
    put(tmp_path, V2)
    file = tmp_path / "sys/fs/cgroup/train.slice/job/io.stat"
    text = file.read_text()
    good = read(tmp_path, 10)
    file.unlink()
    file.mkdir()  # a folder can be opened, but a read fails
    failed = read(tmp_path, 10)
    file.rmdir()
    file.write_text(text)
    assert failed.groups == {"/train.slice/job": V2_FOUND._replace(io=None)}
    for before, after in ((good, failed), (failed, read(tmp_path, 10))):
        rates = cgroup_rates(before, after, 2.0, disks(vda=(254, 0)))["/train.slice/job"]
        assert (rates.read_bytes_per_s, rates.write_bytes_per_s) == (None, None)


def test_the_figures_belong_to_the_last_device_of_their_line() -> None:
    raw = b"7:7 7:6 7:5 7:4 rbytes=28672 wbytes=0 rios=22 wios=0 dbytes=0 dios=0\n252:0 \n"
    assert parse_io_stat(raw) == {"7:4": CgroupIo(28672, 0, 22, 0)}


def test_hidden_paths_of_a_multipath_disk_are_left_out() -> None:
    path = b"(unknown) rbytes=512 wbytes=0 rios=1 wios=0\n"
    assert parse_io_stat(b"259:1 rbytes=512 wbytes=0 rios=1 wios=0\n" + path) == {"259:1": CgroupIo(512, 0, 1, 0)}
    assert parse_v1_io(b"259:1 Read 512\n(unknown) Read 512\n", b"(unknown) Read 1\nTotal 1\n") == {
        "259:1": CgroupIo(512, None, None, None)
    }


def test_the_io_of_a_machine_with_many_disks_is_read_completely(tmp_path: Path) -> None:
    lines = "".join(f"8:{n} rbytes={n} wbytes=0 rios=1 wios=0 dbytes=0 dios=0\n" for n in range(400))
    assert len(lines) > 16_384
    top = "sys/fs/cgroup"
    put(tmp_path, {"proc/10/cgroup": "0::/job\n", f"{top}/cgroup.controllers": "io\n", f"{top}/job/io.stat": lines})
    io = read(tmp_path, 10).groups["/job"].io
    assert io is not None
    assert (len(io), io["8:399"].read_bytes) == (400, 399)


def test_rates_come_from_two_readings_and_levels_from_one() -> None:
    later = V2_FOUND._replace(
        io={"254:0": CgroupIo(90112 + 8192, 4096, 24, 1), "8:0": CgroupIo(100, 0, 1, 0)},
        cpu=CgroupCpu(2_005_000, 150000, 100000, 30, 14, 1_003_000),
        memory=V2_FOUND.memory._replace(refaults=25, high_events=28),
        pressure={"io": PressureTotals(1_000_500, 400)},
    )
    before, after = CgroupTable({"/job": V2_FOUND}), CgroupTable({"/job": later})
    rates = cgroup_rates(before, after, 2.0, disks(vda=(254, 0), sda=(8, 0)))["/job"]
    assert (rates.read_bytes_per_s, rates.write_bytes_per_s) == (4096 + 50, 0)
    assert (rates.cpu_cores, rates.throttled_ratio, rates.throttled_s_per_s) == (1.0, 0.5, 0.5)
    assert (rates.memory_ratio, rates.refault_file_bytes_per_s, rates.high_per_s) == (0.5, 40960, 10)
    assert (rates.io_some_ratio, rates.io_full_ratio, rates.cpu_some_ratio) == (0.5, 0.0, None)
    assert rates.devices["254:0"].reads_per_s == 1
    assert cgroup_rates(before, after, 2.0)["/job"].read_bytes_per_s is None
    first = cgroup_rates(None, after, None, disks(vda=(254, 0)))["/job"]
    assert (first.read_bytes_per_s, first.throttled_ratio, first.memory_ratio) == (None, None, 0.5)
    fallen = cgroup_rates(after, before, 2.0)["/job"]
    assert (fallen.cpu_cores, fallen.devices["254:0"].read_bytes_per_s) == (None, None)


def disks(**numbers: tuple[int, int]) -> dict[str, BlockInfo]:
    return {name: BlockInfo(name, *number, "disk", name) for name, number in numbers.items()}


MIB = 1 << 20


@pytest.mark.parametrize(
    ("grown", "total"),
    [
        ({"8:0": 100, "253:0": 100, "7:0": 30}, 100),
        ({"8:0": 100, "8:16": 50, "253:0": 100}, 150),
        ({"8:0": 0, "253:0": 0}, 0),
        ({"8:0": -400, "8:16": 50}, None),
        ({"8:0": 100, "253:0": -400}, None),
        ({"8:0": 0, "253:0": 100, "8:16": 50}, 150),
        ({"253:0": 100}, 100),
        ({"8:0": 20, "253:0": 100}, 100),
        ({"8:0": 130, "253:0": 60, "253:1": 40}, 130),
        ({"8:32": 0, "8:48": 0, "9:0": 40, "253:2": 30, "253:3": 20}, 50),
        ({"8:32": 200, "8:48": 200, "9:0": 200, "253:2": 200}, 400),
        ({"9:0": 70, "253:2": 30}, 70),
        ({"7:0": 30, "253:4": 30}, 0),
        ({"8:0": 100, "259:9": 5}, None),
        ({"8:0": 100, "259:9": 0}, 100),
        ({}, 0),
    ],
)
def test_bytes_count_once_in_a_stack_of_devices(grown: dict[str, int], total: int | None) -> None:
    """dm-0 and dm-1 lie on a partition of sda, dm-2 and dm-3 on md0 of sdc and sdd, dm-4 on a loop over a file in dm-0.

    259:9 is a device that the inventory does not have.
    """

    def dm(number: int, *slaves: str) -> BlockInfo:
        return BlockInfo(f"dm-{number}", 253, number, "dm", "data", slaves=slaves)

    above = [dm(0, "sda1"), dm(1, "sda1"), dm(2, "md0"), dm(3, "md0"), dm(4, "loop0")]
    infos = disks(sda=(8, 0), sdb=(8, 16), sdc=(8, 32), sdd=(8, 48)) | {one.name: one for one in above}
    infos["sda1"] = BlockInfo("sda1", 8, 1, "partition", "sda1", parent="sda")
    infos["md0"] = BlockInfo("md0", 9, 0, "md", "md0", slaves=("sdc", "sdd"))
    infos["loop0"] = BlockInfo("loop0", 7, 0, "loop", "loop0")

    def table(times: int) -> CgroupTable:
        return CgroupTable({"/job": Cgroup({n: CgroupIo((500 + times * g) * MIB, 0, 0, 0) for n, g in grown.items()})})

    rates = cgroup_rates(table(0), table(1), 1.0, infos)["/job"]
    assert rates.read_bytes_per_s == (None if total is None else total * MIB)
    assert rates.write_bytes_per_s == 0


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process in new cgroups that allow a tenth of a CPU and 8 MB."""
    if os.geteuid() or not os.access(V1 / "memory/memory.limit_in_bytes", os.F_OK):
        pytest.skip("needs root and cgroup v1")
    disk = whole_disk(tmp_path)
    if disk is None:
        pytest.skip("needs a folder for temporary files on a disk")
    folders = [(V1 / name).resolve() for name in ("memory", "cpu", "cpuacct", "blkio")]
    # The controllers cpu and cpuacct often share one hierarchy.
    paths = [folder / f"iotop-ai-test-{os.getpid()}" for folder in dict.fromkeys(folders)]
    for path in paths:
        path.mkdir()
    (paths[0] / "memory.limit_in_bytes").write_text("8388608")
    (paths[1] / "cpu.cfs_quota_us").write_text("10000")
    file = tmp_path / "data"
    file.write_bytes(os.urandom(1 << 20))
    # From this write on, the kernel counts the bytes of this disk.
    (paths[-1] / "blkio.throttle.read_bps_device").write_text(f"{disk} {1 << 40}")
    busy = subprocess.Popen([sys.executable, "-c", BUSY, str(file), *map(str, paths)])
    try:
        while str(busy.pid) not in (paths[-1] / "cgroup.procs").read_text().split():
            assert busy.poll() is None
            time.sleep(0.02)
        time.sleep(0.5)
        yield busy
    finally:
        busy.kill()
        busy.wait()
        for path in paths:
            path.rmdir()


def test_a_real_quota_and_a_real_limit_are_seen_to_take_effect(limited: subprocess.Popen[bytes]) -> None:
    collector = CgroupCollector(Root(), Clock(), FoundJobs(limited.pid))
    infos = BlockInfoCollector(Root(), Clock()).read()
    after, end, read = take_reading(collector, Clock()), time.monotonic() + 60, 0.0
    while read <= 100_000:  # the scheduler may take a while to let the process read
        assert limited.poll() is None
        assert time.monotonic() < end, "the process has read nothing"
        before = after
        time.sleep(1.5)
        after = take_reading(collector, Clock())
        assert before.value is not None
        assert after.value is not None
        assert before.at_ns is not None
        assert after.at_ns is not None
        seconds = (after.at_ns - before.at_ns) / 1e9
        ((path, rates),) = cgroup_rates(before.value, after.value, seconds, infos).items()
        read = rates.read_bytes_per_s or 0.0
    assert path.endswith(f"iotop-ai-test-{os.getpid()}")
    assert after.value.groups[path].memory.max_bytes == 8388608
    assert after.value.groups[path].cpu.quota_us == 10000
    assert rates.cpu_cores == pytest.approx(0.1, abs=0.05)
    assert (rates.throttled_ratio or 0) > 0.7
    assert 0 < (rates.memory_ratio or 0) <= 1
