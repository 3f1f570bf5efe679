"""The text of a scrape: it is valid for Prometheus's tools, complete, bounded and without secrets."""

from __future__ import annotations

import functools
import re

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from iotop_ai.export.prometheus.block import LEFT_OUT, RATES
from iotop_ai.export.prometheus.exposition import metrics, render, wants_openmetrics
from iotop_ai.export.prometheus.families import BASE_UNITS, columns_of, exported_name, label_text
from iotop_ai.export.prometheus.job import MOST_JOBS
from iotop_ai.model.block.counters import BlockCounters, BlockKey, BlockRates
from iotop_ai.model.finding import Finding, Severity
from iotop_ai.model.frame import Frame
from iotop_ai.model.job.records import JobTable
from iotop_ai.model.job.time_shares import SHARES
from iotop_ai.model.process.records import ProcessKey
from iotop_ai.model.reading import Reading, Status
from tests.bench.scrape import LIMIT_MS, MOST_SERIES, cost_ms, session
from tests.rigs.prometheus import need_prometheus, promtool


@functools.cache
def session_frames() -> tuple[Frame, ...]:
    return tuple(session(14))


def text(frame: Frame, *, openmetrics: bool = False) -> str:
    return render(metrics(frame), openmetrics=openmetrics).decode()


def values(frame: Frame, name: str) -> dict[str, float]:
    found = re.findall(rf"^{name}(\{{.*\}})? (\S+)$", text(frame), re.MULTILINE)
    return {labels: float(value) for labels, value in found}


def test_both_formats_have_the_same_series() -> None:
    frame = session_frames()[-1]
    openmetrics = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for one in parse_openmetrics(text(frame, openmetrics=True))
        for sample in one.samples
    }
    plain = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for one in parse_text(text(frame))
        for sample in one.samples
    }
    assert openmetrics == plain
    assert len(plain) == sum(len(one.samples) for one in metrics(frame))


def test_promtool_reports_no_fault() -> None:
    need_prometheus()
    done = promtool("check", "metrics", text=text(session_frames()[-1]).encode())
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_full_machine_has_few_series_and_costs_little() -> None:
    # The limit is doubled, because other programs may run meanwhile; tests.bench.scrape measures exactly.
    milliseconds, series, _ = cost_ms(list(session_frames()[-8:]))
    assert series <= MOST_SERIES
    assert milliseconds <= 2 * LIMIT_MS


def test_counters_equal_the_kernels_counters_in_base_units() -> None:
    frame = session_frames()[-1]
    key = BlockKey("nvme3n1", 13)
    assert frame.snapshot.block.value is not None
    counters = frame.snapshot.block.value[key]
    disk = '{device="nvme3n1"}'
    assert values(frame, "iotop_disk_reads_completed_total")[disk] == counters.rd_ios
    assert values(frame, "iotop_disk_read_bytes_total")[disk] == counters.rd_sectors * 512
    assert values(frame, "iotop_disk_write_time_seconds_total")[disk] == counters.wr_ms / 1000
    state = next(iter((frame.snapshot.gpu.value or {}).values())).value
    assert state is not None
    assert state.energy_mj is not None
    gpu = f'{{gpu="{state.number}",UUID="{state.uuid}"}}'
    assert values(frame, "iotop_gpu_energy_joules_total")[gpu] == state.energy_mj / 1000


def test_the_growth_of_a_jobs_counters_is_the_time_that_passed() -> None:
    first, last = session_frames()[2], session_frames()[-1]
    grown = [
        sum(values(frame, "iotop_job_time_seconds_total").values())
        for frame in (first, last)
    ]  # fmt: skip
    steps = last.snapshot.seq - first.snapshot.seq
    assert grown[1] - grown[0] == pytest.approx(2 * 14 * 0.070 * steps)
    assert len(values(last, "iotop_job_time_seconds_total")) == 2 * len(SHARES)
    assert '{pid="1000",script="train.py",slurm_job_id="48213",bucket="data_disk"}' in values(
        last, "iotop_job_time_seconds_total"
    )


def test_an_unknown_value_has_no_series_and_zero_has_one() -> None:
    frame = session_frames()[0]  # without an earlier Snapshot, every rate is unknown
    assert not values(frame, "iotop_disk_busy_ratio")
    assert set(values(frame, "iotop_disk_discards_completed_total").values()) == {0.0}


def test_each_collector_has_a_status() -> None:
    frame = session_frames()[-1]
    read = frame.snapshot._replace(clocks=Reading(None, Status.ABSENT, "no clocks", at_ns=frame.snapshot.at_ns))
    found = values(frame._replace(snapshot=read), "iotop_collector_status")
    assert found['{collector="clocks",status="absent"}'] == 1
    assert found['{collector="block",status="ok"}'] == 1
    assert not [labels for labels in found if "baselines" in labels]


def test_hostile_names_are_escaped() -> None:
    assert label_text((("script", 'a"b\\c\nd'), ("unit", ""))) == '{script="a\\"b\\\\c\\nd"}'
    assert len(label_text((("script", "x" * 5000),))) < 200


def test_the_number_of_series_is_bounded() -> None:
    frame = session_frames()[-1]
    table = frame.snapshot.jobs.value
    assert table is not None
    job = next(iter(table.jobs.values()))
    keys = [ProcessKey(10_000 + i, 1) for i in range(500)]
    jobs = JobTable({key: job._replace(key=key) for key in keys}, times=dict.fromkeys(keys, table.times[job.key]))
    findings = tuple(Finding("failing_disk", Severity.WARNING, 1.0, f"sd{i}") for i in range(500))
    counters = next(iter((frame.snapshot.block.value or {}).values()))
    disks = {BlockKey(f"dm-{i}", i): counters for i in range(3000)}
    crowded = frame._replace(
        snapshot=frame.snapshot._replace(
            jobs=frame.snapshot.jobs._replace(value=jobs), block=frame.snapshot.block._replace(value=disks)
        ),
        verdict=frame.verdict._replace(findings=findings),
    )
    assert len(values(crowded, "iotop_job_time_seconds_total")) == MOST_JOBS * len(SHARES)
    assert len(values(crowded, "iotop_finding")) == 32
    assert len(values(crowded, "iotop_disk_reads_completed_total")) == 256


def test_the_ranks_of_a_job_are_one_series_and_the_late_rank_is_named() -> None:
    frame = session_frames()[-1]
    table = frame.snapshot.jobs.value
    assert table is not None
    first, second = table.jobs.values()
    unknown = first._replace(ranks=tuple(rank._replace(number=None) for rank in first.ranks))
    jobs = {first.key: unknown, second.key: second._replace(label="", group="7@node-1:29500")}

    def shown(*findings: Finding) -> Frame:
        reading = frame.snapshot.jobs._replace(value=table._replace(jobs=jobs))
        return frame._replace(
            snapshot=frame.snapshot._replace(jobs=reading),
            verdict=frame.verdict._replace(findings=findings or frame.verdict.findings),
        )

    infos = [labels for labels in values(shown(), "iotop_job_info") if f'pid="{second.key.pid}"' in labels]
    assert len(infos) == 1
    assert infos[0].endswith('user="alice",ranks="12-15",rank_group="7@node-1:29500"}')
    assert "ranks=" not in next(labels for labels in values(shown(), "iotop_job_info") if labels not in infos)
    assert not values(shown(), "iotop_job_late_rank")
    imbalances = [
        Finding("imbalance", severity, 0.9, "GPU 1", (("pid", float(job.ranks[1].key.pid)),))
        for job in (first, second)
        for severity in (Severity.INFO, Severity.WARNING)
    ]
    of_second = {f'{{pid="{second.key.pid}",script="train.py"}}': 13.0}
    assert values(shown(*imbalances), "iotop_job_late_rank") == of_second
    waits = Finding("cpu_prep", Severity.WARNING, 0.9, "", (("late_pid", float(second.ranks[1].key.pid)),))
    assert values(shown(waits), "iotop_job_late_rank") == of_second
    # this rank has less to do, and the others do not wait for it
    assert not values(shown(imbalances[2]), "iotop_job_late_rank")


def test_findings_are_gauges() -> None:
    frame = session_frames()[-1]
    finding = Finding("failing_disk", Severity.CRITICAL, 0.9, "sda", gpu_hours_lost=0.5)
    found = frame._replace(verdict=frame.verdict._replace(findings=(finding,)))
    labels = 'class="failing_disk",subject="sda",state="FAILING"'
    assert values(found, "iotop_finding") == {f'{{{labels},severity="critical",primary="yes"}}': 1.0}
    assert values(found, "iotop_finding_lost_gpu_seconds") == {f"{{{labels}}}": 1800.0}
    assert values(found, "iotop_verdict_state")['{state="FAILING"}'] == 1.0
    assert sum(values(found, "iotop_verdict_state").values()) == 1.0
    # A finding that stands beside the verdict "unknown" is not the verdict.
    unknown = Finding("unknown", Severity.INFO, 0.0)
    beside = frame._replace(verdict=frame.verdict._replace(findings=(unknown, finding)))
    assert values(beside, "iotop_finding") == {f'{{{labels},severity="critical",primary="no"}}': 1.0}


def test_names_of_metrics_follow_from_the_declarations() -> None:
    assert exported_name("iotop_disk", "read_await_ms", "ms") == "iotop_disk_read_await_seconds"
    assert exported_name("iotop_gpu", "sm_mhz", "MHz") == "iotop_gpu_sm_hertz"
    assert exported_name("iotop_disk", "in_flight", "count") == "iotop_disk_in_flight"
    assert {column.field for column in columns_of("d", BlockRates, LEFT_OUT)} == RATES
    for column in columns_of("iotop_disk", BlockCounters):
        assert not column.unit or column.name.endswith(f"_{column.unit}")
        assert column.text.endswith(".")
    assert all(base.word != "milliseconds" for base in BASE_UNITS.values())


def test_only_the_named_disks_are_exported() -> None:
    lines = render(metrics(session_frames()[-1], ("nvme2n1",)), openmetrics=False).decode().splitlines()
    assert {line.split('"')[1] for line in lines if line.startswith(("iotop_disk_", "iotop_smart_"))} == {"nvme2n1"}


def test_the_client_selects_the_format() -> None:
    assert wants_openmetrics("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1")
    assert not wants_openmetrics("text/plain;version=0.0.4")
    assert not wants_openmetrics("")
    assert not wants_openmetrics("application/openmetrics-text; version=1.0.0; q=0, text/plain")
