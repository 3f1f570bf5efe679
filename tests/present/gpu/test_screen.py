"""The columns of the GPU panel, and the screen of one GPU."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import pytest

from iotop_ai.model.finding import Finding, Severity
from iotop_ai.model.frame import Frame
from iotop_ai.model.gpu.detail import GpuDetail
from iotop_ai.model.gpu.state import GpuInstance, GpuProcess, GpuState
from iotop_ai.model.job.records import Job, JobTable, Rank
from iotop_ai.model.process.records import ProcessKey
from iotop_ai.model.reading import Reading, Status
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.model.verdict_class import State
from iotop_ai.present.gpu.context import idle_seconds
from iotop_ai.present.gpu.facts import _health
from iotop_ai.present.gpu.graphs import gpu_graphs
from iotop_ai.present.gpu.groups import gpus, selected_gpu
from iotop_ai.present.gpu.panel import gpu_keys, gpu_rows
from iotop_ai.present.gpu.screen import gpu_screen_rows, next_gpu
from iotop_ai.present.gpu.users import gpu_users, owner_text
from iotop_ai.present.gpu.users_table import user_rows
from iotop_ai.present.screen.keymap import user_keymap
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.line import Line, cells
from tests.judged import judged
from tests.present import gpu_scenes
from tests.present.make import GIB, Machine, Proc, frame, gpu, snapshot, snapshots

VIEW = View(utc_offset_s=0)
EIGHT = gpu_scenes.eight()


def text(uuid: str = "GPU-0002", width: int = 80, height: int = 24, view: View = VIEW) -> str:
    return "\n".join(line.text for line in gpu_screen_rows(EIGHT, view, width, height, uuid))


def test_the_panel_groups_similar_gpus_and_lists_outliers_separately() -> None:
    lines = [line.text.split() for line in gpu_rows(EIGHT, VIEW, 80, 5)[1:]]
    assert lines[0] == ["0-1,3-4,6", "alike", "95-97", "82-86", "61/80", "61-62", "655/700", "Gen5x16", "power", "64%"]
    assert lines[1] == ["2", "94", "87", "61/80", "88", "655/700", "Gen5x16", "therm", "12%"]
    assert lines[2][-3:] == ["5x8/x16", "power", "64%"]
    assert lines[3] == ["7", "96", "14", "61/80", "44", "96/700", "Gen5x16", "none"]


@pytest.mark.parametrize("width", [60, 72, 80, 87, 90, 100, 110, 120, 130, 140, 160, 200, 250])
def test_a_range_of_several_gpus_that_does_not_fit_is_shown_by_one_end(width: int) -> None:
    gpus = tuple(
        gpu(
            n,
            98 + n % 3,
            sm_mhz=1755 + 30 * n,
            gpm_sm_percent=97.0 + n % 4,
            fan_percent=98 + n % 3,
            temperature_celsius=99 + n % 3,
        )
        for n in range(8)
    )
    head, row = (line.text for line in gpu_rows(frame(snapshots(lambda _: Machine(gpus=gpus), 20)), VIEW, width, 3))
    shown = row.split()
    assert "…" not in row
    assert shown[3] in ("98-100", "≥98")
    for title, range_, end in (("MHz", "1755-1965", "≥1755"), ("SM%", "97-100", "≥97"), ("fan%", "98-100", "≥98")):
        assert title not in head or range_ in shown or end in shown
    assert "99-101" in shown


def test_a_range_of_temperatures_that_does_not_fit_is_shown_by_its_upper_end() -> None:
    gpus = tuple(gpu(n, 50, temperature_celsius=100 + n) for n in range(8))
    made = frame(snapshots(lambda _: Machine(gpus=gpus), 3))
    assert "≤107" in gpu_rows(made, VIEW, 80, 3)[1].text.split()
    assert "100-107" in gpu_rows(made, VIEW, 110, 3)[1].text.split()


def test_an_earlier_moment_without_gpus_is_marked_as_such() -> None:
    pending = EIGHT._replace(snapshot=EIGHT.snapshot._replace(gpu=Reading(None, Status.PENDING, "no answer yet")))
    lines = gpu_screen_rows(pending, VIEW._replace(mode="back", back_s=20.0), 80, 24, "")
    assert "◄ BACK 20 s" in lines[1].text
    assert "no answer yet" in lines[2].text


@pytest.mark.parametrize(
    ("reasons", "word", "token"),
    [(0x04, "power", "dim"), (0x80, "brake", "strong"), (0x20, "thermal", "strong"), (0, "none", "dim")],
)
def test_only_an_unusual_throttle_reason_stands_out_on_a_gpu_that_does_not_count_its_time(
    reasons: int, word: str, token: str
) -> None:
    made = frame(snapshots(lambda second: Machine(gpus=(gpu(0, 1, clock_reasons=reasons),)), 3))
    spans = [span for span in gpu_rows(made, VIEW, 160, 3)[1].spans if span.text.startswith(f"{word}  ")]
    assert [span.token for span in spans] == [token]


@pytest.mark.parametrize(
    ("mib", "shown"), [(0, "0/80"), (20, "<0.1/80"), (450, "0.4/80"), (9 * 1024, "9.0/80"), (61 * 1024, "61/80")]
)
def test_little_memory_in_use_is_not_shown_as_none(mib: int, shown: str) -> None:
    made = frame(snapshots(lambda second: Machine(gpus=(gpu(0, 1, memory_used_bytes=mib << 20),)), 3))
    assert shown in gpu_rows(made, VIEW, 80, 3)[1].text.split()


def test_gpus_without_a_list_of_processes_are_named_beside_the_users_of_the_others() -> None:
    processes = (GpuProcess(4820, 60 * GIB, "compute"),)
    listed = tuple(gpu(number, 1, processes=processes if number < 2 else None) for number in range(4))
    made = frame(snapshots(lambda second: Machine(gpus=listed), 3))
    text = [line.text.rstrip() for line in user_rows(made, VIEW, 80, 10)]
    assert " ? GPU 2-3: the driver does not list the processes" in text
    assert any(line.startswith("── processes on GPUs") for line in text)
    every = frame(snapshots(lambda second: Machine(gpus=listed[:2]), 3))
    assert not any("does not list" in line.text for line in user_rows(every, VIEW, 80, 10))


def test_users_of_gpus_without_room_are_counted() -> None:
    processes = [GpuProcess(pid, (60 - n) * GIB, "compute") for n, pid in enumerate(gpu_scenes.PIDS)]
    procs = tuple(Proc(pid, "python", f"user{n}") for n, pid in enumerate(gpu_scenes.PIDS))
    gpus = tuple(gpu(number, 1, processes=(process,)) for number, process in enumerate(processes))
    made = frame(snapshots(lambda second: Machine(gpus=gpus, procs=procs), 3))
    text = [line.text.rstrip() for line in user_rows(made, VIEW, 80, 10)]
    assert [line.split()[0] for line in text[1:4]] == ["user0", "user1", "user2"]
    assert text[4] == " 5 more"
    assert text[5].startswith("── processes on GPUs")
    assert len(text) == 10
    assert " 5 more" not in [line.text.rstrip() for line in user_rows(made, VIEW, 80, 18)][:9]


def test_a_row_without_the_meaning_marks_a_fault() -> None:
    made = gpu_scenes.with_details(gpu_scenes.one_gpu_snapshots(5), nvlinks_active=17)
    assert gpu_rows(frame(made), VIEW, 80, 3)[1].text.startswith(" 0 FAULT   ")
    wide = gpu_rows(frame(made), VIEW, 160, 3)[1].text
    assert "FAULT" not in wide
    assert wide.rstrip().endswith("1 of 18 NVLinks down")
    assert "FAULT" not in "".join(line.text for line in gpu_rows(EIGHT, VIEW, 80, 9))


def test_a_row_of_several_gpus_names_the_faulty_ones() -> None:
    made = gpu_scenes.eight_snapshots(5)
    broken = []
    for one in made:
        slow = dict(one.gpu_slow.value or {})
        first = slow["GPU-0001"].value
        assert first is not None
        slow["GPU-0001"] = slow["GPU-0001"]._replace(value=first._replace(nvlinks_active=17))
        broken.append(one._replace(gpu_slow=one.gpu_slow._replace(value=slow)))
    assert gpu_rows(frame(broken), VIEW, 80, 5)[1].text.startswith(" 0-1,3-4,6 FAULT: 1 ")


def opened(frame: Frame) -> str | None:
    gpu = selected_gpu(frame, VIEW, "")
    return None if gpu is None else gpu.uuid


def test_without_a_cursor_the_gpu_of_the_verdict_is_opened() -> None:
    assert opened(EIGHT) == "GPU-0000"
    named = Finding("gpu_throttle", Severity.WARNING, 1.0, "GPU-0002")
    assert opened(EIGHT._replace(verdict=EIGHT.verdict._replace(findings=(named,)))) == "GPU-0002"
    away = named._replace(subject="GPU-0099")
    assert opened(EIGHT._replace(verdict=EIGHT.verdict._replace(findings=(away,)))) == "GPU-0000"
    assert opened(frame(snapshots(lambda _: Machine(), 2))) is None


def numbers(lines: list[Line]) -> list[str]:
    return [line.text.split()[0] for line in lines if line.key]


def test_the_rows_with_problems_come_first_if_not_all_fit() -> None:
    lines = gpu_rows(EIGHT, VIEW, 80, 4)
    assert numbers(lines) == ["2", "5"]  # number 2 is too hot, and number 5 has an x8 link
    assert lines[-1].text.rstrip() == " 6 more: 0-1,3-4,6-7"
    assert numbers(gpu_rows(EIGHT, VIEW, 80, 2)) == ["2"]
    assert len(gpu_rows(EIGHT, VIEW, 80, 2)) == 2
    table = dict(EIGHT.snapshot.gpu.value or {})
    table["GPU-0006"] = Reading(None, Status.FAILED, "GPU is lost")
    lost = EIGHT._replace(snapshot=EIGHT.snapshot._replace(gpu=EIGHT.snapshot.gpu._replace(value=table)))
    assert numbers(gpu_rows(lost, VIEW, 80, 4)) == ["2", "?"]
    named = Finding("gpu_throttle", Severity.WARNING, 1.0, "GPU-0007")
    blamed = lost._replace(verdict=lost.verdict._replace(findings=(named,)))
    assert numbers(gpu_rows(blamed, VIEW, 80, 4)) == ["2", ">7"]


def test_the_cursor_stays_on_its_gpu_when_another_joins_the_row() -> None:
    def marked(busy: int) -> list[str]:
        gpus = tuple(gpu(n, busy if n == 0 else 90) for n in range(4))
        made = frame(snapshots(lambda _second: Machine(gpus=gpus), 6))
        view = VIEW._replace(focus="gpu", cursor="gpu:GPU-0001")
        assert "gpu:GPU-0001" in gpu_keys(made, view, 3)
        return [line.text.split()[0] for line in gpu_rows(made, view, 80, 3) if line.background == "sel"]

    assert (marked(10), marked(90)) == (["1-3"], ["0-3"])


def test_at_160_columns_each_gpu_has_a_sentence() -> None:
    lines = [line.text for line in gpu_rows(EIGHT, VIEW, 160, 9)]
    assert "computing" in lines[1]
    assert "thermal slowdown 12 %" in lines[3]
    assert "PCIe x8 of x16 under load" in lines[6]
    assert "spinning in a collective" in lines[8]
    assert lines[3].rstrip().endswith("12 % of the time"), "the note repeats the temperature of the row"
    assert "alice" not in lines[1]
    assert gpu_rows(EIGHT, VIEW, 250, 9)[1].text.split()[1:3] == ["alice", "python"]


def test_at_160_columns_each_gpu_has_a_graph_of_its_last_minute() -> None:
    head, *rows = gpu_rows(EIGHT, VIEW, 160, 9)
    at = head.text.index("last 60 s")
    assert all(len(line.text[at : at + 30].strip()) == 30 for line in rows)
    assert "last 60 s" not in gpu_rows(EIGHT, VIEW, 120, 9)[0].text
    assert "last 60 s" not in gpu_rows(EIGHT, VIEW, 160, 5)[0].text, "a row of several GPUs has a graph of one"


def test_the_graph_of_the_last_minute_shows_a_minute_at_a_short_interval() -> None:
    taken: list[Snapshot] = []
    for number in range(121):  # the GPU is busy in the last 30 s
        machine = Machine(gpus=(gpu(0, 100 * (number > 60)),))
        taken.append(snapshot(machine, taken[-1] if taken else None, seconds=0.5, interval_s=0.5))
    head, line = gpu_rows(frame(taken), VIEW, 160, 9)
    at = head.text.index("last 60 s")
    assert len(line.text[at : at + 30].strip()) == 15


def with_ranks(numbers: Iterable[int | None], label: str) -> Frame:
    """The eight GPUs, with one rank of a job on each of the first GPUs."""
    keys = [ProcessKey(pid, pid) for pid in gpu_scenes.PIDS]
    ranks = tuple(Rank(keys[n], gpus=(f"GPU-{n:04d}",), number=number) for n, number in enumerate(numbers))
    jobs = JobTable({keys[0]: Job(keys[0], "train.py", "alice", 1000, ranks, label=label)})
    return EIGHT._replace(snapshot=EIGHT.snapshot._replace(jobs=Reading(jobs, Status.OK)))


def test_the_job_and_the_rank_on_each_gpu_are_shown_if_they_are_known() -> None:
    head, *rows = (line.text for line in gpu_rows(with_ranks(range(8, 15), "slurm 48213"), VIEW, 160, 9))
    job, rank = head.index("job "), head.index("rank ")
    assert [row[job:rank].strip() for row in rows] == ["48213"] * 7 + ["-"]
    assert [row[rank : rank + 4].strip() for row in rows] == [*(f"r{n}" for n in range(8, 15)), "-"]
    assert "last 60 s" in head
    bare = [line.text for line in gpu_rows(with_ranks([None] * 8, ""), VIEW, 160, 9)]
    assert " rank " not in bare[0]
    assert [row[job : job + 8] for row in bare[1:]] == ["train.py"] * 8
    assert " job " not in gpu_rows(EIGHT, VIEW, 160, 9)[0].text


def test_a_busy_gpu_of_unknown_power_is_not_judged_in_its_row() -> None:
    made = frame(snapshots(lambda _: Machine(gpus=(gpu(0, 95, power_mw=None),)), 6))
    (row,) = [line.text for line in gpu_rows(made, VIEW, 200, 9) if "productive" in line.text]
    assert "cannot tell if productive: neither power nor SM activity is known" in row


@pytest.mark.parametrize("uuid", [f"GPU-000{n}" for n in range(8)])
@pytest.mark.parametrize("size", [(60, 15), (80, 24), (100, 30), (160, 48), (20, 5), (1, 1)])
def test_every_line_is_as_wide_as_the_screen(uuid: str, size: tuple[int, int]) -> None:
    width, height = size
    lines = gpu_screen_rows(EIGHT, VIEW, width, height, uuid)
    assert [cells(line.text) for line in lines] == [width] * height
    plain = gpu_screen_rows(EIGHT, VIEW._replace(ascii_only=True), width, height, uuid)
    assert all(line.text.isascii() for line in plain)


def test_the_screen_begins_with_the_problem_and_the_remedy() -> None:
    assert text().splitlines()[1].startswith(" SLOWED   GPU 2  H100-80G  00000000:1D:00.0 ")
    assert "thermal slowdown 12 % of the time at 88 C, memory 74 C" in text()
    assert "do check airflow, fans, room, neighbours" in text(width=160, height=48)
    assert text("GPU-0007").splitlines()[1].startswith(" WAITS ")
    assert "another rank is late" in text("GPU-0007")
    assert text("GPU-0000").splitlines()[1].startswith(" OK ")
    assert "3 of 8  b/n" in text()


def test_the_remedy_of_the_first_sentence_has_its_own_row_if_it_does_not_fit_beside_it() -> None:
    made = frame(snapshots(lambda second: Machine(gpus=(gpu(0, 100, power_brake_ns=510_000_000 * second),)), 6))
    because, remedy = (line.text.rstrip() for line in gpu_screen_rows(made, VIEW, 80, 24, "GPU-0000")[2:4])
    assert because == " because  power brake to half clock 51 % of the time"
    assert remedy == " do       check power supply and rack"
    (wide,) = [line.text for line in gpu_screen_rows(made, VIEW, 120, 24, "GPU-0000") if "power brake to" in line.text]
    assert wide.rstrip().endswith("do check power supply and rack")


def test_the_position_is_beside_the_keys_that_the_user_has_set() -> None:
    keymap, _ = user_keymap({"gpu.previous": ["f11"], "gpu.next": ["f12"]})
    lines = gpu_screen_rows(EIGHT, VIEW._replace(keymap=keymap), 80, 24, "GPU-0002")
    assert lines[1].text.endswith("3 of 8  F11/F12 ")


def test_xids_that_are_not_watched_are_shown_as_unknown() -> None:
    state, detail = GpuState("GPU-1", 0, "H100"), GpuDetail("GPU-1")
    shown = {
        watched: next(one.value for one in _health(state._replace(xid_watched=watched), detail) if one.label == "Xid")
        for watched in (False, True, None)
    }
    assert shown == {False: "unknown, not watched", True: "none seen", None: "none seen"}


def test_the_screen_has_graphs_facts_and_processes() -> None:
    whole = text(width=160, height=48)
    for label in ("busy", "SM", "tensor", "memory", "power", "temp", "PCIe in", "PCIe out", "capped", "throttle"):
        assert f"\n {label} " in whole
    for fact in ("SM 1410/1980 MHz", "PCIe 5x16 device 5x16, slot 5x16", "NVLinks 18/18 up", "Xid none seen"):
        assert fact in whole
    assert "python 4822" in whole
    assert "python train.py --config gpt.yaml" in whole
    assert "throttle" in text()


def test_graphs_grow_into_the_room_below_the_processes() -> None:
    heights = {}
    for height in (24, 48, 70):
        lines = [line.text for line in gpu_screen_rows(EIGHT, VIEW, 160, height, "GPU-0003")]
        first = next(n for n, text in enumerate(lines) if text.startswith(" busy"))
        heights[height] = next(n for n, text in enumerate(lines[first:]) if text.startswith(" SM"))
        assert any(text.startswith("── processes") for text in lines)
    assert heights[24] == 1
    assert 2 <= heights[48] < heights[70] <= 6


def test_the_screen_of_a_gpu_shows_the_mode() -> None:
    assert "PAUSED" in text(view=VIEW._replace(mode="paused")).splitlines()[1]


def test_next_and_previous_go_through_the_gpus_in_a_circle() -> None:
    assert next_gpu(EIGHT, VIEW, "GPU-0007", 1) == "GPU-0000"
    assert next_gpu(EIGHT, VIEW, "GPU-0000", -1) == "GPU-0007"
    assert next_gpu(EIGHT, VIEW, "gone", 1) == "GPU-0000"
    assert next_gpu(frame(snapshots(lambda _: Machine(), 2)), VIEW, "", 1) == ""


def test_a_lost_gpu_names_its_remedy() -> None:
    table = dict(EIGHT.snapshot.gpu.value or {})
    table["GPU-0003"] = Reading(None, Status.FAILED, "the GPU is lost (Xid 79)", "reboot", at_ns=1)
    lost = EIGHT._replace(snapshot=EIGHT.snapshot._replace(gpu=EIGHT.snapshot.gpu._replace(value=table)))
    lines = [line.text for line in gpu_screen_rows(lost, VIEW, 80, 24, "GPU-0003")]
    assert lines[1].startswith(" LOST ")
    assert "the GPU is lost (Xid 79)" in lines[2]
    assert "do reboot" in lines[2]
    table["GPU-0003"] = Reading(None, Status.DENIED, "this user is not allowed to use NVML", at_ns=1)
    denied = EIGHT._replace(snapshot=EIGHT.snapshot._replace(gpu=EIGHT.snapshot.gpu._replace(value=table)))
    assert gpu_screen_rows(denied, VIEW, 80, 24, "GPU-0003")[1].text.startswith(" UNSURE ")


def test_mig_instances_have_rows() -> None:
    parts = (
        GpuInstance(1, "MIG-a", "NVIDIA H100 MIG 3g.40gb", 40 << 30, 30 << 30, 71.5, 40.0, 22.0, 35.0),
        GpuInstance(2, "MIG-b", "NVIDIA H100 MIG 1g.10gb", 10 << 30, 0, None, None, None, None),
    )
    made = frame(snapshots(lambda _: Machine(gpus=(gpu(0, 0, instances=parts)._replace(utilization_percent=None),)), 3))
    lines = [line.text for line in gpu_screen_rows(made, VIEW, 80, 24, "")]
    assert "MIG: 2 instances; the GPU as a whole has no utilisation" in lines[2]
    (titles,) = [line for line in lines if "2 MIG instances" in line]
    (first,) = [line for line in lines if line.startswith(" 1  H100 MIG 3g.40gb")]
    for title, figure in (("SM%", "72"), ("occupancy%", "40"), ("tensor%", "22"), ("DRAM%", "35"), ("mem", "30G/40G")):
        end = titles.index(title) + len(title)
        assert first[:end].endswith(figure)
        assert first[end] == " "
    assert first.split()[-5:] == ["72", "40", "22", "35", "30G/40G"]
    (second,) = [line for line in lines if line.startswith(" 2  ")]
    assert second.split()[-5:] == ["?", "?", "?", "?", "0/10G"]


def test_processes_on_the_gpu_are_listed() -> None:
    one = gpus(EIGHT, VIEW)[4]
    assert one.state is not None
    assert owner_text(EIGHT, VIEW, one.state) == "alice python (pid 4824)"
    stranger = one.state._replace(processes=(GpuProcess(4824, 5, "compute", found=False),))
    (unseen,) = gpu_users(EIGHT, VIEW, stranger) or ()
    assert (unseen.name, unseen.visible) == ("pid 4824", False)
    assert gpu_users(EIGHT, VIEW, one.state._replace(processes=None)) is None


def test_a_process_of_a_job_without_a_batch_id_has_the_name_of_its_script() -> None:
    one = gpus(EIGHT, VIEW)[4]
    assert one.state is not None
    processes = EIGHT.snapshot.processes.value
    assert processes is not None
    key = next(key for key in processes.info if key.pid == 4824)
    alone = processes._replace(info={**processes.info, key: processes.info[key]._replace(cgroup="/")})
    jobs = JobTable({key: Job(key, "train.py", "alice", 1000, (Rank(key),))})
    shown = EIGHT.snapshot._replace(
        processes=EIGHT.snapshot.processes._replace(value=alone), jobs=Reading(jobs, Status.OK)
    )
    (user,) = gpu_users(EIGHT._replace(snapshot=shown), VIEW, one.state) or ()
    assert user.job == "train.py"


def test_the_idle_time_begins_with_the_first_idle_sample() -> None:
    made = frame(snapshots(lambda s: Machine(gpus=(gpu(0, 50 if s < 10 else 0),)), 31))
    assert idle_seconds(made, VIEW, "GPU-0000") == 20.0
    assert idle_seconds(EIGHT, VIEW, "GPU-0000") is None


def test_the_graph_of_power_without_a_limit_is_scaled_to_its_values() -> None:
    made = frame(snapshots(lambda _: Machine(gpus=(gpu(0, 90, power_limit_mw=None),)), 6))
    (power,) = [one for one in gpu_graphs(made, VIEW, "GPU-0000", 40) if one.label == "power"]
    assert (power.data.peak, power.top) == (188.0, 200.0)


def test_unknown_memory_of_processes_is_not_shown_as_0() -> None:
    for each, text in ((1 << 30, "more with "), (None, "more with ?")):
        processes = tuple(GpuProcess(100 + n, each, "compute") for n in range(30))
        made = frame(snapshots(lambda _, p=processes: Machine(gpus=(gpu(0, 90, processes=p),)), 6))
        (rest,) = [line.text for line in gpu_screen_rows(made, VIEW, 80, 24, "GPU-0000") if "more with" in line.text]
        assert text in rest
        assert ("?" in rest) == (each is None)


def word_of(gpu_at: Callable[[int], GpuState], **detail: object) -> str:
    """The state word on the screen of a machine's only GPU. gpu_at: the state of that GPU in each second."""
    made = snapshots(lambda s: Machine(gpus=(gpu_at(s),), procs=gpu_scenes.PROCS[:1]), 5)
    shown = frame(gpu_scenes.with_details(made, **detail))
    return gpu_screen_rows(shown, VIEW, 80, 24, "GPU-0000")[1].text.split()[0]


@pytest.mark.parametrize(
    ("figures", "detail", "word"),
    [
        ({"memory_used_bytes": 79 * GIB}, {}, "OK"),
        ({"temperature_celsius": 88}, {}, "WARN"),
        ({"last_xid": 13}, {}, "WARN"),
        ({"last_xid": 64}, {}, "FAULT"),
        ({"last_xid": 63}, {}, "OK"),
        ({}, {"rows_pending": True}, "WARN"),
        ({"power_limit_mw": 600_000}, {}, "SLOWED"),
        ({"gpm_sm_percent": 30.0}, {}, "WASTED"),
    ],
)
def test_the_state_word_of_a_gpu_at_work_fits_its_figures(
    figures: dict[str, object], detail: dict[str, object], word: str
) -> None:
    assert word_of(lambda second: gpu_scenes.computing(0, second, **figures), **detail) == word


def test_an_idle_gpu_with_full_memory_is_not_shown_as_ok() -> None:
    assert word_of(lambda second: gpu(0, 0, memory_used_bytes=79 * GIB)) == "IDLE"


def test_an_idle_gpu_with_a_repaired_error_is_idle() -> None:
    assert word_of(lambda second: gpu(0, 0, last_xid=92)) == "IDLE"


def test_a_gpu_is_not_ok_while_the_verdict_is_that_its_job_loses_time() -> None:
    starved = judged("storage_read of eight GPUs").decided[-1]
    assert starved.verdict.state is State.STARVED

    def word(frame: Frame) -> str:
        rows = gpu_screen_rows(frame, VIEW, 80, 24, gpus(frame, VIEW)[0].uuid)
        return next(row.text.split()[0] for row in rows if " GPU 0 " in row.text and "because" not in row.text)

    assert word(starved) == "PARTLY"
    elsewhere = starved.verdict.primary._replace(args=(("device", "sda"),))
    assert word(starved._replace(verdict=starved.verdict._replace(findings=(elsewhere,)))) == "OK"


def test_the_traffic_of_a_fast_link_is_drawn_in_the_unit_of_the_banner() -> None:
    full = judged("pcie narrow").decided[-1]
    (uuid,) = (gpu.uuid for gpu in gpus(full, VIEW))
    graphs = {graph.label: graph.unit for graph in gpu_graphs(full, VIEW, uuid, 100)}
    assert (graphs["PCIe in"], graphs["PCIe out"]) == ("GB/s", "MB/s")
    page = "\n".join(line.text for line in gpu_screen_rows(full, VIEW, 80, 24, uuid))
    assert re.search(r"PCIe in +1\d GB/s ", page)
    assert "of about 12 GB/s" in page
