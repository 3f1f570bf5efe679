"""A job's environment, from files modelled on the kernel's documentation: cgroups v1 and v2, and data mounts."""

from __future__ import annotations

import os
import pty
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.job.cgroup_limits import parse_io_max, parse_v1_limits
from iotop_ai.collectors.job.cgroup_paths import parse_cgroups
from iotop_ai.collectors.job.environment import (
    EnvironmentReader,
    cpu_numbers,
    parse_tcp,
)
from iotop_ai.model.job.records import IoLimit, Job, JobMount, Rank
from iotop_ai.model.job.serving import may_rest
from iotop_ai.model.job.task_states import NET, QUEUE, wait_state_of
from iotop_ai.model.process.records import ProcessKey
from tests.waiting import until

KEY = ProcessKey(10, 1)
JOB = Job(KEY, "train.py", "alice", 1000, (Rank(KEY),))
MOUNTINFO = (
    "25 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
    "40 25 8:1 / /data ro,noatime - ext4 /dev/sda1 ro\n"
    "41 25 0:50 / /nfs rw - nfs4 srv:/in21k rw\n"
)


def put(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def opened(root: Path, number: int, target: str, mount: int, flags: str = "0100000") -> None:
    folder = root / "proc/10/fd"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / str(number)).symlink_to(target)
    put(root, {f"proc/10/fdinfo/{number}": f"pos:\t0\nflags:\t{flags}\nmnt_id:\t{mount}\nino:\t5\n"})


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to see another process's call under any yama setting")
@pytest.mark.parametrize(
    ("program", "at_terminal"),
    [("input()", True), ("import select; select.select([0], [], [])", True), ("input()", False)],
)
def test_a_program_that_waits_at_its_terminal_is_known(program: str, at_terminal: bool) -> None:
    terminal, its_end = pty.openpty()
    stdin = its_end if at_terminal else subprocess.PIPE
    child = subprocess.Popen([sys.executable, "-c", program], stdin=stdin, stdout=its_end)
    key = ProcessKey(child.pid, 1)
    reader = EnvironmentReader(Root())
    try:
        until(lambda: wait_state_of(b"S", Path(f"/proc/{child.pid}/wchan").read_bytes()) in (NET, QUEUE))
        assert reader.read(Job(key, "chat.py", "root", 0, (Rank(key),))).waits_for_input is at_terminal
    finally:
        reader.close()
        child.kill()
        child.communicate()
        os.close(terminal)
        os.close(its_end)


def test_limits_of_a_v2_cgroup_and_of_its_parent_are_read(tmp_path: Path) -> None:
    put(
        tmp_path,
        {
            "proc/10/cgroup": "0::/slice/job\n",
            "proc/10/status": "Name:\tpython\nCpus_allowed_list:\t0-3,8\n",
            "sys/fs/cgroup/cgroup.controllers": "io cpu memory\n",
            "sys/fs/cgroup/slice/job/io.max": "254:0 rbps=8388608 wbps=max riops=max wiops=100\n",
            "sys/fs/cgroup/slice/io.max": "8:0 rbps=max wbps=max riops=300 wiops=max\n",
            "sys/fs/cgroup/slice/job/cpu.max": "max 100000\n",
            "sys/fs/cgroup/slice/cpu.max": "250000 100000\n",
            "sys/fs/cgroup/slice/cpu.stat": "usage_usec 5\nnr_periods 9\nnr_throttled 4\nthrottled_usec 3\n",
            "sys/fs/cgroup/slice/job/memory.max": "1073741824\n",
            "sys/fs/cgroup/slice/job/memory.current": "900\n",
            "sys/fs/cgroup/slice/job/memory.events": "low 0\nhigh 0\nmax 7\noom 0\n",
        },
    )
    place = EnvironmentReader(Root(str(tmp_path))).read(JOB)
    assert place.limits == (
        IoLimit("254:0", "read_bytes", 8388608, "slice/job/io.max"),
        IoLimit("254:0", "write_ios", 100, "slice/job/io.max"),
        IoLimit("8:0", "read_ios", 300, "slice/io.max"),
    )
    assert (place.cpu_cores, place.throttled_periods) == (2.5, 4)
    assert (place.memory_limit_bytes, place.memory_used_bytes, place.memory_failures) == (1 << 30, 900, 7)
    assert place.allowed_cores == 5
    assert place.shm_total_bytes is None


def test_limits_of_a_v1_cgroup_are_read(tmp_path: Path) -> None:
    put(
        tmp_path,
        {
            "proc/10/cgroup": "9:blkio:/job\n8:cpu,cpuacct:/job\n7:memory:/job\n0::/\n",
            "sys/fs/cgroup/blkio/job/blkio.throttle.read_bps_device": "254:0 8388608\n",
            "sys/fs/cgroup/blkio/blkio.throttle.read_iops_device": "",
            "sys/fs/cgroup/cpu/job/cpu.cfs_quota_us": "150000\n",
            "sys/fs/cgroup/cpu/job/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/memory/job/memory.limit_in_bytes": "9223372036854771712\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        },
    )
    place = EnvironmentReader(Root(str(tmp_path))).read(JOB)
    assert place.limits == (IoLimit("254:0", "read_bytes", 8388608, "blkio/job/blkio.throttle.read_bps_device"),)
    assert (place.cpu_cores, place.throttled_periods) == (1.5, None)
    assert place.memory_limit_bytes is None


@pytest.mark.parametrize(("path", "rate"), [("/job/step", 300), ("/docker/9", 100), ("/job", 200), ("/../job", None)])
def test_only_the_limits_of_the_jobs_cgroup_apply_in_v1(path: str, rate: int | None, tmp_path: Path) -> None:
    """A path that does not exist here is from a container, whose cgroup is at the root of the mount."""
    put(
        tmp_path,
        {"proc/10/cgroup": f"9:blkio:{path}\n0::/\n"}
        | {
            f"sys/fs/cgroup/blkio/{at}blkio.throttle.read_bps_device": f"254:0 {limit}\n"
            for at, limit in (("", 100), ("job/", 200), ("job/step/", 300))
        },
    )
    found = EnvironmentReader(Root(str(tmp_path))).read(JOB).limits
    assert [limit.value for limit in found] == ([] if rate is None else [rate])


def test_a_job_outside_our_cgroup_namespace_does_not_get_our_limits(tmp_path: Path) -> None:
    top = "sys/fs/cgroup"
    put(
        tmp_path,
        {
            "proc/10/cgroup": "0::/../cri-containerd-job.scope\n",
            f"{top}/cgroup.controllers": "cpu io memory\n",
            f"{top}/memory.max": "1073741824\n",
            f"{top}/memory.current": "900\n",
            f"{top}/cpu.max": "150000 100000\n",
            f"{top}/io.max": "254:0 rbps=8388608 wbps=max riops=max wiops=max\n",
        },
    )
    place = EnvironmentReader(Root(str(tmp_path))).read(JOB)
    assert (place.limits, place.cpu_cores, place.memory_limit_bytes) == ((), None, None)


def test_mounts_of_open_data_files_are_found_by_their_id(tmp_path: Path) -> None:
    put(tmp_path, {"proc/10/mountinfo": MOUNTINFO})
    opened(tmp_path, 3, "/nfs/shard-1.tar", 41)
    opened(tmp_path, 4, "/nfs/shard-2.tar", 41)
    opened(tmp_path, 5, "/data/x.jpg", 40)
    opened(tmp_path, 6, "/usr/lib/libtorch.so", 25)
    opened(tmp_path, 7, "/home/alice/train.log", 25)
    opened(tmp_path, 2, "/home/alice/steps.json", 25, "0100001")
    opened(tmp_path, 8, "pipe:[5]", 12)
    opened(tmp_path, 9, "/dev/shm/torch_1 (deleted)", 30)
    reader = EnvironmentReader(Root(str(tmp_path)))
    nfs, data = JobMount("/nfs", "nfs4", "srv:/in21k", "0:50"), JobMount("/data", "ext4", "/dev/sda1", "8:1")
    assert reader.read(JOB).mounts == (nfs, data)
    for number in range(3, 6):
        (tmp_path / f"proc/10/fd/{number}").unlink()
    assert reader.read(JOB).mounts == (nfs, data)
    reader.keep_only(frozenset())
    assert reader.read(JOB).mounts == ()


def test_the_mounts_of_ranks_in_containers_of_their_own_are_found(tmp_path: Path) -> None:
    put(tmp_path, {"proc/10/mountinfo": MOUNTINFO, "proc/20/mountinfo": "90 1 0:60 / / rw - overlay overlay rw\n"})
    for pid in (10, 20):
        (tmp_path / f"proc/{pid}/ns").mkdir()
        (tmp_path / f"proc/{pid}/ns/mnt").symlink_to(f"mnt:[40265318{pid}]")
    opened(tmp_path, 3, "/nfs/shard-1.tar", 41)
    job = JOB._replace(ranks=(Rank(ProcessKey(20, 1)), Rank(KEY)))
    assert [mount.path for mount in EnvironmentReader(Root(str(tmp_path))).read(job).mounts] == ["/nfs"]


@pytest.mark.parametrize("path", ["/library/x.jpg", "/opt/ml/input/data/x.jpg", "/run/media/alice/disk/x.jpg"])
def test_data_may_lie_in_or_beside_a_folder_of_libraries(tmp_path: Path, path: str) -> None:
    put(tmp_path, {"proc/10/mountinfo": MOUNTINFO})
    opened(tmp_path, 3, path, 40)
    opened(tmp_path, 4, "/lib/x86_64-linux-gnu/libc.bin", 25)
    opened(tmp_path, 5, "/lib64/ld.bin", 25)
    assert [mount.path for mount in EnvironmentReader(Root(str(tmp_path))).read(JOB).mounts] == ["/data"]


def test_all_workers_of_a_job_are_read_in_turn_even_beside_another_job(tmp_path: Path) -> None:
    put(tmp_path, {"proc/11/mountinfo": MOUNTINFO})
    workers = tuple(ProcessKey(pid, 1) for pid in range(11, 18))
    job = JOB._replace(ranks=(Rank(KEY, workers),))
    other = job._replace(key=ProcessKey(90, 1))
    opened(tmp_path, 3, "/data/x.jpg", 40)  # the file is open in the rank, which is the last of the eight processes
    reader = EnvironmentReader(Root(str(tmp_path)))
    seen = [(reader.read(job).mounts, reader.read(other).mounts) for _ in range(4)]
    assert all(seen[-1])


def test_the_new_mount_of_a_job_that_has_copied_its_data_is_soon_found(tmp_path: Path) -> None:
    put(tmp_path, {"proc/10/mountinfo": MOUNTINFO})
    opened(tmp_path, 3, "/nfs/shard-1.tar", 41)
    reader = EnvironmentReader(Root(str(tmp_path)))
    for second in range(0, 1800, 2):
        assert [mount.path for mount in reader.read(JOB, second * 10**9).mounts] == ["/nfs"]
    (tmp_path / "proc/10/fd/3").unlink()
    opened(tmp_path, 4, "/data/shard-1.tar", 40)
    seen = [reader.read(JOB, second * 10**9) for second in range(1800, 1880, 2)]
    assert seen[0].remote_mount is not None
    assert [mount.path for mount in seen[-1].mounts] == ["/data", "/nfs"]
    (tmp_path / "proc/10/fd/4").unlink()
    assert reader.read(JOB, 10**15).mounts == seen[-1].mounts, "the mounts changed although no other file was opened"


def test_without_readable_files_everything_is_unknown(tmp_path: Path) -> None:
    place = EnvironmentReader(Root(str(tmp_path))).read(JOB)
    assert place.limits == ()
    assert place.mounts == ()
    assert (place.cpu_cores, place.memory_limit_bytes, place.allowed_cores, place.shm_used_bytes) == (None,) * 4


def test_parsers_leave_out_lines_without_a_limit() -> None:
    assert parse_io_max(b"254:0 rbps=max wbps=max\njunk\n", "f") == ()
    assert parse_v1_limits(b"254:0 0\njunk\n254:0 x\n", "read_bytes", "f") == ()
    assert parse_cgroups(b"4:cpu,cpuacct:/a\n0::/b\n") == {"cpu": "/a", "cpuacct": "/a", "": "/b"}


@pytest.mark.parametrize(
    ("text", "cpus"),
    [(b"0-3\n", [0, 1, 2, 3]), (b" 0,2,4-5", [0, 2, 4, 5]), (b"7", [7]), (b"", []), (b"a-b", []), (b"0-", [0])],
)
def test_the_numbers_of_cpus_are_read(text: bytes, cpus: list[int]) -> None:
    assert list(cpu_numbers(text)) == cpus
    assert list(cpu_numbers(b"0-99999999999")) == []


def test_the_cpus_of_a_job_are_those_of_all_its_ranks(tmp_path: Path) -> None:
    status = "Name:\tpython\nCpus_allowed_list:\t"
    put(
        tmp_path,
        {
            "proc/10/status": f"{status}0\n",  # OpenMP bound the main thread
            "proc/11/status": f"{status}0-3\n",
            "proc/20/status": f"{status}4-7\n",
            "proc/30/status": f"{status}6-9\n",
        },
    )
    first = Rank(ProcessKey(10, 1), (ProcessKey(11, 1),))
    others = (Rank(ProcessKey(pid, 1)) for pid in (20, 30, 40))
    place = EnvironmentReader(Root(str(tmp_path))).read(JOB._replace(ranks=(first, *others)))
    assert (place.allowed_cores, place.allowed_numbers) == (10, tuple(range(10)))


TCP = (
    b"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    b"   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 1000 0 5127 1 0 100 0 0 10 0\n"
    b"   1: 0100007F:1F90 0100007F:D431 01 00000000:00000000 00:00000000 00000000 1000 0 5130 1 0 20 4 30 10 -1\n"
    b"   2: 0100007F:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 99 1 0 100 0 0 10 0\n"
    b"   3: short\n"
)


def test_sockets_are_parsed_with_their_state_and_inode() -> None:
    assert parse_tcp(TCP) == [(b"1F90", b"0A", "5127"), (b"1F90", b"01", "5130"), (b"0016", b"0A", "99")]
    assert parse_tcp(b"") == []


def test_a_real_server_listens_and_a_client_is_connected() -> None:
    key = ProcessKey(os.getpid(), 1)
    job = Job(key, "serve.py", "root", 0, (Rank(key),))
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
        place = EnvironmentReader(Root()).read(job)
        assert (place.listening or 0) >= 1
        assert (place.connections or 0) >= 1
    with_workers = job._replace(ranks=(Rank(key, (ProcessKey(1, 1),)),))
    place = EnvironmentReader(Root()).read(with_workers)
    assert (place.listening, place.connections) == (None, None)


def test_a_server_may_listen_in_another_process_than_the_one_that_computes(tmp_path: Path) -> None:
    """The API server of vLLM listens, and its engine, which has no socket, uses the GPU."""
    api, engine = ProcessKey(9, 1), ProcessKey(10, 1)
    put(tmp_path, {"proc/10/cgroup": "0::/\n", "proc/9/net/tcp6": "", "proc/10/net/tcp": "", "proc/10/net/tcp6": ""})
    (tmp_path / "proc/9/net/tcp").write_bytes(TCP)
    for pid, target in ((9, "socket:[5127]"), (10, "/models/weights")):
        (tmp_path / f"proc/{pid}/fd").mkdir()
        (tmp_path / f"proc/{pid}/fd/3").symlink_to(target)
    job = Job(api, "vllm", "root", 0, (Rank(engine),), helpers=(api,))
    place = EnvironmentReader(Root(str(tmp_path))).read(job)
    assert (place.listening, place.connections) == (1, 1)
    assert may_rest(job, place)
    of_tensorboard = Job(engine, "train.py", "root", 0, (Rank(engine),), helpers=(api,))
    assert EnvironmentReader(Root(str(tmp_path))).read(of_tensorboard).listening == 0, (
        "a child that listens serves no model"
    )


def test_the_connections_of_a_table_that_is_too_long_are_unknown(tmp_path: Path) -> None:
    row = TCP.splitlines(keepends=True)[2]
    put(tmp_path, {"proc/10/net/tcp6": "", "proc/10/cgroup": "0::/\n"})
    (tmp_path / "proc/10/fd").mkdir()
    (tmp_path / "proc/10/fd/3").symlink_to("socket:[5127]")
    for rows, connections in ((1000, 1001), (5000, None)):
        (tmp_path / "proc/10/net/tcp").write_bytes(TCP + rows * row)
        place = EnvironmentReader(Root(str(tmp_path))).read(JOB)
        assert (place.listening, place.connections) == (1, connections)


def test_a_hung_shm_is_unknown_and_queried_once(tmp_path: Path) -> None:
    put(tmp_path, {"proc/10/cgroup": "0::/\n", "proc/10/status": "Name:\tpython\nCpus_allowed_list:\t0-3\n"})
    released, asked = threading.Event(), []

    def statvfs(path: str) -> os.statvfs_result:
        asked.append(path)
        released.wait(10)
        return os.statvfs("/")

    reader = EnvironmentReader(Root(str(tmp_path)), statvfs)
    begun = time.monotonic()
    for _ in range(200):  # each query would wait for 50 ms
        place = reader.read(JOB)
        assert (place.allowed_cores, place.shm_total_bytes, place.shm_used_bytes) == (4, None, None)
    assert time.monotonic() - begun < 5
    assert asked == [f"{tmp_path}/proc/10/root/dev/shm"]
    released.set()
    end = time.monotonic() + 30
    while reader.read(JOB).shm_total_bytes is None:
        assert time.monotonic() < end
        time.sleep(0.01)
    reader.close()
