"""The page cache of real files, read by each of the two system calls."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.machine.page_cache import (
    PAGE_BYTES,
    PageCache,
    measure_cached,
    read_levels,
    read_memory_room,
    room_for_data,
)
from iotop_ai.model.machine.page_cache import Cached, Levels
from tests.machines import build
from tests.rigs.nobody import UID, as_nobody, why_not_nobody

MIB = 1 << 20
WAYS = ["cachestat", "mincore"]


def evict(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def resident(path: Path, how: str) -> int:
    cache = PageCache(how)
    with path.open("rb") as file:
        found = cache.resident(file.fileno())
    if how == "cachestat" and cache.how != how:
        pytest.skip("cachestat came with Linux 6.5")
    assert found is not None
    return found.bytes


@pytest.mark.parametrize("how", WAYS)
def test_a_file_is_in_memory_after_it_was_read(disk_folder: Path, how: str) -> None:
    file = disk_folder / "data"
    file.write_bytes(os.urandom(8 * MIB + 100))
    assert resident(file, how) == 8 * MIB + 100
    evict(file)
    assert resident(file, how) == 0
    with file.open("rb", buffering=0) as opened:
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_RANDOM)  # this advice prevents read-ahead
        opened.read(MIB)
        assert MIB <= resident(file, how) < 8 * MIB


@pytest.mark.parametrize("how", WAYS)
def test_sparse_tiny_and_empty_files_are_counted(disk_folder: Path, how: str) -> None:
    (disk_folder / "tiny").write_bytes(b"x")
    assert resident(disk_folder / "tiny", how) == 1
    (disk_folder / "empty").touch()
    assert resident(disk_folder / "empty", how) == 0
    with (disk_folder / "sparse").open("wb") as file:
        file.truncate(3 << 30)  # the file is as large as three windows of mincore
    assert resident(disk_folder / "sparse", how) <= 16 * MIB


def test_a_dataset_counts_each_file_once_and_the_unknown_files(disk_folder: Path) -> None:
    (disk_folder / "sub").mkdir()
    for name in ("a", "sub/b", "sub/c"):
        (disk_folder / name).write_bytes(b"x" * MIB)
    os.link(disk_folder / "a", disk_folder / "again")
    (disk_folder / "link").symlink_to(disk_folder / "a")
    evict(disk_folder / "sub" / "c")
    progress: list[Cached] = []
    found = measure_cached(str(disk_folder), PageCache(), progress.append)
    assert (found.files, found.size_bytes, found.resident_bytes) == (3, 3 * MIB, 2 * MIB)
    assert (found.unknown_files, found.unreadable, found.elsewhere) == (0, 0, 0)
    assert found.resident_ratio == pytest.approx(2 / 3)
    with pytest.raises(FileNotFoundError):
        measure_cached(str(disk_folder / "nowhere"), PageCache())


def test_progress_is_reported_for_many_files(tmp_path: Path) -> None:
    for i in range(450):
        (tmp_path / f"f{i}").write_bytes(b"x")
    progress: list[int] = []
    measure_cached(str(tmp_path), PageCache(), lambda now: progress.append(now.files))
    assert progress == [200, 400]


@pytest.mark.skipif(bool(why_not_nobody()), reason=why_not_nobody() or "there")
@pytest.mark.parametrize("how", [*WAYS, "auto"])
def test_the_files_of_other_users_are_unknown(tmp_path: Path, how: str) -> None:
    file = tmp_path / "roots"
    file.write_bytes(b"x" * MIB)
    code = (
        "import os,sys; from iotop_ai.collectors.machine.page_cache import PageCache\n"
        f"print(PageCache({how!r}).resident(os.open({str(file)!r}, os.O_RDONLY)))"
    )
    done = subprocess.run(as_nobody(sys.executable, "-c", code), capture_output=True, text=True, check=False)
    assert done.stdout == "None\n", done.stderr


RESIDENT_BYTES = """
import os, sys
from iotop_ai.collectors.machine.page_cache import PageCache
found = PageCache(sys.argv[1]).resident(os.open(sys.argv[2], os.O_RDONLY))
print(found and found.bytes)
"""


@pytest.mark.skipif(bool(why_not_nobody()), reason=why_not_nobody() or "there")
@pytest.mark.parametrize("how", [*WAYS, "auto"])
@pytest.mark.parametrize(
    "limited",
    [["setpriv", "--bounding-set", "-all,+dac_read_search"], ["unshare", "--user", "--map-root-user"]],
    ids=["without capabilities", "in a user namespace"],
)
def test_the_files_of_other_users_are_unknown_to_a_root_without_rights(
    limited: list[str], how: str, tmp_path: Path
) -> None:
    file = tmp_path / "nobodys"
    file.write_bytes(b"x" * MIB)
    os.chown(file, UID, UID)
    if subprocess.run([*limited, "true"], check=False).returncode:
        pytest.skip(f"{limited[0]} fails here")
    command = [*limited, sys.executable, "-c", RESIDENT_BYTES, how, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "None\n", done.stderr


@pytest.mark.skipif(bool(why_not_nobody()) or shutil.which("unshare") is None, reason="needs root and unshare")
def test_root_sees_the_files_of_other_users_on_a_read_only_mount(tmp_path: Path) -> None:
    (tmp_path / "nobodys").write_bytes(b"x" * MIB)
    os.chown(tmp_path / "nobodys", UID, UID)
    mount = f"mount --bind {tmp_path} {tmp_path} && mount -o remount,bind,ro {tmp_path}"
    measure = [sys.executable, "-c", RESIDENT_BYTES, "mincore", str(tmp_path / "nobodys")]
    command = ["unshare", "--mount", "sh", "-c", f'{mount} || exit 77; exec "$@"', "sh", *measure]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 77:
        pytest.skip(done.stderr)
    assert done.stdout == f"{MIB}\n", done.stderr


IN_AN_OVERLAY = """
import os, subprocess, sys
from iotop_ai.collectors.machine.page_cache import PageCache
top = sys.argv[1]
layers = f"lowerdir={top}/lower,upperdir={top}/upper,workdir={top}/work"
mount = ["mount", "-t", "overlay", "none", "-o", layers, f"{top}/merged"]
made = subprocess.run(mount, capture_output=True, text=True)
if made.returncode:
    sys.exit(made.stderr)
cache = PageCache()
for name in ("cold", "warm"):
    print(cache.resident(os.open(f"{top}/merged/{name}", os.O_RDONLY)).bytes)
"""


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="needs root and unshare")
def test_files_of_an_overlay_are_in_memory_if_those_of_its_layers_are(disk_folder: Path) -> None:
    for name in ("lower", "upper", "work", "merged"):
        (disk_folder / name).mkdir()
    for name in ("cold", "warm"):
        (disk_folder / "lower" / name).write_bytes(b"x" * MIB)
    evict(disk_folder / "lower" / "cold")
    command = ["unshare", "--mount", sys.executable, "-c", IN_AN_OVERLAY, str(disk_folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(done.stderr)
    assert done.stdout == f"0\n{MIB}\n"


def test_files_of_zfs_are_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ZFS has a separate cache."""
    (tmp_path / "file").write_bytes(b"x")
    monkeypatch.setattr("iotop_ai.collectors.machine.page_cache._filesystem", lambda handle: 0x2FC12FC1)
    with (tmp_path / "file").open("rb") as file:
        assert PageCache().resident(file.fileno()) is None


def test_memory_and_its_limits_are_read(tmp_path: Path) -> None:
    live = read_levels(Root("/"))
    assert live.total_bytes is not None
    assert live.available_bytes is not None
    assert 0 < live.available_bytes <= live.total_bytes
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "proc" / "self" / "cgroup").write_text("5:memory:/job/step\n0::/\n")
    assert read_memory_room(Root(str(tmp_path))) is None
    for name, limit in (("job", 4 << 30), ("job/step", 9223372036854771712)):
        (tmp_path / "sys/fs/cgroup/memory" / name).mkdir(parents=True)
        (tmp_path / "sys/fs/cgroup/memory" / name / "memory.limit_in_bytes").write_text(f"{limit}\n")
    assert read_memory_room(Root(str(tmp_path))) == 4 << 30
    # Used memory that cannot be reclaimed is not available, so the limit of the parent cgroup leaves less than 4 GiB.
    parent = tmp_path / "sys/fs/cgroup/memory/job"
    (parent / "memory.usage_in_bytes").write_text(f"{3 << 30}\n")
    (parent / "memory.stat").write_text(f"inactive_file 5\ntotal_inactive_file {1 << 30}\ntotal_active_file 4096\n")
    assert read_memory_room(Root(str(tmp_path))) == (2 << 30) + 4096
    known = Levels(None, None, None, 10 << 30, None, None)
    assert room_for_data(known, None) == 10 << 30
    assert room_for_data(known, 4 << 30) == 4 << 30
    assert room_for_data(known._replace(available_bytes=None), 4 << 30) is None
    assert PAGE_BYTES % 4096 == 0


@pytest.mark.parametrize(
    ("files", "room"),
    [
        ({}, None),
        ({"job/memory.max": "max", "job/memory.high": "max"}, None),
        ({"job/memory.max": "8000"}, 8000),
        ({"job/memory.max": "8000", "job/memory.current": "6000"}, 2000),
        ({"job/memory.max": "8000", "job/memory.current": "9000"}, 0),
        ({"job/memory.max": "8000", "job/memory.high": "5000", "job/memory.current": "1000"}, 4000),
        ({"job/memory.high": "5000", "job/memory.current": "1000"}, 4000),
        ({"job/memory.max": "8000", "memory.max": "9000", "memory.current": "7000"}, 2000),
        (
            {
                "job/memory.max": "8000",
                "job/memory.current": "7000",
                "job/memory.stat": "anon 1000\nshmem 500\nactive_file 2000\ninactive_file 3000\nslab_reclaimable 100",
            },
            6100,
        ),
    ],
)
def test_a_container_has_the_memory_that_its_limit_leaves(
    files: dict[str, str], room: int | None, tmp_path: Path
) -> None:
    """In cgroup v2 this is the limit minus the used memory that cannot be reclaimed."""
    entries = {f"sys/fs/cgroup/{name}": f"{text}\n".encode() for name, text in files.items()}
    entries |= {"proc/self/cgroup": b"0::/job\n", "sys/fs/cgroup/cgroup.controllers": b"memory\n"}
    assert read_memory_room(build(entries, tmp_path)) == room
