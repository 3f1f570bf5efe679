"""The text of the banner, the path, the graphs, the GPUs, the system panel and the keys in each case."""

from __future__ import annotations

import re

import pytest

from iotop_ai.model.finding import Finding, Severity, Verdict
from iotop_ai.model.frame import Frame
from iotop_ai.model.machine.network import LinkCounters, LinkRates
from iotop_ai.model.reading import Reading, Status
from iotop_ai.present.block.table import block_rows
from iotop_ai.present.gpu.groups import link_text, throttle_text
from iotop_ai.present.gpu.panel import gpu_rows
from iotop_ai.present.job.data_path import fold_names, path_rows
from iotop_ai.present.machine.panel import system_rows
from iotop_ai.present.process.table import process_rows
from iotop_ai.present.screen.graph_panel import graph_rows
from iotop_ai.present.screen.key_row import keys_of, keys_rows
from iotop_ai.present.screen.keymap import user_keymap
from iotop_ai.present.screen.view import RecordingState, View
from iotop_ai.present.verdict.banner import banner_rows
from tests.present import scenes
from tests.present.make import MIB, Disk, Machine, Proc, disk, frame, gpu, snapshots

UTC = View(utc_offset_s=0)
STARVED, NO_GPU = scenes.starved(61), scenes.no_gpu()


def made(machine: Machine, count: int = 5, verdict: Verdict | None = None) -> Frame:
    return frame(snapshots(lambda i: machine, count), verdict)


def test_the_banner_has_its_rows_in_every_state() -> None:
    for scene in (STARVED, NO_GPU, scenes.healthy(), scenes.unsure(), scenes.first()):
        assert len(banner_rows(scene, UTC, 80, 4)) == 4
        assert len(banner_rows(scene, UTC, 160, 6)) == 6
        assert {s.token for s in banner_rows(scene, UTC, 80, 4)[3].spans} & {
            "edge-bad",
            "edge-dim",
            "edge-ok",
            "edge-unsure",
        }


def test_the_start_of_a_verdict_is_shown_if_no_second_finding_needs_the_row() -> None:
    assert banner_rows(NO_GPU, UTC, 80, 4)[2].text.startswith("▌since    02:53:30, CALM for 20 s ")
    assert banner_rows(STARVED, UTC, 80, 4)[2].text.startswith("▌and      sda is FAILING")
    assert banner_rows(STARVED, UTC, 160, 6)[5].text.startswith("▌since ")


def test_the_confidence_is_on_the_row_of_the_cause_if_the_banner_is_tall() -> None:
    tall, low = (
        [row.text for row in banner_rows(STARVED, UTC, width, height)] for width, height in ((160, 6), (80, 4))
    )
    assert [("confidence" in text, text[1:8]) for text in tall[1:3]] == [(True, "because"), (False, "and    ")]
    assert [("confidence" in text, text[1:8]) for text in low[1:3]] == [(False, "because"), (True, "and    ")]


def test_a_verdict_in_the_first_seconds_counts_from_its_own_start() -> None:
    """The line of the last hour shows the same number of seconds."""
    now = NO_GPU.snapshot.at_ns
    measured = NO_GPU.carry._replace(states=((now - 20 * 10**9, "UNSURE"), (now - 5 * 10**9, "CALM")))
    row = banner_rows(NO_GPU._replace(carry=measured), UTC, 80, 4)[2].text
    assert row.startswith("▌since    02:53:45, CALM for 5 s ")
    just_now = NO_GPU.carry._replace(states=((now - 20 * 10**9, "UNSURE"), (now, "CALM")))
    row = banner_rows(NO_GPU._replace(carry=just_now), UTC, 80, 4)[2].text
    assert row.startswith("▌since    02:53:50, CALM for less than 1 s ")


def test_the_path_names_the_process_that_reads_and_colours_the_culprit() -> None:
    lines = path_rows(STARVED, UTC, 80, 3)
    assert lines[1].text.strip() == "alice pt_data_worker x64 reads › /data ext4 › sda1 › sda SATA SSD"
    assert [s.text.strip() for s in lines[1].spans if s.token == "bad"] == ["sda"]
    assert "gpu07  02:54:20  live 1 s" in lines[0].text
    assert "PAUSED" in path_rows(STARVED, UTC._replace(mode="paused"), 80, 3)[0].text
    assert path_rows(STARVED, UTC, 60, 3)[1].text.strip() == "alice pt_data_worker x64 reads › /data › sda1 › sda"


def test_a_process_that_reads_too_little_is_not_named() -> None:
    drive = Disk(disk("sda", mounts=[("/", "ext4")]), reads=100, read_bytes=100 * MIB, read_await=1.0)
    hidden = made(Machine((drive,), (Proc(7, "cat", read=MIB), Proc(8, "other", denied=True))))
    assert path_rows(hidden, UTC, 80, 3)[1].text.startswith(" ? process (not seen) › / ext4 › sda")
    unseen = made(Machine((drive,), (Proc(8, "other", denied=True),)))
    assert path_rows(unseen, UTC, 80, 3)[1].text.startswith(" ? process (not permitted) › /")
    filtered = UTC._replace(pattern="nothing", only_active=True)
    known = made(Machine((drive,), (Proc(7, "cat", read=90 * MIB),)))
    assert path_rows(known, filtered, 80, 3)[1].text.startswith(" alice cat reads › / ext4")


def test_waits_show_known_and_unknown_pressure() -> None:
    assert path_rows(STARVED, UTC, 80, 3)[2].text.startswith(
        " waits    blocked   64  run    0  stalled on disk  97 %  CPU   1 %  memory   0 %"
    )
    assert "PSI is off (boot with psi=1)" in path_rows(scenes.unsure(), UTC, 80, 3)[2].text


def test_numbered_names_are_written_as_ranges() -> None:
    assert fold_names(["nvme0", "nvme1", "nvme2", "sda", "sdb", "nvme7"]) == "nvme0-2 sda sdb nvme7"
    assert fold_names(["md_home01", "md_home02", "md0", "md1"]) == "md_home01 md_home02 md0-1"


def test_graphs_follow_the_selected_device() -> None:
    lines = graph_rows(STARVED, UTC, 80, 4)
    assert [line.text[1:9] for line in lines[1:]] == ["all GPUs", "sda read", "r_await "]
    other = graph_rows(STARVED, UTC._replace(device="md0"), 80, 4)
    assert [line.text[1:9].strip() for line in other[1:]] == ["all GPUs", "md0 wr", "w_await"]
    assert len(graph_rows(STARVED, UTC, 160, 7)) == 7
    assert graph_rows(NO_GPU, UTC, 80, 4)[1].text.startswith(" CPU busy    2 % ")


def test_the_axis_is_aligned_with_its_samples() -> None:
    axis = graph_rows(STARVED, UTC, 80, 4)[0].text
    assert axis.startswith("── last 100 s ─")
    assert axis.index("now") == 67
    assert abs(axis.index("-60") + 1 - (69 - 30)) <= 1


@pytest.mark.parametrize("interval_s", [60.0, 300.0, 600.0, 3600.0, 86400.0])
@pytest.mark.parametrize("width", [80, 160])
def test_labels_of_a_long_axis_do_not_touch(interval_s: float, width: int) -> None:
    long = STARVED._replace(snapshot=STARVED.snapshot._replace(interval_s=interval_s))
    axis = graph_rows(long, UTC, width, 4)[0].text
    assert re.fullmatch(r"── last \S+ (min|h) ─+( -\d+h? ─+)* now ─* ?peak ", axis), axis


def test_undefined_awaits_are_blank_and_unknown_ones_are_a_gap() -> None:
    idle = made(Machine((Disk(disk("sda")),)), count=61)
    line = graph_rows(idle, UTC, 80, 4)[3]
    assert line.text[13] == "-"
    assert line.text[45:70].strip() == ""


def test_equal_gpus_are_one_row_and_an_outlier_has_its_own() -> None:
    gpus = [gpu(n, 90) for n in range(8)]
    gpus[3] = gpu(3, 12, clock_reasons=0x20)
    gpus[5] = gpu(5, 90, pcie_width=4)
    lines = gpu_rows(made(Machine(gpus=tuple(gpus))), UTC, 80, 4)
    assert [line.text[1:14].split()[0] for line in lines[1:]] == ["0-2,4,6-7", "3", "5"]
    assert "thermal" in lines[2].text
    assert "5x4/x16" in lines[3].text
    assert gpu_rows(made(Machine(gpus=tuple(gpus))), UTC, 80, 9)[8].key == "gpu:GPU-0007"


def test_a_lost_gpu_keeps_its_row() -> None:
    one = made(Machine(gpus=(gpu(0, 50), gpu(1, 50))))
    table = dict(one.snapshot.gpu.value or {})
    table["GPU-0001"] = Reading(None, Status.FAILED, "GPU is lost", "reboot")
    lost = one._replace(snapshot=one.snapshot._replace(gpu=one.snapshot.gpu._replace(value=table)))
    assert "? GPU-0001  ? failed: GPU is lost (reboot)" in gpu_rows(lost, UTC, 80, 3)[2].text


def test_a_machine_without_a_gpu_has_one_dim_row() -> None:
    (line,) = gpu_rows(NO_GPU, UTC, 80, 3)
    assert line.text.startswith("── GPU no NVIDIA GPU found ──")
    assert "none in this machine" in gpu_rows(made(Machine(gpus=())), UTC, 80, 1)[0].text


def test_throttling_and_the_link_are_described() -> None:
    assert throttle_text(gpu(0, 1, clock_reasons=0x45)) == "thermal hw"
    assert throttle_text(gpu(0, 1, clock_reasons=0x1)) == "none"
    assert throttle_text(gpu(0, 1, clock_reasons=None)) == "?"
    assert link_text(gpu(0, 1)) == "Gen5 x16"
    assert link_text(gpu(0, 1, pcie_width=None)) == "?"


def test_the_system_rows_have_their_figures() -> None:
    full, cpu = (line.text for line in system_rows(STARVED, UTC, 80, 2))
    assert full.startswith(" used:  /data 37 %  /raid 21 %  / 64 %  shm 3 % ")
    assert full.rstrip().endswith("net eth0 0.1/100G  ib0 0/400G")
    assert cpu.startswith(" cpu 9/192 (40 allowed)  mem 0.3/2T  swap 0  psi io 97 %")
    assert cpu.rstrip().endswith("self 0.4 % 43 MB")
    assert system_rows(STARVED, UTC, 80, 6)[0].text.startswith("── network")
    crowded = made(Machine(usage={"/": 0.2, "/data": 0.97}))
    first = system_rows(crowded, UTC, 80, 2)[0]
    assert first.text.startswith(" used:  /data 97 %  / 20 %")
    assert [s.text.strip() for s in first.spans if s.token == "warn"] == ["97"]


def test_each_figure_of_pressure_is_labelled_so_that_none_reads_as_load() -> None:
    cpu = next(line.text for line in system_rows(STARVED, UTC, 160, 3) if "psi io" in line.text)
    assert re.findall(r"psi \w+", cpu) == ["psi io", "psi cpu", "psi mem"]


def ports(count: int, received: float | None, nics: int = 1) -> Frame:
    """A machine with busy NICs, ``count`` RDMA ports that each receive ``received``, and one that is down."""
    one = made(Machine(net={f"eth{n}": (5_000_000_000, 100_000_000_000) for n in range(nics)}))
    port = LinkCounters(0, 0, 0, 0, 0, 0, 400_000_000_000, "active", "ib")
    names = [f"mlx5_{n}/1" for n in range(count)]
    table = {**(one.snapshot.network.value or {}), **dict.fromkeys(names, port)}
    table["mlx5_99/1"] = port._replace(bits_per_s=None, state="down")
    known = LinkRates(received, received and 1.0, 0.0, 0.0, 0.0)
    rates = {**(one.sample.network.value or {}), **dict.fromkeys(names, known)}
    return one._replace(
        snapshot=one.snapshot._replace(network=one.snapshot.network._replace(value=table)),
        sample=one.sample._replace(network=one.sample.network._replace(value=rates)),
    )


@pytest.mark.parametrize(
    ("count", "received", "text"),
    [
        (8, 5_000_000_000.0, "net eth0 40.0/100G  rdma x8 320/3.2T"),
        (1, 0.0, "net eth0 40.0/100G  rdma 0/400G"),
        (8, None, "net eth0 40.0/100G  rdma x8 ?/3.2T"),
        (0, None, "net eth0 40.0/100G"),
    ],
)
def test_at_80_columns_the_rdma_ports_are_one_link(count: int, received: float | None, text: str) -> None:
    assert system_rows(ports(count, received), UTC, 80, 2)[0].text.rstrip().endswith(text)


def test_the_traffic_of_a_link_is_unknown_if_one_direction_is() -> None:
    one = ports(0, None)
    rates = LinkRates(1e6, None, 0.0, 0.0, None)
    one = one._replace(sample=one.sample._replace(network=one.sample.network._replace(value={"eth0": rates})))
    assert system_rows(one, UTC, 80, 2)[0].text.rstrip().endswith("net eth0 ?/100G")


def test_interfaces_that_are_busier_do_not_hide_the_rdma_ports() -> None:
    text = system_rows(ports(8, 0.0, nics=3), UTC, 80, 2)[0].text
    assert text.rstrip().endswith("net eth0 40.0/100G  rdma x8 0/3.2T")


def test_a_message_is_shown_beside_the_keys_and_hides_no_figure() -> None:
    view = UTC._replace(message="failed: no such disk")
    assert system_rows(STARVED, view, 80, 2) == system_rows(STARVED, UTC, 80, 2)
    (line,) = keys_rows(STARVED, view, 80, 1)
    assert line.text.startswith(" q ? ")
    assert line.text.rstrip().endswith("failed: no such disk")
    assert [s.text for s in line.spans if s.token == "bad"] == ["failed:"]


def test_choices_of_the_user_are_in_the_titles() -> None:
    def title(width: int, **chosen: object) -> str:
        return process_rows(STARVED, UTC._replace(**chosen), width, 5)[0].text  # type: ignore[arg-type]

    assert "process by io ▼ " in title(80)
    assert "process by cpu ▲ " in title(80, sort="cpu", reverse=True)
    assert ["name ▲ " in title(80, sort="name"), "name ▼ " in title(80, sort="name", reverse=True)] == [True, True]
    assert ["user ▲ " in title(80, sort="user"), "user ▼ " in title(80, sort="user", reverse=True)] == [True, True]
    assert "io ▼ active " in title(80, only_active=True)
    assert "tree by io ▼ " in title(160, tree=True)
    assert block_rows(STARVED, UTC, 80, 5)[0].text.startswith("── disk ─")
    assert block_rows(STARVED, UTC._replace(device="md0"), 80, 5)[0].text.startswith("── disk pinned r/s")
    assert block_rows(STARVED, UTC._replace(device="md0"), 160, 5)[0].text.startswith("── disk pinned ")
    assert block_rows(STARVED, UTC._replace(only_active=True), 160, 5)[0].text.startswith("── disk active ")


def test_the_keys_of_a_remote_machine_do_not_set_marks() -> None:
    assert not any("time.mark" in key.actions for key in keys_of(View(remote=True)))


def test_the_row_of_keys_shows_only_whole_entries() -> None:
    words = {f"{k.keys}:{k.word}" if k.word else k.keys for k in keys_of(View())}
    for width in (60, 80, 100, 160):
        text = keys_rows(NO_GPU, UTC, width, 1)[0].text
        assert text.startswith(" q ? Enter:why")
        for word in sorted(words, key=len, reverse=True):
            text = text.replace(word, "", 1)
        assert text.strip() == ""


@pytest.mark.parametrize("mode", ["live", "replay", "back"])
def test_the_key_of_health_is_always_shown_while_a_disk_fails(mode: str) -> None:
    failing = Finding("failing_disk", Severity.CRITICAL, 0.9, "sda", (("device", "sda"),))
    made = NO_GPU._replace(verdict=Verdict((failing,), 60.0, 10.0, 6, 6))
    assert " h:health" in keys_rows(made, UTC._replace(mode=mode), 60, 1)[0].text


def test_a_filter_is_typed_in_the_row_of_keys() -> None:
    text = keys_rows(NO_GPU, UTC._replace(typing=True, pattern="train"), 80, 1)[0].text
    assert text.startswith(" /train ")
    assert text.rstrip().endswith("Enter:keep Esc:clear")
    empty = keys_rows(NO_GPU, UTC._replace(typing=True), 80, 1)[0].text
    assert "a word, or user = root and name ~ python" in empty
    unfinished = keys_rows(NO_GPU, UTC._replace(typing=True, pattern="read >"), 80, 1)[0].text
    assert unfinished.rstrip().endswith("not valid Esc:clear")
    invalid = keys_rows(NO_GPU, UTC._replace(pattern="read >"), 80, 1)[0].text
    assert invalid.rstrip().endswith("/read > is not valid Esc:clear")
    kept = keys_rows(NO_GPU, UTC._replace(pattern="train"), 80, 1)[0].text
    assert kept.rstrip().endswith("/train Esc:clear")


def test_the_keys_that_return_to_now_and_clear_the_filter_are_those_that_the_user_has_set() -> None:
    view = UTC._replace(keymap=user_keymap({"cursor.last": ["G"], "filter.clear": ["f7"]})[0])
    assert " G:now" in keys_rows(NO_GPU, view._replace(mode="back"), 160, 1)[0].text
    assert keys_rows(NO_GPU, view._replace(pattern="train"), 80, 1)[0].text.rstrip().endswith("/train F7:clear")


def test_a_finding_about_a_process_does_not_blame_a_disk() -> None:
    named = Finding("cpu_prep", Severity.WARNING, 0.8, "vda", (("task", "vda"), ("tasks", 1.0)))
    lines = path_rows(NO_GPU._replace(verdict=Verdict((named,), 30, 10, 6, 6)), UTC, 80, 3)
    assert not [s for line in lines for s in line.spans if s.token == "bad"]


def test_an_await_of_zero_is_shown_in_the_graph_as_in_the_table() -> None:
    quick = Disk(disk("sda"), writes=2, write_bytes=8192, write_await=0.0)
    shown = [line.text for line in graph_rows(made(Machine((quick,))), UTC, 80, 4)]
    assert shown[3].startswith(" w_await    <1 ms")


def test_on_a_tall_screen_a_direction_without_requests_has_no_await() -> None:
    both = Disk(disk("sda"), reads=100, read_bytes=MIB, read_await=9.0, writes=9, write_bytes=MIB, write_await=2.0)
    only_reads = both._replace(writes=0, write_bytes=0)
    shown = frame(snapshots(lambda i: Machine((only_reads if i > 7 else both,)), 9))
    lines = [line.text for line in graph_rows(shown, UTC, 80, 13)]
    assert next(line for line in lines if line.startswith(" r_await")).split()[1] == "9.0"
    assert next(line for line in lines if line.startswith(" w_await")).split()[1] == "-"


def test_the_key_that_starts_a_recording_also_stops_it() -> None:
    recording = RecordingState("/run.iotop.jsonl", 75.0, 212_000)
    assert "R:record" in keys_rows(STARVED, UTC, 160, 1)[0].text
    for width in (80, 160):
        text = keys_rows(STARVED, UTC._replace(recording=recording), width, 1)[0].text
        assert "R:stop REC" in text
        assert "R:record" not in text


def test_the_key_for_the_next_mark_is_shown_at_80_columns() -> None:
    assert "':to mark" in keys_rows(STARVED, UTC._replace(mode="replay"), 80, 1)[0].text


@pytest.mark.parametrize(
    ("keymap", "words"),
    [
        ({}, "Left Right:10 s"),
        ({"arrow.left": []}, " Right:10 s"),
        ({"arrow.left": ["f7"], "arrow.right": ["f8"]}, "F7 F8:10 s"),
        ({"arrow.left": [], "arrow.right": []}, ""),
    ],
)
def test_the_keys_that_move_along_the_timeline_are_shown_there(keymap: dict[str, list[str]], words: str) -> None:
    view = UTC._replace(mode="replay", focus="timeline", keymap=user_keymap(keymap)[0])
    text = keys_rows(STARVED, view, 80, 1)[0].text
    assert words in text
    assert ("10 s" in text) is bool(words)
    assert "10 s" not in keys_rows(STARVED, view._replace(focus="banner"), 80, 1)[0].text


def test_a_replay_names_no_command_for_a_machine_of_the_past() -> None:
    reading = Reading(None, Status.ABSENT, "no process is listed under /proc", "mount -t proc proc /proc")
    hidden = STARVED._replace(snapshot=STARVED.snapshot._replace(processes=reading))
    texts = {mode: process_rows(hidden, UTC._replace(mode=mode), 80, 4)[1].text for mode in ("live", "replay")}
    assert "no process is listed under /proc (mount -t proc proc /proc)" in texts["live"]
    assert "no process is listed under /proc" in texts["replay"]
    assert "mount -t" not in texts["replay"]
