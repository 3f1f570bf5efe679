"""TCP, RDMA ports and the clocks of the CPU, read twice from files modelled on the kernel's documentation."""

from __future__ import annotations

from pathlib import Path

import pytest

from iotop_ai.collectors.base import take_reading
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.machine.cpu_clocks import PER_READING, ClocksCollector
from iotop_ai.collectors.machine.network.links import NetworkCollector
from iotop_ai.collectors.machine.network.rdma import RdmaCollector
from iotop_ai.collectors.machine.network.tcp import TcpCollector, parse_snmp
from iotop_ai.export.json.machine import system_object
from iotop_ai.export.tables.frames import tables
from iotop_ai.model.frame import Frame
from iotop_ai.model.machine.cpu_clocks import ClockState, clock_rates
from iotop_ai.model.machine.rdma import RdmaCounters, rdma_rates
from iotop_ai.model.machine.tcp import TcpCounters, tcp_rates
from iotop_ai.model.reading import Status
from iotop_ai.pipeline import frames
from iotop_ai.present.machine.trouble import host_problems
from tests.clocks import SetClock
from tests.export.make import S, ok, snapshot
from tests.rigs.descriptors import too_many_open_files
from tests.rigs.unreadable import unreadable

SNMP = (
    "Ip: Forwarding DefaultTTL\nIp: 1 64\n"
    "Tcp: RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens PassiveOpens AttemptFails EstabResets CurrEstab InSegs "
    "OutSegs RetransSegs InErrs OutRsts InCsumErrors\n"
    "Tcp: 1 200 120000 -1 607 403 5 34 2 31063 {out} {again} {errors} 481 0\n"
    "Udp: InDatagrams NoPorts\nUdp: 1 2\n"
)
PORT = "sys/class/infiniband/mlx5_0/ports/1"


def put(root: Path, files: dict[str, object]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")


def test_tcp_counters_are_found_by_their_names(tmp_path: Path) -> None:
    put(tmp_path, {"proc/self/net/snmp": SNMP.format(out=1000, again=10, errors=1)})
    collector = TcpCollector(Root(str(tmp_path)))
    before = collector.read()
    assert before == TcpCounters(1000, 10, 1)
    (tmp_path / "proc/self/net/snmp").write_text(SNMP.format(out=3000, again=90, errors=1))
    rates = tcp_rates(before, collector.read(), 2.0)
    assert tuple(rates) == (1000.0, 40.0, 0.04, 0.0)
    collector.close()
    assert parse_snmp(b"Tcp: OutSegs\n") is None
    assert parse_snmp(b"Tcp: OutSegs RetransSegs\nTcp: 5 x\n") == TcpCounters(5, None, None)
    assert tuple(tcp_rates(None, before, None)) == (None,) * 4
    assert tcp_rates(before, before, 1.0).retransmit_ratio is None, "a ratio was given though nothing was sent"


def test_the_counters_of_an_rdma_port_depend_on_its_driver(tmp_path: Path) -> None:
    put(
        tmp_path,
        {
            f"{PORT}/counters/link_downed": 1,
            f"{PORT}/counters/symbol_error": 4,
            f"{PORT}/hw_counters/packet_seq_err": 100,
            f"{PORT}/hw_counters/np_cnp_sent": 1000,
            f"{PORT}/hw_counters/roce_adp_retrans": "N/A (no PMA)",
        },
    )
    collector = RdmaCollector(Root(str(tmp_path)))
    before = collector.read()
    known = RdmaCounters(symbol_error=4, link_downed=1, packet_seq_err=100, np_cnp_sent=1000)
    assert before == {"mlx5_0/1": known}
    put(tmp_path, {f"{PORT}/hw_counters/packet_seq_err": 150, f"{PORT}/hw_counters/np_cnp_sent": 6000})
    rates = rdma_rates(before, collector.read(), 5.0)["mlx5_0/1"]
    assert (rates.packet_seq_err_per_s, rates.np_cnp_sent_per_s, rates.errors_per_s) == (10.0, 1000.0, 10.0)
    assert (rates.link_downed_per_s, rates.out_of_buffer_per_s) == (0.0, None)
    assert rdma_rates(None, before, None)["mlx5_0/1"].errors_per_s is None


def test_the_growth_of_an_rdma_count_at_its_maximum_is_unknown() -> None:
    """Counts of 8 or 16 bits stop at their maximum; the growth up to the maximum is still known."""
    before, after = RdmaCounters(65535, 255, 255), RdmaCounters(65535, 255, 255, 255)
    rates = rdma_rates({"mlx5_0/1": before}, {"mlx5_0/1": after}, 1.0)["mlx5_0/1"]
    assert (rates.symbol_error_per_s, rates.link_downed_per_s, rates.link_error_recovery_per_s) == (None, None, None)
    rates = rdma_rates({"mlx5_0/1": before._replace(symbol_error=65530)}, {"mlx5_0/1": after}, 1.0)["mlx5_0/1"]
    assert rates.symbol_error_per_s == 5


def cores(root: Path, number: int, khz: int, throttles: int) -> None:
    for cpu in range(number):
        here = f"sys/devices/system/cpu/cpu{cpu}"
        put(
            root,
            {
                f"{here}/cpufreq/scaling_cur_freq": khz + cpu,
                f"{here}/cpufreq/base_frequency": 2_000_000,
                f"{here}/cpufreq/cpuinfo_max_freq": 3_500_000,
                f"{here}/thermal_throttle/core_throttle_count": throttles,
                f"{here}/thermal_throttle/package_throttle_count": throttles * 10,
                f"{here}/topology/physical_package_id": cpu % 2,
            },
        )


def test_clocks_of_many_cores_are_read_in_turn(tmp_path: Path) -> None:
    number = PER_READING + 16
    cores(tmp_path, number, 1_000_000, 1)
    collector = ClocksCollector(Root(str(tmp_path)), SetClock())
    first = collector.read()
    assert (first.least_khz, first.mean_khz, first.most_khz) == (None, 1_000_000 + (PER_READING - 1) // 2, None)
    second = collector.read()
    assert second == ClockState(1_000_000, second.mean_khz, 1_000_000 + number - 1, 2_000_000, 3_500_000, number, 20)
    cores(tmp_path, number, 900_000, 3)
    collector.read()
    fourth = collector.read()
    rates = clock_rates(second, fourth, 10.0)
    assert (rates.least_mhz, rates.base_mhz, rates.top_mhz) == (900.0, 2000.0, 3500.0)


class SlowRoot(Root):
    """A root where each clock takes 10 ms, as that of a busy CPU does before Linux 5.19."""

    def __init__(self, path: str, clock: SetClock) -> None:
        super().__init__(path)
        self.clock = clock

    def read_once(self, relative: str, size: int, offset: int = 0) -> bytes:
        if relative.endswith("scaling_cur_freq"):
            self.clock.skip(0.01)
        return super().read_once(relative, size, offset)


def test_slow_clocks_delay_a_reading_by_30_ms_at_most(tmp_path: Path) -> None:
    cores(tmp_path, 8, 1_000_000, 1)
    clock = SetClock()
    collector = ClocksCollector(SlowRoot(str(tmp_path), clock), clock)
    readings = [collector.read() for _ in range(3)]
    assert [(reading.mean_khz, reading.most_khz) for reading in readings] == [
        (1_000_001, None),
        (1_000_002, None),
        (1_000_003, 1_000_007),
    ]
    assert clock.now_ns == 9 * 10_000_000


def test_slow_clocks_are_not_shown_when_they_are_old(tmp_path: Path) -> None:
    """In a reading every 5 s, only the newest nine of these clocks can be known."""
    cores(tmp_path, 20, 1_000_000, 1)
    clock = SetClock()
    collector = ClocksCollector(SlowRoot(str(tmp_path), clock), clock)
    for _ in range(5):
        collector.read()
        clock.skip(5)
    cores(tmp_path, 20, 3_000_000, 1)
    means = []
    for _ in range(4):
        reading = collector.read()
        assert (reading.least_khz, reading.most_khz) == (None, None)
        means.append((reading.mean_khz or 0) // 1000)
        clock.skip(5)
    assert means == [1666, 2333, 3000, 3000]


class BigRoot(Root):
    """The root of a machine with many CPUs, without the files of each. khz: the clock of the first CPU."""

    def __init__(self, path: str, number: int) -> None:
        super().__init__(path)
        self.number = number
        self.khz = 1_000_000

    def entries(self, relative: str) -> list[str]:
        return [f"cpu{cpu}" for cpu in range(self.number)]

    def exists(self, relative: str) -> bool:
        return relative.endswith("/cpufreq")

    def number_read_once(self, relative: str) -> int | None:
        return self.khz + int(relative.split("/")[4][3:]) if relative.endswith("scaling_cur_freq") else None


@pytest.mark.parametrize("interval_s", [5, 7, 10, 11, 60])
@pytest.mark.parametrize("number", [8, 224, 700])
def test_the_clocks_of_all_cores_are_from_the_last_seconds(number: int, interval_s: int, tmp_path: Path) -> None:
    clock, root = SetClock(), BigRoot(str(tmp_path), number)
    collector = ClocksCollector(root, clock)
    readings = []
    for seconds in range(0, 90 + interval_s, interval_s):
        root.khz = 1_000_000 if seconds < 60 else 3_000_000
        readings.append((seconds, collector.read()))
        clock.skip(interval_s)
    assert all(reading.least_khz == 1_000_000 for seconds, reading in readings if 15 <= seconds < 60)
    last = readings[-1][1]
    assert (last.least_khz, last.most_khz) == (3_000_000, 3_000_000 + number - 1)


def test_the_throttles_of_many_cores_are_counted_in_every_reading(tmp_path: Path) -> None:
    number = PER_READING + 16
    cores(tmp_path, number, 1_000_000, 1)
    collector = ClocksCollector(Root(str(tmp_path)))
    before = collector.read()
    for throttles in (3, 5):
        cores(tmp_path, number, 1_000_000, throttles)
        after = collector.read()
        rates = clock_rates(before, after, 5.0)
        assert (rates.core_throttles_per_s, rates.package_throttles_per_s) == (number * 2 / 5, 8.0)
        before = after


def test_the_threads_of_a_core_count_its_throttles_once(tmp_path: Path) -> None:
    root = Root(str(tmp_path))
    cores(tmp_path, 4, 1_000_000, 5)
    for cpu in range(4):
        put(tmp_path, {f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list": f"{cpu % 2},{cpu % 2 + 2}"})
    assert ClocksCollector(root).read().core_throttles == 10


def test_cpus_that_are_offline_for_a_while_were_not_throttled(tmp_path: Path) -> None:
    cores(tmp_path, 4, 1_000_000, 5)
    collector = ClocksCollector(Root(str(tmp_path)))
    before = collector.read()
    folder, away = tmp_path / "sys/devices/system/cpu/cpu1/thermal_throttle", tmp_path / "away"
    folder.rename(away)
    offline = collector.read()
    away.rename(folder)
    for found in (offline, collector.read()):
        rates = clock_rates(before, found, 5.0)
        assert (rates.core_throttles_per_s, rates.package_throttles_per_s) == (0.0, 0.0)
        before = found


@pytest.mark.parametrize("collector", [TcpCollector, RdmaCollector, ClocksCollector])
def test_on_a_machine_without_the_files_the_counts_are_absent(collector: type, tmp_path: Path) -> None:
    reading = take_reading(collector(Root(str(tmp_path))), Clock())
    assert (reading.value, reading.status) == (None, Status.ABSENT)


def test_too_many_open_files_do_not_make_the_counts_absent(tmp_path: Path) -> None:
    cores(tmp_path, 4, 1_000_000, 5)
    port = {"counters/symbol_error": 3, "counters/port_rcv_data": 1, "counters/port_xmit_data": 1, "state": "4: ACTIVE"}
    put(tmp_path, {f"{PORT}/{name}": value for name, value in port.items()})
    root = Root(str(tmp_path))
    for collector in (ClocksCollector(root), RdmaCollector(root), NetworkCollector(root)):
        with too_many_open_files():
            failed = take_reading(collector, Clock())
        assert (failed.status, failed.reason.rpartition(": ")[2]) == (Status.FAILED, "Too many open files")
        assert take_reading(collector, Clock()).value
        collector.close()


def shown(again: int, errors: int, throttles: int) -> Frame:
    def at(seq: int, grown: int) -> object:
        now = (2 + 2 * seq) * S
        return snapshot(
            seq,
            now,
            tcp=ok(TcpCounters(2000 * grown, again * grown, 0), now),
            rdma=ok({"mlx5_0/1": RdmaCounters(packet_seq_err=errors * grown, np_cnp_sent=9 * grown)}, now),
            clocks=ok(ClockState(800_000, 1_200_000, 2_000_000, 2_600_000, 3_500_000, throttles * grown, 0), now),
        )

    *_, last = frames((at(0, 0), at(1, 1)))  # type: ignore[arg-type]
    return last


def test_the_screen_shows_no_problem_until_something_is_wrong() -> None:
    assert host_problems(shown(again=2, errors=0, throttles=0)) == []
    texts = ["".join(span.text for span in part) for part in host_problems(shown(again=100, errors=8, throttles=6))]
    assert texts == ["cpu heat throttled 1.2 of 2.6 GHz", "tcp retransmits 5 %", "rdma mlx5_0/1 4 errors/s"]
    (first,) = frames((snapshot(0, 2 * S),))
    assert host_problems(first) == []


def test_the_json_and_the_tables_have_the_host_counts() -> None:
    frame = shown(again=100, errors=8, throttles=6)
    found = system_object(frame)
    assert found["tcp"]["retransmit_ratio"] == 0.05
    assert found["rdma"]["mlx5_0/1"]["packet_seq_err_per_s"] == 4.0
    assert (found["clocks"]["mean_mhz"], found["clocks"]["core_throttles_per_s"]) == (1200.0, 3.0)
    known = {table.name: table for table in tables()}
    (row,) = known["rdma"].rows(frame)
    cells = dict(zip((column.name for column in known["rdma"].columns), row, strict=True))
    assert (cells["port"], cells["errors_per_s"], cells["out_of_buffer_per_s"]) == ("mlx5_0/1", 4.0, None)
    (row,) = known["system"].rows(frame)
    cells = dict(zip((column.name for column in known["system"].columns), row, strict=True))
    assert (cells["tcp_retransmit_ratio"], cells["clock_mean_mhz"]) == (0.05, 1200.0)


def test_what_may_not_be_listed_is_denied(tmp_path: Path) -> None:
    put(tmp_path, {f"{PORT}/counters/link_downed": 1, "sys/class/net/eth0/statistics/rx_bytes": 1})
    cores(tmp_path, 1, 1_000_000, 1)
    root = Root(str(tmp_path))
    folders = ("sys/class/net", "sys/class/infiniband", "sys/devices/system/cpu")
    collectors = (NetworkCollector(root), RdmaCollector(root), ClocksCollector(root, SetClock()))
    with unreadable(*(tmp_path / folder for folder in folders)):
        readings = [take_reading(collector, Clock()) for collector in collectors]
    reasons = [f"{tmp_path}/{folder}: Permission denied" for folder in folders]
    assert [(reading.status, reading.reason) for reading in readings] == [(Status.DENIED, reason) for reason in reasons]
    assert [take_reading(collector, Clock()).status for collector in collectors] == [Status.OK] * 3


@pytest.mark.parametrize("folder", ["sys/class/infiniband", "sys/class/infiniband/mlx5_0/ports"])
def test_interfaces_are_read_although_rdma_ports_are_denied(folder: str, tmp_path: Path) -> None:
    counters = ("rx_bytes", "tx_bytes", "rx_errors", "tx_errors", "rx_dropped", "tx_dropped")
    port = {"counters/port_rcv_data": 1, "counters/port_xmit_data": 2, "state": "4: ACTIVE"}
    put(tmp_path, {f"{PORT}/{name}": value for name, value in port.items()})
    put(tmp_path, {"sys/class/net/eth0/operstate": "up"})
    put(tmp_path, {f"sys/class/net/eth0/statistics/{name}": 1 for name in counters})
    root = Root(str(tmp_path))
    network = NetworkCollector(root)
    with unreadable(tmp_path / folder):
        assert list(network.read()) == ["eth0"]
        assert take_reading(RdmaCollector(root), Clock()).status is Status.DENIED
    assert list(network.read()) == ["eth0", "mlx5_0/1"]
    network.close()
