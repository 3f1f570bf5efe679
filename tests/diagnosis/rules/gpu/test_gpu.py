from __future__ import annotations

from dataclasses import replace

import pytest

from iotop_ai.diagnosis.engine import fold
from iotop_ai.diagnosis.facts.gather import gather
from iotop_ai.diagnosis.facts.window import claim_level
from iotop_ai.diagnosis.rules.gpu.collective import one_gpu_is_late
from iotop_ai.model.finding import Severity
from iotop_ai.model.fold_state import FoldState
from iotop_ai.model.gpu.state import GpuProcess
from iotop_ai.model.job.task_states import TaskRates
from iotop_ai.model.machine.kernel_log import DeviceErrors
from iotop_ai.model.verdict_class import State
from tests.diagnosis.build import (
    COMPUTING,
    GIB,
    JOB_HEALTHY,
    JOB_STARVED,
    LOADERS,
    MB,
    Disk,
    Machine,
    Task,
    classes,
    play,
    sample_of,
    snapshot_of,
    verdict_of,
)
from tests.diagnosis.gpu_scenes import (
    FED,
    FEW_KERNELS,
    GPU_ASIDE,
    GPU_NEAR_MISSES,
    GPU_SCENES,
    ON_CPU,
    SPINNING,
    SPINNING_TRAINER,
    TWO_HIDDEN_JOBS,
    first_gpu,
    rates,
    two_programs,
)
from tests.diagnosis.job_scenes import with_job

CLASSES = {"gpu_throttle", "pcie", "gpu_memory", "gpu_fault", "no_gpu", "comm_wait", "imbalance"}
UNKNOWN = replace(
    JOB_HEALTHY, gpus=(None,) * 4, gpu_pids=(50,), power=None,
)  # fmt: skip


def args(machine: Machine) -> dict[str, str | float | None]:
    return dict(verdict_of(machine).primary.args)


def test_every_class_has_scenes() -> None:
    assert {name.split()[0] for name in GPU_SCENES} == CLASSES
    assert {name.split()[0] for name in GPU_NEAR_MISSES} == CLASSES


@pytest.mark.parametrize("name", GPU_SCENES)
def test_the_cause_of_each_scene_is_named(name: str) -> None:
    verdict = verdict_of(GPU_SCENES[name])
    assert verdict.primary.class_id == name.split()[0]
    assert verdict.primary.severity is not Severity.INFO
    assert verdict.primary.advice
    assert all(one.value is not None for one in verdict.primary.evidence[:1])


@pytest.mark.parametrize("name", GPU_NEAR_MISSES)
def test_a_scene_that_just_misses_a_class_does_not_get_it(name: str) -> None:
    assert name.split()[0] not in classes(verdict_of(GPU_NEAR_MISSES[name]))


@pytest.mark.parametrize("name", GPU_ASIDE)
def test_problems_that_cost_nothing_are_shown_beside_the_verdict(name: str) -> None:
    verdict = verdict_of(GPU_ASIDE[name])
    assert classes(verdict) == name.split()
    assert verdict.state is State.OK
    assert verdict.findings[1].severity is Severity.INFO


@pytest.mark.parametrize(
    "machine",
    [FED, UNKNOWN, Machine(without_readings=True), JOB_HEALTHY, SPINNING_TRAINER, JOB_STARVED],
    ids=["healthy", "unknown", "no readings", "no GPU", "spinning trainer", "starved"],
)
def test_no_gpu_problem_is_found_where_none_is_known(machine: Machine) -> None:
    assert not set(classes(verdict_of(machine))) & CLASSES


def test_a_spinning_main_thread_does_not_count_as_loading_data() -> None:
    assert classes(verdict_of(SPINNING_TRAINER)) == ["gpu_bound"]


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        ("gpu_throttle", 0.95, 0.95),
        ("gpu_throttle by mask", 0.75, 0.75),
        ("pcie full", 0.85, 0.85),
        ("pcie slow unmeasured", 0.6, 0.6),
        ("gpu_fault lost", 0.95, 0.95),
        ("comm_wait", 0.8, 0.8),
        ("comm_wait by tensor", 0.9, 0.9),
        ("comm_wait unclear", 0.6, 0.65),
        ("imbalance", 0.85, 0.85),
        ("imbalance without power", 0.7, 0.7),
    ],
)
def test_each_scene_has_the_expected_confidence(name: str, least: float, most: float) -> None:
    assert least <= verdict_of(GPU_SCENES[name]).primary.confidence <= most


def test_the_evidence_has_the_threshold_that_was_crossed() -> None:
    def thresholds(machine: Machine, end: str) -> list[tuple[float | None, float | None]]:
        return [
            (one.value, one.threshold)
            for found in verdict_of(machine).findings
            for one in found.evidence
            if one.metric.endswith(end)
        ]

    ((power, limit),) = thresholds(GPU_SCENES["comm_wait by tensor"], "power_ratio")
    assert power is not None
    assert limit is not None
    assert power < limit
    near = replace(rates(FED, temperature_celsius=83.0), gpu_detail={**FED.gpu_detail, "slowdown_celsius": 84})
    ((celsius, limit),) = thresholds(near, "temperature_celsius")
    assert (celsius, limit) == (83.0, 81.0)


def test_one_reading_at_a_lower_generation_does_not_explain_repeated_packets() -> None:
    replays = first_gpu(FED, pcie_replays_per_s=4000.0)
    at_lower_generation = first_gpu(FED, pcie_replays_per_s=4000.0, pcie_generation=3)
    frames = play((replays, 20), (at_lower_generation, 1), (replays, 10))
    assert dict(frames[-1].verdict.primary.args)["why"] == "replays"


def test_a_narrow_link_that_is_full_is_seen_although_its_gpu_only_waits() -> None:
    narrow = replace(rates(FED, pcie_width=4, pcie_rx_bytes_per_s=11.5e9), gpus=(0.03,) * 8, power=70.0)
    (pcie,) = [one for one in verdict_of(narrow).findings if one.class_id == "pcie"]
    found = dict(pcie.args)
    assert (found["why"], found["width"], found["width_max"]) == ("full", 4, 16)
    assert [one.template for one in pcie.advice] == ["reseat", "send_less"]
    at_rest = rates(narrow, pcie_rx_bytes_per_s=0.1e9)
    assert "pcie" not in classes(verdict_of(at_rest)), "a link at rest gives up lanes to save power"


def test_the_rate_of_an_earlier_generation_does_not_make_a_link_slow() -> None:
    """A link saves power by a lower generation. Its rate is read every few seconds, its generation every second."""
    quiet = replace(rates(FED, pcie_generation=1, pcie_rx_bytes_per_s=0.0), gpus=(0.05,) * 8, power=80.0)
    burst = rates(quiet, pcie_generation=4, pcie_rx_bytes_per_s=22e9)
    after = rates(quiet, pcie_rx_bytes_per_s=22e9)
    frames = play((quiet, 30), (burst, 1), (after, 4), (quiet, 30))
    assert all("pcie" not in classes(frame.verdict) for frame in frames)


def test_a_slow_link_shows_its_generation_under_load() -> None:
    loaded = rates(FED, pcie_generation=3, pcie_rx_bytes_per_s=9e9)
    resting = replace(rates(FED, pcie_generation=1), gpus=(0.0,) * 8, power=70.0)
    found = play((loaded, 30), (resting, 2))[-1].verdict.findings
    (pcie,) = [one for one in found if one.class_id == "pcie"]
    assert dict(pcie.args)["generation"] == 3


def test_a_link_is_compared_with_the_limits_of_its_slot() -> None:
    slot = {**FED.gpu_detail, "slot_max_generation": 4, "slot_max_width": 8}
    narrow = replace(rates(FED, pcie_generation=4, pcie_width=4), gpu_detail=slot)
    (pcie,) = [one for one in verdict_of(narrow).findings if one.class_id == "pcie"]
    found = dict(pcie.args)
    assert (found["why"], found["width"], found["width_max"], found["generation_max"]) == ("narrow", 4, 8, 4)
    most = {one.metric: one.threshold for one in pcie.evidence}
    assert (most["gpus.0.pcie_width"], most["gpus.0.pcie_generation"]) == (8, 4)
    board_unknown = replace(narrow, gpu_state={**FED.gpu_state, "pcie_max_generation": None, "pcie_max_width": None})
    assert "pcie" not in classes(verdict_of(board_unknown))


def test_one_counter_of_slowed_time_gives_the_same_confidence_as_all() -> None:
    hot = first_gpu(FED, hw_thermal_ratio=0.3, sw_thermal_ratio=None, sm_mhz=900.0)
    assert verdict_of(hot).primary.confidence == 0.95


def test_the_affected_gpu_or_job_is_named() -> None:
    assert args(GPU_SCENES["gpu_throttle"])["who"] == "GPU 0"
    assert args(GPU_SCENES["gpu_throttle all"])["who"] == "8 GPUs"
    assert args(GPU_SCENES["gpu_fault lost"])["gpu"] == "GPU 3"
    assert verdict_of(GPU_SCENES["gpu_fault board"]).primary.subject == "GPU-2"
    assert args(GPU_SCENES["imbalance by power"])["late"] == "GPU 0"
    assert args(GPU_SCENES["imbalance by power"])["why"] == "longer"
    by_clock = args(GPU_SCENES["imbalance clock"])
    assert (by_clock["why"], by_clock["share"]) == ("clock", None)
    assert args(GPU_SCENES["gpu_memory shared"])["other_pid"] == 900
    own = replace(GPU_SCENES["gpu_memory shared"], tasks=(*FED.tasks, Task(800, "sh", 50), Task(900, "python", 800)))
    (below,) = [one for one in verdict_of(own, 40).findings if one.class_id == "gpu_memory"]
    assert (below.severity, dict(below.args)["sharers"]) == (Severity.INFO, 0.0), (
        "a process of the job counts as a sharer"
    )
    assert verdict_of(GPU_SCENES["comm_wait"]).primary.subject == "50"


def test_a_program_fault_is_shown_for_ten_minutes_and_a_board_fault_for_good() -> None:
    def after(xid: int, seconds: int) -> list[str]:
        machine = replace(FED, gpu_only={0: {"last_xid": xid, "last_xid_at_ns": 0}}, interval_s=30.0)
        return classes(play((machine, seconds // 30))[-1].verdict)

    assert after(31, 300)[0] == "gpu_fault"
    assert after(31, 900)[0] == "gpu_bound"
    assert after(79, 900)[0] == "gpu_fault"


def test_memory_that_is_about_to_run_out_is_critical_and_memory_that_rose_in_one_step_is_not() -> None:
    def held(gigabytes: float) -> Machine:
        return rates(FED, memory_used_bytes=gigabytes * GIB)

    growing = play(*((held(76.5 + 0.1 * second), 1) for second in range(25)))[-1].verdict
    assert (growing.primary.class_id, growing.primary.severity) == ("gpu_memory", Severity.CRITICAL)
    assert dict(growing.primary.args)["end_s"] == pytest.approx(12, abs=3)
    stepped = play((held(70.0), 14), (held(77.0), 14))[-1].verdict
    assert classes(stepped) == ["gpu_bound", "gpu_memory"]


@pytest.mark.parametrize(("every", "tick_s"), [(1, 1.0), (2, 1.0), (5, 1.0), (5, 0.2)])
def test_the_time_until_memory_is_full_does_not_depend_on_how_often_the_gpu_is_read(every: int, tick_s: float) -> None:
    carry, history = FoldState(), ()
    read = None
    for tick in range(int(60 / tick_s)):
        used = 76.4 * GIB + 4 * MB * tick * tick_s
        machine = replace(rates(FED, memory_used_bytes=used), interval_s=tick_s)
        snapshot, sample = snapshot_of(machine, tick), sample_of(machine, tick)
        if read is None or tick % every == 0:
            read = snapshot.gpu, sample.gpu._replace(seconds=every * tick_s if tick else None)
            sample = sample._replace(gpu=read[1])
        else:
            snapshot, sample = snapshot._replace(gpu=read[0]), sample._replace(gpu=read[1]._replace(renewed=False))
        history = (*history, sample)
        carry, verdict = fold(carry, snapshot, history)
    (found,) = [one for one in verdict.findings if one.class_id == "gpu_memory"]
    assert dict(found.args)["end_s"] == pytest.approx(907, abs=10)
    assert found.severity is Severity.INFO


def test_an_idle_link_that_saves_power_does_not_count_as_full() -> None:
    working = rates(FED, pcie_rx_bytes_per_s=4e9)
    resting = replace(rates(FED, pcie_rx_bytes_per_s=0.0, pcie_generation=1), gpus=(0.0,) * 8, power=70.0)
    assert all("pcie" not in classes(frame.verdict) for frame in play((working, 40), (resting, 30)))


def test_a_throttled_gpu_recovers_only_below_the_lower_limit() -> None:
    hot, warm, cool = (first_gpu(FED, sw_thermal_ratio=share) for share in (0.3, 0.02, 0.0))
    frames = play((hot, 15), (warm, 40), (cool, 40))
    assert frames[14].verdict.primary.class_id == "gpu_throttle"
    assert frames[54].verdict.primary.class_id == "gpu_throttle"
    assert frames[-1].verdict.primary.class_id == "gpu_bound"


def test_a_job_that_resumes_after_a_collective_is_no_longer_blocked() -> None:
    frames = play((SPINNING, 20), (FED, 30))
    assert frames[19].verdict.state is State.BLOCKED
    assert frames[-1].verdict.primary.class_id == "gpu_bound"


def test_the_activity_of_the_sms_raises_confidence_or_shows_small_kernels() -> None:
    full, small = verdict_of(rates(FED, sm_ratio=0.85)).primary, verdict_of(rates(FED, sm_ratio=0.3)).primary
    assert (full.class_id, full.confidence, full.advice[0].template) == ("gpu_bound", 0.95, "gpu_limits")
    assert (small.class_id, small.confidence, small.advice[0].template) == ("gpu_bound", 0.8, "larger_kernels")
    one = replace(FED, gpus=(0.97,), power=None, gpu_rates={**FED.gpu_rates, "power_watts": None})
    assert verdict_of(rates(one, sm_ratio=0.6)).primary.confidence == 0.8
    assert verdict_of(rates(one, sm_ratio=0.3)).primary.confidence == 0.6
    few_watts = replace(FED, gpus=(0.97,), power=200.0)
    assert classes(verdict_of(few_watts)) == ["unknown"]
    assert classes(verdict_of(rates(few_watts, sm_ratio=0.6))) == ["gpu_bound"]


def test_gpus_that_draw_far_less_than_their_usual_power_wait_for_each_other() -> None:
    fallen = replace(FEW_KERNELS, power=210.0)
    assert classes(verdict_of(fallen)) == ["unknown"]
    verdict = play((FED, 40), (fallen, 30))[-1].verdict
    assert (verdict.primary.class_id, verdict.primary.confidence) == ("comm_wait", 0.8)
    assert verdict.primary.lost_ratio == pytest.approx(1 - 210 / 620, abs=0.01)
    others = replace(
        fallen, gpu_pids=(51,), gpu_state={**fallen.gpu_state, "processes": (GpuProcess(51, GIB, "compute"),)}
    )
    assert "comm_wait" not in classes(play((FED, 40), (others, 30))[-1].verdict)


@pytest.mark.parametrize(
    "ranks",
    [
        (Task(900, "all_reduce_perf", 70), Task(901, "all_reduce_perf", 80)),
        (Task(900, "rank0", 70), Task(901, "rank1", 70)),
    ],
    ids=["one program", "one parent"],
)
def test_ranks_of_an_unrecognised_job_are_judged_together(ranks: tuple[Task, Task]) -> None:
    assert "comm_wait" in classes(verdict_of(two_programs(*ranks), 40))


def test_the_only_job_gets_the_gpus_whose_processes_are_hidden() -> None:
    alone = replace(TWO_HIDDEN_JOBS, second_job=None, tasks=TWO_HIDDEN_JOBS.tasks[:1])
    alone = with_job(alone, evidence=("device", "library"))
    found = verdict_of(alone, 40).primary
    assert (found.class_id, found.subject) == ("comm_wait", "50")


def test_traffic_is_shown_even_if_the_speed_of_the_link_is_unknown() -> None:
    def network(**links: float | None) -> dict[str, float | None]:
        known = replace(FEW_KERNELS, links=links, sent={"eth0": 25 * MB, "eth1": 3 * MB})
        found = verdict_of(known).primary
        assert found.class_id == "comm_wait"
        return {one.metric: one.value for one in found.evidence if one.metric.startswith("network.")}

    about = pytest.approx
    assert network(eth0=0.02, eth1=0.01) == about(
        {"network.eth0.busy_ratio": 0.02, "network.eth0.bytes_per_s": 25 * MB}
    )
    assert network(eth0=None, eth1=0.3) == about({"network.eth1.busy_ratio": 0.3, "network.eth1.bytes_per_s": 3 * MB})
    assert network(eth0=None, eth1=None) == about({"network.eth0.bytes_per_s": 25 * MB})
    assert network(eth9=None) == {}


def holding_memory(**state: object) -> Machine:
    """An idle GPU on which memory is held, with these changes of its state."""
    return replace(
        rates(FED, pcie_rx_bytes_per_s=1e6), gpus=(0.0,), power=70.0, job=None, disks=(Disk(),), tasks=(Task(50),),
        interval_s=10.0, gpu_state={**FED.gpu_state, "memory_used_bytes": 60 * GIB, **state},
    )  # fmt: skip


def test_memory_held_on_an_idle_gpu_for_a_long_time_is_shown_beside_the_verdict() -> None:
    resting = holding_memory()
    early, late = play((resting, 30))[-1].verdict, play((resting, 70))[-1].verdict
    assert classes(early) == ["idle"]
    assert classes(late) == ["idle", "no_gpu"]
    assert dict(late.findings[1].args)["task"] == "python"
    busy = replace(resting, gpus=(0.5,))
    assert classes(play((resting, 50), (busy, 1), (resting, 15))[-1].verdict) == ["idle"]
    without_process = replace(resting, gpu_pids=())
    assert "no_gpu" not in classes(play((without_process, 70))[-1].verdict)


def test_a_pid_of_another_namespace_is_not_taken_for_a_process_here() -> None:
    """In a container, NVML's pids are those of the host."""
    elsewhere = GpuProcess(50, 60 * GIB, "compute", found=False)
    resting = holding_memory(processes=(elsewhere,))
    found = dict(play((resting, 70))[-1].verdict.findings[1].args)
    assert (found["task"], found["pid"]) == ("", None)


def test_causes_that_are_ruled_out_are_listed() -> None:
    ruled_out = {reason.class_id for reason in verdict_of(FED).primary.ruled_out}
    assert {"gpu_throttle", "comm_wait"} <= ruled_out
    hot = {reason.class_id for reason in verdict_of(rates(FED, sw_thermal_ratio=0.03)).primary.ruled_out}
    assert "gpu_throttle" not in hot
    blank = rates(FED, sw_thermal_ratio=None, hw_thermal_ratio=None, power_brake_ratio=None)
    assert "gpu_throttle" not in {reason.class_id for reason in verdict_of(blank).primary.ruled_out}


def test_a_driver_that_no_longer_answers_does_not_end_a_fault() -> None:
    gone = replace(FED, gpus=(), gpu_pids=())
    frames = play((GPU_SCENES["gpu_fault lost"], 12), (gone, 30))
    assert frames[-1].verdict.primary.class_id == "gpu_fault"


def test_training_on_the_cpu_names_the_gpu_that_is_free() -> None:
    verdict = verdict_of(ON_CPU)
    assert (verdict.state, dict(verdict.primary.args)["free"]) == (State.WASTED, "GPU 0")
    assert verdict_of(replace(ON_CPU, gpus=(0.0,) * 3)).primary.class_id == "no_gpu"


@pytest.mark.parametrize(
    ("task", "why"), [({"disk": 0.8}, "blocked"), ({"cpu": 0.5, "wait": 0.4}, "computes"), ({}, "")]
)
def test_the_verdict_names_what_the_loaders_of_the_late_rank_do(task: dict[str, float], why: str) -> None:
    frame = play((GPU_SCENES["imbalance"], 15))[-1]
    loader_rates = TaskRates(task.get("disk", 0.0), 0.0, 0.0, task.get("cpu", 0.0), task.get("wait", 0.0))
    tasks = {worker.key: loader_rates for worker in LOADERS}
    history = tuple(
        s._replace(jobs=s.jobs._replace(value=s.jobs.value._replace(tasks=tasks))) if s.jobs.value is not None else s
        for s in frame.history
    )
    (claimed,) = one_gpu_is_late(gather(frame.snapshot, history))
    assert dict(claimed.finding.args)["why"] == why


def test_a_job_beside_an_idle_gpu_comes_before_a_healthy_job() -> None:
    well = Task(40, "python", 1, cpu=0.3, start=-100_000)
    other = replace(COMPUTING, task=well, stall=0.01, evidence=("children",))
    machine = replace(ON_CPU, tasks=(*ON_CPU.tasks, well), second_job=other)
    verdict = verdict_of(machine)
    assert (verdict.primary.class_id, dict(verdict.primary.args)["job_pid"]) == ("no_gpu", 50)


def test_a_level_is_graded_between_the_entry_and_the_exit_threshold() -> None:
    assert claim_level(0.05, 0.05, 0.01, 0.7) == pytest.approx(1.0)
    assert claim_level(0.01, 0.05, 0.01, 0.7) == pytest.approx(0.7)
    assert claim_level(0.25, 0.25, 0.35, 0.7) == pytest.approx(1.0)
    assert claim_level(0.36, 0.25, 0.35, 0.7) < 0.7
    assert claim_level(None, 0.25, 0.35, 0.7) == 0.0


@pytest.mark.parametrize(("logged", "is_found"), [("10000:c1:00.0", True), ("0000:c1:00.0", False)])
def test_errors_count_for_a_gpu_only_if_its_whole_pci_address_matches(logged: str, is_found: bool) -> None:
    errors = {logged: DeviceErrors(1, 0, "ring timeout")}
    scene = replace(FED, gpu_only={2: {"bus_id": "00010000:C1:00.0"}}, errors=errors)
    assert ("gpu_fault" in classes(verdict_of(scene, 20))) is is_found
