"""The parsers of /proc/PID files, also with hostile process names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotop_ai.collectors.process.parse import (
    ParsedStat,
    interned,
    parse_cgroup,
    parse_cmdline,
    parse_io,
    parse_stat,
    parse_state,
    parse_status,
)
from iotop_ai.export.json.own_verdict import Peer, may_see
from iotop_ai.model.clean import clean_bytes
from iotop_ai.model.process.records import ProcessInfo, ProcessIo, ProcessStat
from tests.collectors.job.cgroup_lines import docker_hybrid, slurm_v1

CONTAINER = "c" * 64
POD = "pod3f2a1b0c-1111-2222-3333-444455556666"
TAIL = (
    b" D 9657 9657 4140 0 -1 4194304 100 7 3 0 11 12 0 0 20 0 5 0 134172 3133440 393 18446744073709551615"
    b" 94434871902208 94434871922089 140720922442560 0 0 0 0 0 0 0 0 0 17 0 0 0 42 0 0 94434871938096 94434871939712"
    b" 94435735093248 140720922442457 140720922442477 140720922442477 140720922443755 768\n"
)


def test_stat_is_parsed() -> None:
    assert parse_stat(b"9663 (cat)" + TAIL) == ParsedStat(
        b"cat", 4194304, 134172, ProcessStat("D", 9657, 100, 7, 3, 11, 12, 5, 393, 42), 768
    )
    assert parse_state(b"9663 (cat)" + TAIL) == ("D", 42)


@pytest.mark.parametrize("comm", [b"a b", b") R 1 (", b"[/x]", b"((()", b"a\nb", b"\x1b]0;owned\x07", b"", b"\xff\xfe"])
def test_no_name_breaks_a_stat_line(comm: bytes) -> None:
    parsed = parse_stat(b"1 (" + comm + b")" + TAIL)
    assert (parsed.comm, parsed.start_ticks) == (comm, 134172)
    assert clean_bytes(parsed.comm).isprintable()


@given(st.binary(max_size=15))
def test_any_name_is_parsed(comm: bytes) -> None:
    assert parse_stat(b"1 (" + comm + b")" + TAIL).record.ppid == 9657


@pytest.mark.parametrize("raw", [b"", b"1 (cat) R 1 2", b"no parentheses"])
def test_a_cut_stat_line_is_an_error(raw: bytes) -> None:
    with pytest.raises(ValueError, match="42 fields"):
        parse_stat(raw)


def test_io_is_parsed() -> None:
    raw = b"rchar: 6976\nwchar: 1\nsyscr: 10\nsyscw: 2\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 3\n"
    assert parse_io(raw) == ProcessIo(6976, 1, 10, 2, 4096, 8192, 3)
    with pytest.raises(ValueError, match="seven lines"):
        parse_io(raw[:40])


def test_a_name_cannot_forge_the_status() -> None:
    raw = b"Name:\tTgid: 1\\nUid: 0\nState:\tS\nTgid:\t77\nNgid:\t0\nUid:\t1000\t1001\t1000\t1000\nGid:\t1\n"
    assert parse_status(raw) == (77, 1001)


def test_command_lines_are_parsed() -> None:
    assert parse_cmdline(b"") == ()
    assert parse_cmdline(b"\0\0") == ()
    assert parse_cmdline(b"python\0train.py\0--x\0") == ("python", "train.py", "--x")
    assert parse_cmdline(b"nginx: master\0\0\0\0") == ("nginx: master",)
    assert all(part.isprintable() for part in parse_cmdline(b"a\0\x1b]0;owned\x07\0[@click=app.quit]\0"))


def test_cgroups_are_parsed() -> None:
    assert parse_cgroup(b"0::/user.slice/a.scope\n") == "/user.slice/a.scope"
    assert parse_cgroup(b"9:name=systemd:/\n7:blkio:/slow\n4:memory:/job\n0::/\n") == "/slow"
    assert parse_cgroup(b"9:name=systemd:/\n7:blkio:/\n4:memory:/job\n0::/\n") == "/job"
    assert parse_cgroup(b"1:cpu,cpuacct:/only\n0::/\n") == "/only"
    assert parse_cgroup(b"0::/\n") == "/"
    assert parse_cgroup(b"") == ""


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (slurm_v1(77), "/slurm/uid_1000/job_77/step_0/task_0"),
        (docker_hybrid(CONTAINER), f"/docker/{CONTAINER}"),
        (f"4:memory:/docker/{CONTAINER}\n0::/kubepods/{POD}\n", f"/kubepods/{POD}"),
        ("4:memory:/system.slice/a.service\n0::/user.slice\n", "/user.slice"),
    ],
)
def test_the_cgroup_of_a_process_is_that_of_its_batch_job_pod_or_container(text: str, path: str) -> None:
    assert parse_cgroup(text.encode()) == path


def test_containers_beside_one_daemons_cgroup_of_v2_do_not_see_each_others_jobs() -> None:
    own_cgroup, other_cgroup = (parse_cgroup(docker_hybrid(name * 64).encode()) for name in "ab")
    assert may_see(Peer(0, own_cgroup), 0, own_cgroup)
    assert not may_see(Peer(0, own_cgroup), 0, other_cgroup)


def test_equal_records_of_many_processes_are_one_object() -> None:
    def made() -> ProcessInfo:
        return ProcessInfo("".join(("wor", "ker")), ("worker", "--all"), "root", 0)

    assert interned(made()) is interned(made())
    assert interned(made()) == made()
    assert interned(made()._replace(uid=1)) == made()._replace(uid=1)
