"""Events that both the kernel's log and the GPU driver report."""

from __future__ import annotations

from iotop_ai.collectors.gpu.nvml.xid_events import XidEvent
from iotop_ai.collectors.machine.kernel_log.event import LogEvent
from iotop_ai.model.gpu.state import GpuState
from iotop_ai.model.reading import Reading, Status
from iotop_ai.sources.live.kernel_events import KernelEvents, bus_address

SECOND = 10**9
GPUS = {"GPU-1": Reading(GpuState("GPU-1", 0, "H100", bus_id="00000000:3B:00.0"), Status.OK)}
LOG = LogEvent("xid", "0000:3b:00", "0000:3b:00: Xid 79, GPU has fallen off the bus.", number=79)


def texts(events: KernelEvents, log: list[LogEvent], xids: list[XidEvent], at_s: int) -> list[tuple[str, int | None]]:
    return [(e.text, e.pid) for e in events.merge(log, xids, GPUS, at_s * SECOND, at_s * SECOND)]


def test_pci_addresses_get_a_common_form() -> None:
    assert bus_address("00000000:3B:00.0") == bus_address("0000:3b:00") == "0:3b:00"
    assert bus_address("00010000:3B:00.0") == bus_address("10000:3b:00") != bus_address("0000:3b:00")


def test_an_xid_in_log_and_driver_is_reported_once_with_the_uuid_and_the_text_of_the_log() -> None:
    reported: list[XidEvent] = []
    events = KernelEvents(reported.append)
    nvml = XidEvent("GPU-1", 79, SECOND, SECOND)
    assert texts(events, [LOG], [nvml], 1) == [("GPU-1: Xid 79, GPU has fallen off the bus.", None)]
    assert texts(events, [], [nvml], 2) == []
    assert texts(events, [LOG], [], 20) == [("GPU-1: Xid 79, GPU has fallen off the bus.", None)]
    assert texts(events, [], [XidEvent("GPU-1", 31, SECOND, SECOND)], 21) == [("GPU-1: Xid 31", None)]
    assert [(x.uuid, x.number, x.at_ns) for x in reported] == [("GPU-1", 79, SECOND), ("GPU-1", 79, 20 * SECOND)]


def test_an_xid_without_a_uuid_is_taken_for_the_one_in_the_log() -> None:
    nvml = XidEvent("", 79, SECOND, SECOND)
    other = LOG._replace(subject="0000:99:00", text="0000:99:00: Xid 79")
    events = KernelEvents([].append)
    assert texts(events, [], [nvml, nvml], 1) == [("a GPU: Xid 79", None)]
    assert texts(events, [LOG, other], [], 2) == [("0000:99:00: Xid 79", None)], "two GPUs have one Xid each"
    assert texts(events, [LOG, other], [nvml], 3) == []
    events = KernelEvents([].append)
    assert [text[:10] for text, _ in texts(events, [LOG, other], [nvml, nvml], 1)] == ["GPU-1: Xid", "0000:99:00"]
    assert texts(events, [], [nvml], 2) == []
    assert texts(events, [], [nvml], 20) == [("a GPU: Xid 79", None)]
    assert len(texts(events, [LOG], [], 40)) == 1, "an Xid of 20 s ago is not the same"


def test_the_recovery_in_the_log_is_kept_even_if_nvml_was_first() -> None:
    reported: list[XidEvent] = []
    events = KernelEvents(reported.append)
    assert len(texts(events, [], [XidEvent("GPU-1", 154, SECOND, SECOND)], 1)) == 1
    entry = LOG._replace(number=154, text="0000:3b:00: Xid 154, ...", recovery=2)
    assert texts(events, [entry], [], 2) == []
    assert [(x.uuid, x.number, x.recovery) for x in reported] == [("GPU-1", 154, 2)]


def test_an_xid_that_repeats_is_reported_every_5_s() -> None:
    events = KernelEvents([].append)
    assert [at for at in range(14) if texts(events, [LOG], [], at)] == [0, 5, 10]


def test_a_lost_gpu_is_identified_by_its_address() -> None:
    reported: list[XidEvent] = []
    events = KernelEvents(reported.append)
    events.merge([], [], GPUS, 0, 0)
    lost = {"GPU-1": Reading(None, Status.FAILED, "lost")}
    assert [e.text for e in events.merge([LOG], [], lost, 9, 9)] == ["GPU-1: Xid 79, GPU has fallen off the bus."]
    assert [x.uuid for x in reported] == ["GPU-1"]


def test_an_xid_of_an_unknown_gpu_keeps_its_address() -> None:
    other = LOG._replace(subject="0000:99:00", text="0000:99:00: Xid 79")
    assert texts(KernelEvents([].append), [other], [], 1) == [("0000:99:00: Xid 79", None)]


def test_kills_in_the_log_are_reported_only_once() -> None:
    events = KernelEvents([].append)
    kill = LogEvent("oom_kill", "python3", "the kernel killed python3 (pid 7) for memory", pid=7)
    assert texts(events, [kill], [], 1) == [("the kernel killed python3 (pid 7) for memory", 7)]
    assert events.count_unlogged(0) == 0
    assert events.count_unlogged(3) == 2
    assert events.count_unlogged(1) == 1


def test_a_kill_is_remembered_until_its_process_has_had_time_to_end() -> None:
    events = KernelEvents([].append)
    kill = LogEvent("oom_kill", "python3", "the kernel killed python3 (pid 7) for memory", pid=7)

    def killed(at_s: int, kills: int, *log: LogEvent) -> tuple[bool, bool]:
        texts(events, list(log), [], at_s)
        events.count_unlogged(kills)
        return events.killed_before(7), events.killed_before(8)

    assert killed(1, 0) == (False, False)
    assert killed(2, 1, kill) == (True, False)
    assert killed(20, 0) == (True, False)
    assert killed(62, 0) == (False, False)
    assert killed(63, 1) == (True, True), "a kill that the log lacks may be of any process"
    assert killed(79, 0) == (False, False)
