from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from iotop_ai.model.finding import Advice, Finding, RuledOut, Severity
from iotop_ai.model.frame import Frame
from iotop_ai.model.health.smart import SmartState
from iotop_ai.model.machine.filesystem import FilesystemUsage
from iotop_ai.model.verdict_class import PRECEDENCE
from iotop_ai.present.text import units
from iotop_ai.present.text.fit import fit
from iotop_ai.present.text.line import Span
from iotop_ai.present.verdict import headline
from iotop_ai.present.verdict.advice import milliseconds, why_templates, why_text
from iotop_ai.present.verdict.cures import advice_text, cure_templates
from tests.diagnosis.build import BUSY, IDLE, MB, PREPARING, SINGLE, SLOW_SSD, STARVED, Disk, Machine, Task, last, play
from tests.diagnosis.gpu_scenes import GPU_SCENES
from tests.diagnosis.host_scenes import HOST_SCENES, epochs
from tests.diagnosis.job_scenes import DATA_SCENES, STATE_SCENES, TIME_SCENES

TB = 1 << 40
DYING = SmartState("sda", "ata", "X", "1", "1", "FAIL", "critical", ("312 reallocated sectors", "2 pending"))
READER = Task(60, "python", cpu=0.05, read=10 * MB, blocked=0.93)
SLOW = Disk(read_bytes_per_s=10 * MB, await_ms=60, busy=1.0)
MACHINES = {
    "storage_read": replace(
        STARVED,
        smart=(DYING,),
        disks=(SLOW_SSD, Disk("md0", "nvme", mount="/raid")),
        usage={
            "/data": FilesystemUsage(2 * TB, TB, TB, 0, 0),
            "/raid": FilesystemUsage(16 * TB, 5 * TB, 11 * TB, 0, 0),
        },
    ),
    "storage_read without GPU": Machine(disks=(SLOW,), tasks=(READER,), io_pressure=0.5),
    "storage_read small": replace(STARVED, disks=(replace(SLOW_SSD, size_bytes=8192.0),)),
    "cpu_prep": PREPARING,
    "single_thread": SINGLE,
    "gpu_bound": BUSY,
    "healthy": replace(BUSY, gpus=(0.8,) * 8),
    "idle": IDLE,
    "failing_disk": Machine(smart=(DYING,), cpu=0.5),
    "unknown": Machine(cpu=0.5),
    "unknown with GPU": replace(STARVED, disks=(replace(SLOW_SSD, await_ms=1.2),)),
    "unknown blocked": Machine(tasks=(READER,), ptrace=False),
}
PARTS = (
    headline.headline,
    headline.because,
    headline.second,
    headline.advice,
    headline.ruled_out,
    headline.confidence,
    headline.loss,
)


def sentence(part: object, frame: Frame) -> str:
    return headline.text_of(part(frame.verdict))  # type: ignore[operator]


def test_every_class_has_a_scene() -> None:
    scenes = {**MACHINES, **DATA_SCENES, **STATE_SCENES, **TIME_SCENES, **GPU_SCENES, **HOST_SCENES}
    got = {name: last(machine).verdict.primary.class_id for name, machine in scenes.items()}
    assert got == {name: name.split()[0] for name in scenes}
    respawn_class = play(*epochs(20, 4, 4))[-1].verdict.primary.class_id
    missing = set(PRECEDENCE) ^ {*got.values(), respawn_class}
    assert not missing, f"{missing}: tests/diagnosis/*_scenes.py lacks scenes of these names, or they do not exist"


@pytest.mark.parametrize(
    ("name", "expected", "because", "advice"),
    [
        (
            "storage_read",
            "8 of 8 GPUs wait for data 78 % of the time",
            "disk sda 88 MB/s, r_await 87 ms (typical ≤ 1.3); 8/8 pt_data_worker blocked 100 %",
            "copy /data (at most 1 TB and ~3 h 19 min) to /raid (md0, 11 TB of room): iotop-ai stage /data /raid;"
            " give the GPUs the ~399 MB/s they ask for: sda gives 88 MB/s",
        ),
        (
            "storage_read without GPU",
            "python waits for disk sda 90 % of the time",
            "disk sda 9.5 MB/s, r_await 60 ms (typical ≤ 1.3)",
            "move the data to faster storage: sda gives 9.5 MB/s",
        ),
        (
            "cpu_prep",
            "8 of 8 GPUs wait for data 61 % of the time",
            "8 pt_data_worker compute at 98 % CPU, 32 of 40 cores idle; blocked by disks 0 %",
            "raise num_workers 1 -> 4 per GPU (80 % of 40 cores / 8 GPUs)",
        ),
        (
            "single_thread",
            "the GPU waits for data 80 % of the time",
            "python computes at 99 % CPU, 7 of 8 cores idle; blocked by disks 0 %",
            "raise num_workers 0 -> 6 (80 % of 8 cores); set pin_memory=True, persistent_workers=True",
        ),
        (
            "gpu_bound",
            "GPUs compute: 96 % busy, 94 % of the power limit",
            "disks block the job's processes at most 10 % of the time",
            "a faster disk will not help; batch size, bf16, compiling the model may",
        ),
        ("idle", "no training job seen", "CPU 2 %, no GPU, disks below 1 MB/s", None),
        (
            "failing_disk",
            "sda is FAILING: 312 reallocated sectors, 2 pending",
            "its own health report is critical; it holds /data",
            "back up sda now, then replace it",
        ),
        ("unknown", "no training job seen; nothing is at its limit", None, ""),
        ("unknown with GPU", "GPUs idle 78 % of the time, cause not seen", None, None),
        ("unknown blocked", "python is blocked 90 % of the time, cause not seen", None, None),
    ],
)
def test_each_class_is_described(name: str, expected: str, because: str | None, advice: str | None) -> None:
    frame = last(MACHINES[name])
    assert sentence(headline.headline, frame) == expected
    assert because is None or sentence(headline.because, frame) == because
    assert advice is None or sentence(headline.advice, frame) == advice


@pytest.mark.parametrize(
    ("name", "expected", "because"),
    [
        (
            "gpu_throttle",
            "GPU 0 is slowed down by heat 30 % of the time",
            "GPU 0 runs at 900 of 1980 MHz, 91 C (slows at 90), 620 of 700 W; 97 % busy",
        ),
        (
            "gpu_throttle lowered",
            "8 GPUs are held at a lowered power limit 90 % of the time",
            "GPU 0 runs at 1300 of 1980 MHz, 64 C (slows at 90), 395 of 400 W (by default 700); 97 % busy",
        ),
        (
            "pcie narrow",
            "the PCIe link of GPU 0 is full: 8.4 GB/s",
            "GPU 0 receives 8.4 GB/s of about 12 GB/s, link gen 5 x4 of gen 5 x16",
        ),
        (
            "gpu_memory shared",
            "memory of 8 GPUs is 98 % full, another program holds part of it",
            "GPU 0 holds 78 GB of 80 GB; pid 900 is not part of the job and holds 30 GB",
        ),
        ("gpu_fault lost", "GPU 3 no longer answers", None),
        (
            "gpu_fault board",
            "GPU 2 reported Xid 48, 14 s ago",
            "double-bit ECC error: drain the node and reset the GPU; train.py runs on it",
        ),
        ("no_gpu", "train.py trains on the CPU, GPU 0 unused", None),
        (
            "comm_wait",
            "8 GPUs spin at 100 % but draw 98 of 700 W",
            "no batch is taken: they wait in a collective for another rank",
        ),
        (
            "imbalance",
            "the other GPU waits for GPU 0",
            "GPU 0 is 42 % busy at 310 W, the other 100 % at 310 W",
        ),
    ],
)
def test_classes_about_gpus_are_described(name: str, expected: str, because: str | None) -> None:
    frame = last(GPU_SCENES[name])
    assert sentence(headline.headline, frame) == expected
    assert because is None or sentence(headline.because, frame) == because
    assert sentence(headline.advice, frame)


@pytest.mark.parametrize(
    ("uuid", "command"),
    [
        ("GPU-0", "nvidia-smi -q -d PERFORMANCE"),
        ("AMD-0000:03:00.0", "amd-smi metric or rocm-smi"),
        ("Intel-0000:03:00.0", "xpu-smi or intel_gpu_top"),
    ],
)
def test_the_advice_for_a_low_clock_names_the_command_of_the_gpus_maker(uuid: str, command: str) -> None:
    machine = GPU_SCENES["imbalance clock"]
    frame = last(replace(machine, gpu_only={**machine.gpu_only, 0: {"uuid": uuid}}))
    assert sentence(headline.advice, frame).endswith(f"at a lower clock: heat, power limit, {command}")


def test_a_disk_that_reports_its_failure_shows_its_figures() -> None:
    reasons = ("the disk itself says that it is failing", "reliability is degraded", "102 % of its rated life used")
    frame = last(Machine(smart=(DYING._replace(reasons=reasons),), cpu=0.5))
    assert sentence(headline.headline, frame).startswith("sda is FAILING: the disk itself says that it is failing")
    assert sentence(headline.because, frame).startswith(
        "its own health report is critical: 102 % of its rated life used"
    )


def test_the_second_finding_and_the_loss_are_shown() -> None:
    frame = last(MACHINES["storage_read"])
    assert sentence(headline.second, frame) == "sda is FAILING: 312 reallocated sectors, 2 pending"
    assert sentence(headline.loss, frame) == "6.2 GPU-h lost/h"
    assert sentence(headline.confidence, frame) == "confidence high"
    assert sentence(headline.second, last(IDLE)) == ""
    assert sentence(headline.loss, last(IDLE)) == ""


def test_a_finding_about_another_jobs_gpus_names_the_job() -> None:
    verdict = last(STARVED).verdict
    args = dict(verdict.primary.args) | {"job": "train.py", "job_pid": 5.0}
    primary = verdict.primary._replace(args=tuple(args.items()))
    same = primary._replace(class_id="cpu_prep", args=tuple((args | {"lost": 0.4}).items()))
    other = same._replace(args=tuple((args | {"lost": 0.4, "job": "eval.py", "job_pid": 7.0}).items()))
    twin = same._replace(args=tuple((args | {"lost": 0.4, "job_pid": 7.0}).items()))
    words = headline.text_of(headline.headline_of(same))
    assert words.endswith("GPUs wait for data 40 % of the time")
    for finding, expected in ((same, words), (other, f"eval.py: {words}"), (twin, f"train.py 7: {words}")):
        both = verdict._replace(findings=(primary, finding))
        assert headline.text_of(headline.second(both)) == expected


def test_several_processes_of_one_name_are_grouped() -> None:
    readers = tuple(replace(READER, pid=60 + i, name="fio", read=1 * MB) for i in range(8))
    frame = last(Machine(disks=(SLOW,), tasks=readers, io_pressure=0.5))
    assert sentence(headline.headline, frame) == "fio x8 wait for disk sda 90 % of the time"


@pytest.mark.parametrize(
    ("gpus", "total", "expected"),
    [(1.0, 1.0, "the GPU waits"), (1.0, 8.0, "1 of 8 GPUs waits"), (2.0, 8.0, "2 of 8 GPUs wait")],
)
@pytest.mark.parametrize("job", ["", "train.py"])
def test_the_verb_agrees_with_the_number_of_waiting_gpus(gpus: float, total: float, expected: str, job: str) -> None:
    args = (("job", job), ("gpus", gpus), ("gpus_all", total), ("lost", 0.8))
    words = headline.headline_of(Finding("single_thread", Severity.WARNING, 0.9, args=args))
    assert headline.text_of(words) == f"{expected} for data 80 % of the time"


def test_a_measuring_machine_names_its_missing_signals() -> None:
    frame = last(replace(IDLE, ptrace=False), ticks=4)
    assert sentence(headline.headline, frame) == "measuring 3 of 10 s"
    assert "cannot see: other users' I/O, NVIDIA driver, SMART" in sentence(headline.because, frame)
    assert sentence(headline.confidence, frame) == ""


def test_decisive_figures_are_bold_and_the_culprit_has_its_colour() -> None:
    frame = last(MACHINES["storage_read without GPU"])
    spans = headline.headline(frame.verdict)
    assert Span("90 %", "strong") in spans
    assert Span("sda", "bad") in spans


@pytest.mark.parametrize("name", [*MACHINES, *GPU_SCENES])
@pytest.mark.parametrize("width", [50, 69, 149])
def test_every_sentence_is_shortened_by_whole_clauses(name: str, width: int) -> None:
    frame = last({**MACHINES, **GPU_SCENES}[name])
    for part in PARTS:
        spans = part(frame.verdict)
        whole, cut = headline.text_of(spans), headline.text_of(fit(spans, width)).removesuffix("…")
        assert len(cut) <= width
        full = whole if whole.startswith(cut) else re.sub(r" ?\([^)]*\)", "", whole)
        assert full.startswith(cut)
        assert bool(cut) == bool(whole)
        rest = full[len(cut) :]
        assert not rest or rest.startswith((";", ",", ":", " "))
    assert len(sentence(headline.headline, frame)) <= 69


@pytest.mark.parametrize("name", GPU_SCENES)
def test_the_loss_is_the_growth_of_the_lost_gpu_hours(name: str) -> None:
    before, frame = play((GPU_SCENES[name], 25))[-2:]
    hours = [one.verdict.primary.gpu_hours_lost or 0.0 for one in (before, frame)]
    lost = (hours[1] - hours[0]) * 3600
    assert sentence(headline.loss, frame) == (f"{units.figure(lost)} GPU-h lost/h" if lost else "")


@pytest.mark.parametrize("name", MACHINES)
def test_findings_are_written_as_json(name: str) -> None:
    for found in last(MACHINES[name]).verdict.findings:
        data = json.loads(json.dumps(headline.finding_object(found), allow_nan=False))
        assert list(data) == [
            "class",
            "state",
            "confidence",
            "severity",
            "evidence",
            "ruled_out",
            "advice",
            "lost_ratio",
            "gpu_hours_lost",
        ]
        assert data["state"] == found.state
        assert data["severity"] in ("info", "warning", "critical")
        assert all(set(e) == {"metric", "value", "unit", "threshold"} for e in data["evidence"])
        assert all(set(r) == {"class", "why"} and r["why"] for r in data["ruled_out"])
        assert all(data["advice"])


def test_every_template_gives_words_even_without_its_arguments() -> None:
    cures, reasons = cure_templates(), why_templates()
    assert all(advice_text(Advice(name)) for name in cures)
    assert all(why_text(RuledOut("idle", name)) for name in reasons)


def test_an_unknown_figure_is_a_question_mark() -> None:
    assert "? MB/s" in advice_text(Advice("faster_storage", (("device", "sda"), ("rate", None))))


def test_a_latency_is_never_written_as_zero() -> None:
    shown = [milliseconds(value) for value in (0.0, 0.02, 0.9, 87.04, None)]
    assert shown == ["<0.1", "0.02", "0.9", "87", "?"]


@pytest.mark.parametrize(
    ("name", "change", "advice"),
    [
        ("gpu_throttle", {}, "cool GPU 0 below 90 C: fans, airflow, room; or lower the power limit for a steady clock"),
        ("gpu_throttle all", {}, "cool 8 GPUs: fans, airflow, room; or lower the power limit for a steady clock"),
        ("gpu_throttle brake", {}, "check power supply, rack and cables of GPU 0: its power brake is on"),
        ("gpu_throttle by mask", {}, "check power supply, rack and cables of GPU 0: it is slowed, but not hot"),
        (
            "gpu_throttle by mask",
            {"clock_reasons": 0x20},
            "cool 8 GPUs: fans, airflow, room; or lower the power limit for a steady clock",
        ),
        (
            "gpu_throttle lowered",
            {},
            "run nvidia-smi -i 0,1,2,3,4,5,6,7 -pl 700: the limit of GPU 0 is 400 W",
        ),
        ("gpu_throttle lowered", {"uuid": "AMD-1"}, "raise its power limit to 700 W: the limit of GPU 0 is 400 W"),
    ],
)
def test_a_slowed_gpu_has_a_cure_that_can_work(name: str, change: dict[str, object], advice: str) -> None:
    machine = GPU_SCENES[name]
    shown = last(replace(machine, gpu_state={**machine.gpu_state, **change}))
    assert sentence(headline.advice, shown) == advice


def test_only_the_limit_of_the_gpus_with_a_lowered_limit_is_raised() -> None:
    machine = GPU_SCENES["gpu_throttle lowered"]
    one_lowered = replace(
        machine,
        gpu_state={**machine.gpu_state, "power_limit_mw": 700_000},
        gpu_only={3: {"power_limit_mw": 400_000}},
        gpu_only_rates={n: {"power_limit_watts": 700.0, "sm_mhz": 1755.0} for n in range(8) if n != 3},
    )
    assert sentence(headline.advice, last(one_lowered)) == "run nvidia-smi -i 3 -pl 700: the limit of GPU 3 is 400 W"
