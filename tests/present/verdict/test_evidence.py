"""Evidence in words: the name of each metric, the unit of each figure, and whether it meets its threshold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from iotop_ai.model.finding import Evidence, Finding, Severity
from iotop_ai.present.verdict.evidence import MET, PLAIN, UNKNOWN, UNMET, facts_of, metric_words, value_with_unit
from tests.diagnosis.build import JOB_PREPARING, Machine, play
from tests.diagnosis.job_scenes import DATA_SCENES, STATE_SCENES, TIME_SCENES, with_job

SCENES = {**DATA_SCENES, **STATE_SCENES, **TIME_SCENES}


def facts_about(class_id: str, *evidence: Evidence) -> list[tuple[str, str, str]]:
    finding = Finding(class_id, Severity.WARNING, 0.9, "sda", (("normal_ms", 1.3004),), evidence)
    return [(fact.value, fact.limit, fact.standing) for fact in facts_of(finding)]


def test_each_figure_shows_whether_it_meets_its_threshold() -> None:
    assert facts_about("storage_read", Evidence("jobs.5.stall_ratio", 0.78, "ratio", 0.08)) == [("78 %", ">= 8 %", MET)]
    assert facts_about("storage_read", Evidence("gpus.busy_ratio", 0.22, "ratio", 0.7)) == [("22 %", "< 70 %", MET)]
    assert facts_about("gpu_bound", Evidence("gpus.busy_ratio", 0.97, "ratio", 0.9)) == [("97 %", ">= 90 %", MET)]
    assert facts_about("storage_read", Evidence("disks.sda.read_size_bytes", 131072, "B", 49152)) == [
        ("128 KB", "< 48 KB", UNMET)
    ]
    assert facts_about("storage_read", Evidence("disks.sda.queue_size", 7.9, "count")) == [("7.9", "", PLAIN)]
    assert facts_about("fs_full", Evidence("filesystems./.inodes_used_ratio", None, "ratio", 0.99)) == [
        ("?", ">= 99 %", UNKNOWN)
    ]


def test_only_a_time_is_compared_with_the_typical_time() -> None:
    assert facts_about("storage_read", Evidence("disks.sda.read_await_ms", 87.0, "ms", 1.3))[0][1] == "typical 1.3 ms"
    assert facts_about("storage_read", Evidence("jobs.5.stall_ratio", 1.4, "ratio", 1.3))[0][1] == ">= 130 %"


def test_a_rate_just_below_its_limit_counts_as_limited() -> None:
    assert facts_about("io_limit", Evidence("jobs.50.read_bytes", 97 * 2**20 / 10, "B/s", 10 * 2**20)) == [
        ("9.7 MB/s", "limit 10 MB/s", MET)
    ]
    assert facts_about("io_limit", Evidence("jobs.50.read_ios", 310.0, "1/s", 300.0)) == [("310/s", "limit 300/s", MET)]


def test_a_latency_is_compared_with_the_normal_one() -> None:
    assert facts_about("storage_read", Evidence("disks.sda.read_await_ms", 87.0, "ms", 1.3)) == [
        ("87 ms", "typical 1.3 ms", MET)
    ]


@pytest.mark.parametrize(
    ("metric", "words"),
    [
        ("gpus.busy_ratio", "GPUs busy"),
        ("cpu.all.busy_ratio", "CPUs busy"),
        ("jobs.50.stall_ratio", "time without data"),
        ("disks.nvme0n1.read_await_ms", "nvme0n1: time of a read"),
        ("filesystems./data.used_ratio", "/data: used"),
        ("filesystems./a.b/c.used_ratio", "/a.b/c: used"),
        ("pressure.io.some_ratio", "time in which a task waits for io"),
        ("processes.python.cpu_ratio", "python: on a CPU"),
        ("smart.sda.media_errors", "sda: media errors"),
        ("network.received_bytes_per_s", "received"),
        ("jobs.50.bytes_per_s", "data moved"),
        ("disks.sda.others_bytes_per_s", "sda: data moved by others"),
        ("cpu.others_cores", "cores used by others"),
    ],
)
def test_metrics_are_described_in_words(metric: str, words: str) -> None:
    assert metric_words(metric) == words


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0, "ratio", "0 %"),
        (0.004, "ratio", "<1 %"),
        (None, "ms", "?"),
        (92 * 1048576.0, "B/s", "92 MB/s"),
        (0.0, "B", "0 B"),
        (12.0, "s", "12 s"),
        (300.0, "1/s", "300/s"),
        (312.0, "count", "312"),
        (2.0, "count", "2"),
    ],
)
def test_figures_have_their_units(value: float | None, unit: str, text: str) -> None:
    assert value_with_unit(value, unit) == text


@pytest.mark.parametrize("name", SCENES)
def test_every_class_has_evidence_with_a_threshold(name: str) -> None:
    facts = facts_of(play((SCENES[name], 25))[-1].verdict.primary)
    assert facts
    assert any(fact.standing in (MET, PLAIN) for fact in facts)
    assert all(fact.words and "_" not in fact.words.partition(":")[0] for fact in facts)


@pytest.mark.parametrize(
    ("machine", "words", "short"),
    [
        (with_job(JOB_PREPARING, stall=0.06), "time without data, over 60 s", "time without data"),
        (
            replace(with_job(TIME_SCENES["host_bound"], time=(("host", 0.06), ("compute", 0.94))), gpus=(0.9,)),
            "main thread runs, GPU idle, over 60 s",
            "main thread runs, GPU idle",
        ),
    ],
)
def test_a_loss_that_only_the_long_window_shows_has_its_figure_as_evidence(
    machine: Machine, words: str, short: str
) -> None:
    first, second, *_ = facts_of(play((machine, 70))[-1].verdict.primary)
    assert first[:4] == (words, "6 %", ">= 5 %", MET)
    assert second[:4] == (short, "6 %", "", PLAIN)


def test_figures_of_gpus_are_compared_in_the_right_direction() -> None:
    assert facts_about("comm_wait", Evidence("gpus.busy_ratio", 1.0, "ratio", 0.9)) == [("100 %", ">= 90 %", MET)]
    assert facts_about("comm_wait", Evidence("gpus.power_ratio", 0.14, "ratio", 0.4)) == [("14 %", "< 40 %", MET)]
    assert facts_about("gpu_throttle", Evidence("gpus.0.sm_clock_ratio", 0.45, "ratio", 0.85)) == [
        ("45 %", "< 85 %", MET)
    ]
    assert facts_about("gpu_fault", Evidence("gpus.3.answers", 0.0, "bool", 1.0)) == [("no", "should be yes", MET)]
    assert facts_about("no_gpu", Evidence("jobs.5.gpus", 0.0, "count", 1.0)) == [("0", "< 1", MET)]
    assert facts_about("healthy", Evidence("jobs.5.stall_ratio", 0.01, "ratio", 0.08)) == [("1 %", "< 8 %", MET)]
    assert facts_about("gpu_throttle", Evidence("gpus.0.temperature_celsius", 91.0, "celsius", 90.0)) == [
        ("91 C", ">= 90 C", MET)
    ]
    assert metric_words("jobs.50.time.host") == "main thread runs, GPU idle"
    assert metric_words("gpus.3.pcie_width") == "GPU 3: PCIe lanes"
    assert metric_words("gpus.others.busy_ratio") == "other GPUs: busy"


def test_a_figure_that_supports_the_verdict_is_not_shown_against_it() -> None:
    assert facts_about("gpu_bound", Evidence("gpus.sm_ratio", 0.91, "ratio", 0.5)) == [("91 %", ">= 50 %", MET)]
    assert facts_about("comm_wait", Evidence("gpus.sm_ratio", 0.14, "ratio", 0.5)) == [("14 %", "< 50 %", MET)]
    small = Finding("gpu_bound", Severity.INFO, 0.8, "", (("small", 1.0),), (Evidence("gpus.sm_ratio", 0.2, "", 0.5),))
    assert [fact.standing for fact in facts_of(small)] == [MET]
    power = "gpus.0.power_watts"
    assert facts_about("gpu_throttle", Evidence(power, 395.0, "W", 400.0)) == [("395 W", "limit 400 W", MET)]
    assert facts_about("gpu_throttle", Evidence(power, 200.0, "W", 400.0)) == [("200 W", "limit 400 W", UNMET)]
    full, other = (Evidence(f"gpus.0.pcie_{way}_bytes_per_s", rate, "B/s", 50 * 2**30)
                   for way, rate in (("rx", 45 * 2**30), ("tx", 2**30)))  # fmt: skip
    assert facts_about("pcie", full, other) == [("45 GB/s", "limit 50 GB/s", MET), ("1.0 GB/s", "limit 50 GB/s", PLAIN)]
    serial = (
        Evidence("disks.sda.read_await_ms", 1.5, "ms", 1.3),
        Evidence("disks.sda.read_size_bytes", 2**17, "B", 49152),
    )
    assert facts_about("loader_serial", *serial) == [("1.5 ms", "typical 1.3 ms", MET), ("128 KB", ">= 48 KB", MET)]
