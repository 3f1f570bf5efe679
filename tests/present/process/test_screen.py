"""The screen of one process: its rows at several sizes, from a made-up Frame and made-up details."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import pytest

from iotop_ai.model.block.counters import Mount
from iotop_ai.model.frame import Frame
from iotop_ai.model.job.cgroup import Cgroup, CgroupMemory
from iotop_ai.model.job.records import Job, JobTable, Rank
from iotop_ai.model.process.detail import (
    CgroupDetail,
    Limit,
    OpenFile,
    OpenFiles,
    ProcessDetail,
    ProcessIdentity,
    Socket,
    Sockets,
    ThreadDetail,
    ThreadTable,
)
from iotop_ai.model.process.records import ProcessKey
from iotop_ai.model.reading import Reading, Status
from iotop_ai.pipeline import frames
from iotop_ai.present.process.graphs import process_graphs
from iotop_ai.present.process.screen import (
    ProcessPage,
    most_process_scroll,
    next_process,
    process_order,
    process_screen_rows,
)
from iotop_ai.present.process.screen_parts import cut_left, wait_text
from iotop_ai.present.screen.keymap import user_keymap
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.line import cells
from tests.present.scenes import starved_snapshots

SIZES = [(60, 15), (80, 24), (160, 48), (250, 70)]
DATA = Mount("/data", "ext4", "/dev/sda1", device="8:1")


@cache
def frame() -> Frame:
    return list(frames(starved_snapshots(40)))[-1]


def worker(shown: Frame) -> ProcessKey:
    table = shown.snapshot.processes.value
    assert table is not None
    return next(key for key, info in table.info.items() if info.name == "pt_data_worker")


def known(value: Any, at_ns: int = 2_000_000_000) -> Reading[Any]:
    return Reading(value, Status.OK, "", "", at_ns, 0)


def thread(tid: int, state: str = "S", wchan: str = "futex_wait_queue", **changes: Any) -> ThreadDetail:
    return ThreadDetail(tid, "pt_data_worker", state, wchan, "futex", "futex", "", 100)._replace(**changes)


def detail(key: ProcessKey) -> ProcessDetail:
    blocked = thread(key.pid, "D", "folio_wait_bit_common", call="read", target="file", path="/data/s/0017.tar")
    return ProcessDetail(
        key,
        known(
            ProcessIdentity(
                "/usr/bin/python3",
                "/home/alice",
                1_760_000_000.0,
                5,
                "idle",
                None,
                (0, 1),
                (Limit("open files", 6), Limit("locked memory", None, "B")),
            )
        ),
        known((("RANK", "3"), ("WANDB_API_KEY", "***"))),
        known(ThreadTable((blocked, thread(91), thread(92)), 3)),
        known(
            OpenFiles(
                (OpenFile("/data/s/0017.tar", "r", 2, 1 << 20, DATA), OpenFile("/dev/null", "w", 1, 0, None)),
                (("pipe", 2),),
                5,
            )
        ),
        known(Sockets((Socket("tcp", "10.0.0.1:40000", "10.0.0.9:443", "established", 3),), 2)),
        known(CgroupDetail("/slurm/job_7", Cgroup(memory=CgroupMemory(1 << 30, None, 4 << 30)), (), 2.5)),
    )


def text(page: ProcessPage, size: tuple[int, int] = (160, 70), view: View = View(), shown: Frame | None = None) -> str:  # noqa: B008
    rows = process_screen_rows(shown or frame(), view, page, *size)
    assert len(rows) == size[1]
    assert {cells(row.text) for row in rows} == {size[0]}
    return "\n".join(row.text for row in rows)


@pytest.mark.parametrize("size", SIZES)
def test_the_screen_fills_every_size_and_begins_with_state_name_and_owner(size: tuple[int, int]) -> None:
    shown = frame()
    key = worker(shown)
    seen = text(ProcessPage(key, detail(key)), size, shown=shown)
    verdict, first, *_ = seen.splitlines()
    assert verdict.startswith(f" {shown.verdict.state} ")
    assert f"pt_data_worker  pid {key.pid}" in first
    assert "Esc:back" in seen.splitlines()[-1]
    assert "main thread: disk, read /data/s/0017.tar" in seen


def test_a_wide_command_line_is_shown_as_a_whole() -> None:
    shown = frame()
    key, folder = worker(shown), "".join(chr(0x4E00 + i) for i in range(60))
    reading = shown.snapshot.processes
    assert reading.value is not None
    command = ("python3", "train.py", "--data", f"/mnt/{folder}/END", "--lr", "1")
    info = reading.value.info[key]._replace(cmdline=command)
    table = reading.value._replace(info={**reading.value.info, key: info})
    shown = shown._replace(snapshot=shown.snapshot._replace(processes=reading._replace(value=table)))
    seen = text(ProcessPage(key, detail(key)), (80, 45), shown=shown)
    assert "".join(command) in "".join(seen.split())


def test_the_position_in_the_list_is_beside_the_keys_that_the_user_has_set() -> None:
    shown = frame()
    listed = len(process_order(shown, View()))
    for keymap, keys in ({}, "b/n"), ({"process.previous": ["f11"], "process.next": ["f12"]}, "F11/F12"):
        view = View(keymap=user_keymap(keymap)[0])
        first = text(ProcessPage(worker(shown)), view=view, shown=shown).splitlines()[1]
        assert re.search(rf" 1 of {listed} listed  {keys} $", first)
        narrow = text(ProcessPage(worker(shown)), (66, 24), view, shown).splitlines()[1]
        assert re.search(rf" of alice +1 of {listed}  {keys} $", narrow)
        ended = text(ProcessPage(ProcessKey(77, 1)), view=view, shown=shown).splitlines()[1]
        assert ended.endswith(f" {keys} ")


def test_all_parts_are_shown() -> None:
    shown = frame()
    key = worker(shown)
    seen = text(ProcessPage(key, detail(key)), shown=shown)
    for words in (
        "threads 3, 1 blocked",
        "pt_data_worker x2",
        "lock, futex (futex_wait_queue)",
        "/data/s/0017.tar x2",
        "and 2 pipes",
        "10.0.0.9:443",
        "tcp x3",
        "2 of another network namespace or protocol",
        "open files 5 descriptors",
        "open files 5 of 6",
        "locked memory unlimited",
        "/slurm/job_7",
        "memory 1GB of 4GB",
        "CPU quota 2.5 cores",
        "RANK=3",
        "WANDB_API_KEY=***",
        "I/O priority idle",
    ):
        assert words in seen, words
    file_row = next(row for row in seen.splitlines() if "/data/s/0017.tar x2" in row)
    assert file_row.split()[-2:] == ["/data", "sda"]


def test_the_state_is_that_of_the_main_thread_in_the_same_reading() -> None:
    shown = frame()
    key = worker(shown)
    table = shown.snapshot.processes.value
    assert table is not None
    assert table.stat[key].state == "D"
    seen = {}
    for state in "RS":
        threads = known(ThreadTable((thread(key.pid, state, ""), *map(thread, range(91, 105))), 15))
        seen[state] = text(ProcessPage(key, detail(key)._replace(threads=threads)), shown=shown)
        assert "threads 15 " in seen[state].split("runs", 1)[1].split("──", 1)[0], "as many as in the table of threads"
    assert seen["R"].splitlines()[1].startswith(" RUNS ")
    assert " does     main thread: on a CPU" in seen["R"]
    assert seen["S"].splitlines()[1].startswith(" SLEEPS ")
    assert " waits    main thread: lock, futex" in seen["S"]
    assert text(ProcessPage(key), shown=shown).splitlines()[1].startswith(" BLOCKED ")


def test_the_page_shows_one_number_of_open_files_even_if_some_were_not_read() -> None:
    shown = frame()
    key = worker(shown)
    made = detail(key)
    assert made.files.value is not None
    seen = text(ProcessPage(key, made._replace(files=known(made.files.value._replace(number=9000, more=True)))))
    assert "open files 9000 descriptors" in seen
    assert "further descriptors were not read" in seen
    assert "open files 9000 of 6" in seen


def test_the_culprit_disk_is_coloured_in_the_row_of_a_file() -> None:
    shown = frame()
    key = worker(shown)
    rows = process_screen_rows(shown, View(), ProcessPage(key, detail(key)), 160, 70)
    spans = [span for row in rows if "0017.tar x2" in row.text for span in row.spans]
    assert [span.token for span in spans if span.text.strip() == "sda"] == ["bad"]


def test_the_cpu_of_threads_needs_two_readings() -> None:
    shown = frame()
    key = worker(shown)
    now = detail(key)
    assert now.threads.value is not None
    earlier = known(ThreadTable((thread(key.pid, cpu_ticks=50), thread(91), thread(92)), 3), 1_000_000_000)
    row = next(
        one for one in text(ProcessPage(key, now, earlier), shown=shown).splitlines() if one.startswith(f"{key.pid:>8}")
    )
    assert row.split()[3] == "50"
    alone = text(ProcessPage(key, now), shown=shown)
    assert next(one for one in alone.splitlines() if one.startswith(f"{key.pid:>8}")).split()[3] == "?"


def test_a_saved_picture_does_not_show_the_environment() -> None:
    shown = frame()
    key = worker(shown)
    assert "RANK=3" not in text(ProcessPage(key, detail(key)), view=View(unredacted=shown.snapshot), shown=shown)


def test_without_details_recorded_figures_are_shown_with_the_reason() -> None:
    shown = frame()
    key = worker(shown)
    seen = text(ProcessPage(key, why_unreadable="not available in a replay"), shown=shown)
    assert "limits, environment: not available in a replay" in seen
    assert "read" in seen
    assert "pt_data_worker" in seen
    assert "reading ..." in text(ProcessPage(key), shown=shown)


def test_parts_that_cannot_be_read_are_reported() -> None:
    shown = frame()
    key = worker(shown)
    denied: Reading[Any] = Reading(None, Status.DENIED, "it belongs to another user", "sudo shows it")
    seen = text(ProcessPage(key, detail(key)._replace(files=denied, sockets=denied)), shown=shown)
    assert seen.count("not permitted: it belongs to another user (sudo shows it)") == 2


def test_an_ended_process_is_reported() -> None:
    assert "pid 77 has ended" in text(ProcessPage(ProcessKey(77, 1)))


def test_a_moment_before_a_process_started_is_not_called_its_end() -> None:
    shown = frame()
    later = ProcessKey(77, shown.snapshot.at_ns // 10_000_000 + 100)
    seen = text(ProcessPage(later), view=View(mode="replay"), shown=shown)
    assert seen.splitlines()[1].startswith(" FUTURE   pid 77")
    assert "pid 77 has not started yet" in seen


def test_the_graphs_of_an_ended_process_end_with_it() -> None:
    key, snapshots = worker(frame()), starved_snapshots(40)
    for at, one in enumerate(snapshots[30:], 30):
        table = one.processes.value
        assert table is not None
        left = {name: {k: v for k, v in getattr(table, name).items() if k != key} for name in ("io", "stat", "info")}
        snapshots[at] = one._replace(processes=one.processes._replace(value=table._replace(**left)))
    shown = list(frames(snapshots))[-1]
    for graph in process_graphs(shown, View(), key, 20)[:3]:
        assert None not in graph.data.values[:10]
        assert graph.data.values[10:] == (None,) * 10


def test_the_screen_scrolls_to_its_end_and_not_beyond() -> None:
    shown = frame()
    key = worker(shown)
    page = ProcessPage(key, detail(key))
    most = most_process_scroll(shown, View(), page, 80, 24)
    assert most > 0
    end = text(page._replace(scroll=most), (80, 24), shown=shown)
    assert "WANDB_API_KEY=***" in end
    assert "the end" in end
    assert text(page._replace(scroll=most + 50), (80, 24), shown=shown) == end
    assert "more rows below" in text(page, (80, 24), shown=shown)


def test_the_next_process_is_the_next_one_in_the_unfolded_list() -> None:
    shown, view = frame(), View()
    first = worker(shown)
    second = next_process(shown, view, first, 1)
    assert second is not None
    table = shown.snapshot.processes.value
    assert table is not None
    assert table.info[second].name == "pt_data_worker"
    assert second != first
    assert next_process(shown, view, second, -1) == first


def test_the_wait_of_a_thread_is_described() -> None:
    assert wait_text(thread(1, "R", "", call="", target="unknown")) == "on a CPU"
    assert wait_text(thread(1, "D", "folio_wait_bit_common", call="", target="unknown")) == (
        "disk, page fault (folio_wait_bit_common)"
    )
    assert wait_text(thread(1, "S", "", call="recvfrom", target="socket")) == "network, recvfrom"
    assert wait_text(thread(1, "S", "", call="", target="unknown")) == "not permitted to see"


@pytest.mark.parametrize("width", [60, 66, 80, 120])
def test_the_file_that_a_thread_reads_keeps_its_name_at_every_width(width: int) -> None:
    shown = frame()
    key = worker(shown)
    path = "/mnt/datasets/imagenet-21k/train/shard-000123.tar"
    blocked = thread(key.pid, "D", "folio_wait_bit_common", call="read", target="file", path=path)
    found = detail(key)._replace(threads=known(ThreadTable((blocked,), 1)))
    lines = [
        row for row in text(ProcessPage(key, found), (width, 110), shown=shown).splitlines() if "disk, read" in row
    ]
    assert len(lines) == 2, "not one line for the main thread and one in the table of threads"
    assert all("000123.tar" in line for line in lines)
    assert [path in line for line in lines] == [width >= 120] * 2


def test_a_long_path_keeps_its_end() -> None:
    assert cut_left("/a/b/c.tar", 6) == "…c.tar"
    assert cut_left("/a", 6) == "/a"


@pytest.mark.parametrize("width", [60, 66, 72, 79, 80, 90, 100, 120, 140, 160, 250])
def test_a_socket_keeps_its_port_and_its_state_at_every_width(width: int) -> None:
    shown = frame()
    key = worker(shown)
    peer = "[2001:db8:ffff:5678:9abc:def0:1234:5678]:60443"
    six = Socket("tcp6", "[2001:db8:1234:5678:9abc:def0:1234:1]:40000", peer, "established", 120)
    found = detail(key)._replace(sockets=known(Sockets((six,), 0)))
    line = next(row for row in text(ProcessPage(key, found), (width, 110), shown=shown).splitlines() if "tcp6" in row)
    words = line.split()
    assert words[:2] == ["tcp6", "x120"]
    assert words[-2].endswith(":60443")
    assert words[-1] == "established"


def test_the_sockets_without_a_row_are_counted_as_the_title_counts_them() -> None:
    shown = frame()
    key = worker(shown)
    many = tuple(Socket("tcp", f"10.0.0.1:{port}", "10.0.0.9:443", "established", 3) for port in range(1, 203))
    seen = text(ProcessPage(key, detail(key)._replace(sockets=known(Sockets(many)))), (160, 300), shown=shown)
    assert "sockets 606 " in seen
    assert " 6 more" in seen


@pytest.mark.parametrize(
    ("numbers", "trainer", "loader"),
    [
        ((8, 9), "rank 9, 2 here, 1 worker", "worker 1 of 1 of rank 9"),
        ((1, 0), "rank 0 of 2, 1 worker", "worker 1 of 1 of rank 0"),
        ((None, None), "rank 1 of 2, 1 worker", "worker 1 of 1 of rank 1"),
    ],
)
def test_a_rank_has_its_number_in_the_whole_job(
    numbers: tuple[int | None, int | None], trainer: str, loader: str
) -> None:
    shown = frame()
    table = shown.snapshot.processes.value
    assert table is not None
    first, second, third = list(table.info)[:3]
    ranks = (Rank(first, number=numbers[0]), Rank(second, (third,), number=numbers[1]))
    jobs = JobTable({first: Job(first, "train.py", "alice", 1000, ranks)})
    shown = shown._replace(snapshot=shown.snapshot._replace(jobs=Reading(jobs, Status.OK)))
    for key, words in ((second, trainer), (third, loader)):
        seen = text(ProcessPage(key), shown=shown)
        assert f"train.py of alice, pid {first.pid}: {words}" in seen
