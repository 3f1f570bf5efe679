"""All details of one process: a real child with a thread, files, sockets, and secrets in its environment."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from iotop_ai.collectors.base import take_reading
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.process.collector import ProcessCollector
from iotop_ai.collectors.process.detail import DetailReader, parse_fdinfo
from iotop_ai.collectors.process.parse import PF_KTHREAD, parse_stat
from iotop_ai.model.job.cgroup import Cgroup, CgroupMemory
from iotop_ai.model.process.detail import OpenFiles, ProcessDetail, thread_cpu
from iotop_ai.model.process.records import ProcessKey
from iotop_ai.model.reading import Status
from tests.collectors.job.cgroup_lines import docker_hybrid
from tests.machines import build
from tests.rigs.descriptors import too_many_open_files
from tests.rigs.nobody import UID, as_user

CHILD = """
import os, select, socket, sys, threading, time
data = open(sys.argv[1], "rb", 0)
data.read(4096)
log = open(sys.argv[1] + ".log", "w")
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
peer, _ = server.accept()
read_end, write_end = os.pipe()
threading.Thread(target=lambda: peer.recv(1), daemon=True).start()
def spin():
    while True:
        pass
if "spin" in sys.argv:
    threading.Thread(target=spin, daemon=True).start()
print("ready", flush=True)
os.read(0, 1)
"""
OWN = frozenset((os.geteuid(),))


def key_of(pid: int) -> ProcessKey:
    return ProcessKey(pid, parse_stat(Root().read_once(f"proc/{pid}/stat", 1024)).start_ticks)


@pytest.fixture
def child(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    (tmp_path / "data.bin").write_bytes(b"x" * 8192)
    argv = [sys.executable, "-c", CHILD, str(tmp_path / "data.bin"), "spin"]
    environment = {**os.environ, "WANDB_API_KEY": "0123456789abcdef", "RUN_NAME": "a\x1b[2Jb"}
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, cwd=tmp_path)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    yield process
    process.kill()
    process.communicate()


def read(pid: int, own: frozenset[int] = OWN) -> ProcessDetail:
    return DetailReader(Root(), Clock(), own).read(key_of(pid), os.geteuid())


def test_files_have_their_mode_their_offset_and_their_mount(child: subprocess.Popen[bytes], tmp_path: Path) -> None:
    files = read(child.pid).files.value
    assert files is not None
    by_path = {one.path: one for one in files.files}
    data, log = by_path[str(tmp_path / "data.bin")], by_path[str(tmp_path / "data.bin.log")]
    assert (data.mode, data.position, data.fds, data.deleted) == ("r", 4096, 1, False)
    assert log.mode == "w"
    device = os.stat(tmp_path).st_dev
    assert data.mount is not None
    assert data.mount.device == f"{os.major(device)}:{os.minor(device)}"
    assert dict(files.others)["socket"] == 3
    assert dict(files.others)["pipe"] == 4
    assert files.number == len(os.listdir(f"/proc/{child.pid}/fd"))


def test_a_deleted_file_is_still_listed(child: subprocess.Popen[bytes], tmp_path: Path) -> None:
    (tmp_path / "data.bin").unlink()
    files = read(child.pid).files.value
    assert files is not None
    assert [one.deleted for one in files.files if one.path == str(tmp_path / "data.bin")] == [True]


def test_a_deleted_file_and_a_new_one_in_its_place_are_two_files(tmp_path: Path) -> None:
    path = tmp_path / "data.log"
    with path.open("w") as old:
        path.unlink()
        with path.open("w") as new:
            files = read(os.getpid()).files.value
            assert files is not None
            assert [(one.fds, one.deleted) for one in files.files if one.path == str(path)] == [(1, False), (1, True)]
            assert old.fileno() != new.fileno()


def test_sockets_have_their_addresses_and_states(child: subprocess.Popen[bytes]) -> None:
    sockets = read(child.pid).sockets.value
    assert sockets is not None
    assert sorted(one.state for one in sockets.sockets) == ["established", "established", "listen"]
    listening = next(one for one in sockets.sockets if one.state == "listen")
    assert listening.local.startswith("127.0.0.1:")
    assert listening.remote == ""
    assert {one.remote for one in sockets.sockets} >= {listening.local}
    assert sockets.hidden == 0


def test_threads_have_what_they_wait_for_and_their_cpu_time(child: subprocess.Popen[bytes]) -> None:
    reader, key = DetailReader(Root(), Clock(), OWN), key_of(child.pid)
    before = reader.read_changing(key).threads
    while True:  # until the spinning thread has used at least one clock tick of CPU time
        after = reader.read_changing(key).threads
        used = thread_cpu(before, after)
        if max(used.values(), default=0.0) > 0.0:
            break
    assert after.value is not None
    main, receiver, spinner = after.value.threads
    assert (main.tid, after.value.number) == (child.pid, 3)
    assert (main.call, main.target, main.state) == ("read", "pipe", "S")
    assert (receiver.call, receiver.target) == ("recvfrom", "socket")
    assert used[spinner.tid] > 0.0
    assert used[main.tid] == used[receiver.tid] == 0.0


def test_the_code_of_another_process_with_the_same_pid_is_not_read(child: subprocess.Popen[bytes]) -> None:
    key = key_of(child.pid)
    code = DetailReader(Root(), Clock(), OWN).read_code(key._replace(start_ticks=key.start_ticks - 1), os.geteuid())
    assert (code.value, code.status, code.reason) == (None, Status.ABSENT, "it has ended")


def test_the_environment_is_cleaned_and_shown_only_for_ones_own_processes(child: subprocess.Popen[bytes]) -> None:
    found = read(child.pid).environ
    assert found.value is not None
    assert dict(found.value)["RUN_NAME"] == "a\N{REPLACEMENT CHARACTER}[2Jb"
    other = read(child.pid, frozenset((12345,))).environ
    assert (other.value, other.status) == (None, Status.OFF)
    assert "own processes only" in other.reason


def test_identity_limits_and_cgroup_are_read(child: subprocess.Popen[bytes], tmp_path: Path) -> None:
    os.setpriority(os.PRIO_PROCESS, child.pid, 7)
    detail = read(child.pid)
    identity, group = detail.identity.value, detail.cgroup.value
    assert identity is not None
    assert group is not None
    assert (identity.cwd, identity.nice) == (str(tmp_path), 7)
    assert identity.exe == os.path.realpath(sys.executable)
    assert set(identity.cpus) == os.sched_getaffinity(child.pid)
    files = next(one for one in identity.limits if one.name == "open files")
    assert files.soft == resource.prlimit(child.pid, resource.RLIMIT_NOFILE)[0]
    assert group.path.startswith("/")


def test_the_cgroup_of_a_container_is_not_that_of_its_daemon(tmp_path: Path) -> None:
    folder, path = tmp_path / "proc/10", f"/docker/{'a' * 64}"
    folder.mkdir(parents=True)
    (folder / "stat").write_text(f"10 (python) S {'0 ' * 18}1 {'0 ' * 30}\n")
    (folder / "cgroup").write_text(docker_hybrid("a" * 64))
    waits = ("unified/system.slice/containerd.service/io.pressure", "some avg10=0 total=500\n")
    for name, text in ((f"memory{path}/memory.usage_in_bytes", "700\n"), waits):
        file = tmp_path / "sys/fs/cgroup" / name
        file.parent.mkdir(parents=True)
        file.write_text(text)
    group = DetailReader(Root(str(tmp_path)), Clock(), OWN).read_changing(ProcessKey(10, 1)).cgroup.value
    assert group is not None
    assert (group.path, group.group) == (path, Cgroup(memory=CgroupMemory(700)))


def test_a_process_that_has_ended_is_not_mistaken_for_one_with_its_pid(child: subprocess.Popen[bytes]) -> None:
    key, reader = key_of(child.pid), DetailReader(Root(), Clock(), OWN)
    reused = reader.read(ProcessKey(key.pid, key.start_ticks + 1), os.geteuid())
    child.kill()
    child.wait()
    for detail in (reused, reader.read(key, os.geteuid())):
        assert [(part.value, part.reason) for part in detail[1:]] == [(None, "it has ended")] * 6


def test_too_many_open_files_are_not_the_end_of_a_process() -> None:
    key, reader = key_of(os.getpid()), DetailReader(Root(), Clock(), OWN)
    collector = ProcessCollector(Root(), Clock())
    with too_many_open_files():
        detail, table = reader.read_changing(key), take_reading(collector, Clock())
    parts = (detail.threads, detail.files, detail.sockets, detail.cgroup, table)
    reasons = {(part.status, part.reason.rpartition(": ")[2]) for part in parts}
    assert reasons == {(Status.FAILED, "Too many open files")}
    assert key in collector.read().stat
    collector.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to start a process of another user")
def test_for_another_users_process_some_parts_are_not_permitted(tmp_path: Path) -> None:
    code = (
        "import os, sys\nfrom iotop_ai.collectors.process.detail import DetailReader\n"
        "from iotop_ai.collectors.io.root import Root\nfrom iotop_ai.collectors.io.clock import Clock\n"
        "from tests.collectors.process.test_detail import key_of\nimport psutil\n"
        "key = key_of(os.getppid())\nos.setgroups([])\nos.setgid(65534)\nos.setuid(65534)\n"
        "detail = DetailReader(Root(), Clock(), frozenset((65534,))).read(key, 0)\n"
        "print(detail.files.status, detail.sockets.status, detail.environ.status, detail.threads.status)\n"
        "print(detail.files.reason, '|', detail.files.remedy)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=Path.cwd())
    assert done.stdout.splitlines() == ["denied denied off ok", "it belongs to another user | sudo shows it"], (
        done.stderr
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_descriptors_whose_files_are_hidden_are_not_permitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stat = f"7 (made) S 1 7 7 0 -1 0{' 0' * 12} 70{' 0' * 30}\n"
    build({"proc/7/stat": stat.encode(), "proc/7/mountinfo": b"", "proc/7/fd/3": "/data/a.bin"}, tmp_path)
    (tmp_path / "proc/7/fd").chmod(0o744)
    tmp_path.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    reader = DetailReader(Root("."), Clock(), OWN)
    own = reader.read_changing(ProcessKey(7, 70)).files.value
    assert own is not None
    assert [file.path for file in own.files] == ["/data/a.bin"]

    def read() -> None:
        files = reader.read_changing(ProcessKey(7, 70)).files
        assert (files.status, files.value) == (Status.DENIED, None)

    assert as_user(UID, read) == 0


def test_a_kernel_thread_has_no_environment_and_has_not_ended(tmp_path: Path) -> None:
    stat = f"7 (kworker) I 2 0 0 0 -1 {PF_KTHREAD}{' 0' * 12} 70{' 0' * 30}\n"
    reader = DetailReader(build({"proc/7/stat": stat.encode()}, tmp_path), Clock(), OWN)
    environ = reader.read(ProcessKey(7, 70), os.geteuid()).environ
    assert (environ.status, environ.value) == (Status.OK, ())


def test_a_zombie_has_no_open_files() -> None:
    zombie = subprocess.Popen(["true"], stdout=subprocess.PIPE)
    assert zombie.stdout is not None
    assert zombie.stdout.read() == b""
    os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
    try:
        files = DetailReader(Root(), Clock(), OWN).read_changing(key_of(zombie.pid)).files
        assert files.value == OpenFiles((), (), 0)
    finally:
        zombie.communicate()


def test_fdinfo_is_parsed() -> None:
    assert parse_fdinfo(b"pos:\t131072\nflags:\t0100000\nmnt_id:\t27\nino:\t99\n") == ("r", 131072, 27)
    assert parse_fdinfo(b"pos:\t0\nflags:\t02100001\nmnt_id:\t27\n")[0] == "w"
    assert parse_fdinfo(b"flags:\t0100002\n") == ("rw", None, None)
    assert parse_fdinfo(b"pos:\tx\nflags:\t9\nmnt_id\n") == ("", None, None)
