"""Measures the screen of ``fleet`` on a real Prometheus with many machines: ``python -m tests.bench.fleet [--machines
200]``.

One exporter replays recordings of real training. It is known which machines are slow, and for which machine the others
of a job wait. The waits of those others are made up, because their recording does not have the counters of jobs' time.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.cli.program import TOP, iotop_started
from tests.rigs.fleet.exporter import exporter
from tests.rigs.fleet.scenes import CHECKPOINT, FAILING_DISK, HEALTHY, IDLE, LATE, ONE_THREAD, PEER, SLOW_DISK, Scene
from tests.rigs.prometheus import need_prometheus, prometheus_of, wait_for
from tests.rigs.tmux import Terminal

EVERY_S, WINDOW_S = 5, 60
WATCHED_S, REFRESH_S = 30.0, 2
OPENS = 3
MOST_OPEN_S, MOST_REFRESH_MS = 2.0, 300.0
PLANTED: Mapping[Scene, tuple[str, tuple[float, ...]]] = {
    SLOW_DISK: ("storage_read", (0.02, 0.21, 0.55, 0.83)),
    ONE_THREAD: ("single_thread", (0.11, 0.64)),
    CHECKPOINT: ("checkpoint_write", (0.37,)),
    FAILING_DISK: ("failing_disk", (0.72,)),
    LATE: ("storage_read", (0.48,)),
}
"""By scene: the class that must be named, and the positions of its machines as fractions of the fleet."""
_PEERS = (0.40, 0.42, 0.44, 0.46, 0.50, 0.52, 0.54)
PEER_RANKS = 4
_IDLE = (0.90, 0.92, 0.94, 0.96, 0.98)
_TICKS_A_SECOND = 100


class Plan(NamedTuple):
    """The machines of the fleet. expected: the class that must be named, by the name of the machine."""

    machines: dict[str, Scene]
    expected: dict[str, str]
    late: str


def plan(count: int) -> Plan:
    """Return a plan for this many machines."""
    machines = {f"gpu{n:03}": HEALTHY for n in range(count)}
    expected: dict[str, str] = {}

    def put(scene: Scene, fractions: tuple[float, ...], class_id: str = "") -> str:
        for fraction in fractions:
            name = f"gpu{int(fraction * count):03}"
            machines[name] = scene
            if class_id:
                expected[name] = class_id
        return name

    put(PEER, _PEERS)
    put(IDLE, _IDLE)
    for scene, (class_id, fractions) in PLANTED.items():
        last = put(scene, fractions, class_id)
    ranks = 0
    for name in sorted(name for name, scene in machines.items() if scene.slurm):
        machines[name] = machines[name]._replace(first_rank=ranks)
        ranks += 1 if name == last else PEER_RANKS
    return Plan(machines, expected, last)


def faults(found: Mapping[str, Any], planned: Plan) -> list[str]:
    """Return a line about each thing that is named wrongly or not named."""
    out = []
    by_name = {one["machine"]: one for one in found["machines"]}
    for name, class_id in planned.expected.items():
        named = next((one["class"] for one in by_name[name]["findings"] if one["primary"]), None)
        if named != class_id or not by_name[name]["trouble"]:
            out.append(f"{name}: {named} instead of {class_id}")
    peers = {name for name, scene in planned.machines.items() if scene.slurm and name != planned.late}
    wrong = {name for name, one in by_name.items() if one["trouble"]} - set(planned.expected) - peers
    out += [f"{name}: healthy, but it is listed as one with trouble" for name in sorted(wrong)]
    late = [job["straggler"] for job in found["jobs"] if job["straggler"]]
    rank = str(planned.machines[planned.late].first_rank)
    if [(one["machine"], one["rank_numbers"], one["cause"]) for one in late] != [(planned.late, rank, "data_disk")]:
        out.append(f"stragglers {late} instead of {planned.late}, rank {rank}, data_disk")
    return out


def cpu_s(pid: int) -> float:
    """Return the user and system time of a process and its threads, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_A_SECOND


def open_and_watch(url: str, size: tuple[int, int], folder: Path, watched_s: float) -> tuple[float, float, float, int]:
    """Open the screen and watch it; return four figures.

    They are the seconds until the machines are on the screen, the CPU seconds until then, the CPU seconds while the
    screen is watched, and the resident memory in bytes.
    """
    pid_file = folder / "pid"
    pid_file.unlink(missing_ok=True)
    flags = ["--prometheus", url, "--window", f"{WINDOW_S}s", "-d", str(REFRESH_S)]
    words = shlex.join([sys.executable, "-m", "iotop_ai", "fleet", *flags])
    with Terminal(*size, {"PYTHONPATH": str(TOP)}) as terminal:
        terminal.wait_for("ready>")
        begin = time.monotonic()
        terminal.type(f"sh -c 'echo $$ > {pid_file}; exec {words}'\n")
        terminal.wait_for("machines have trouble")
        opened_s = time.monotonic() - begin
        pid = int(pid_file.read_text())
        opening_cpu_s = cpu_s(pid)
        time.sleep(2 * REFRESH_S)
        before = cpu_s(pid)
        time.sleep(watched_s)
        used = cpu_s(pid) - before
        resident = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096
        terminal.keys("q")
    return opened_s, opening_cpu_s, used, resident


def main() -> None:
    """Print the figures; exit with code 1 if a goal is missed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--machines", type=int, default=200)
    arguments = parser.parse_args()
    need_prometheus()
    planned = plan(arguments.machines)
    with exporter(planned.machines) as configs, tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        with prometheus_of(folder, configs, interval_s=EVERY_S) as server:
            scraped = f"count(rate(iotop_monitor_cpu_seconds_total[{WINDOW_S}s])) == {arguments.machines}"
            wait_for(lambda: server.query(scraped), "scrape of every machine", 120)
            time.sleep(WINDOW_S)
            (series,) = server.query('count({job="iotop-ai"})')
            begin = time.monotonic()
            done = iotop_started("fleet", "--prometheus", server.url, "--window", f"{WINDOW_S}s", "--json", timeout=60)
            once_s = time.monotonic() - begin
            wrong = faults(json.loads(done.stdout), planned)
            runs = [open_and_watch(server.url, (160, 48), folder, 0.0)[0] for _ in range(OPENS - 1)]
            opened_s, opening_cpu_s, used, resident = open_and_watch(server.url, (160, 48), folder, WATCHED_S)
    refresh_ms = used / (WATCHED_S / REFRESH_S) * 1000
    open_s = statistics.median([*runs, opened_s])
    print(f"{arguments.machines} machines, {len(planned.expected)} planted, {float(series['value'][1]):,.0f} series")
    print(f"opens in {open_s:.2f} s (median of {OPENS}; at most {MOST_OPEN_S:g}) with {opening_cpu_s:.2f} s of CPU")
    print(f"--json takes {once_s:.2f} s")
    print(f"CPU a refresh {refresh_ms:.0f} ms (at most {MOST_REFRESH_MS:g}), resident {resident / 2**20:.0f} MiB")
    print("named rightly: all" if not wrong else "\n".join(["named wrongly:", *wrong]))
    sys.exit(bool(wrong) or open_s > MOST_OPEN_S or refresh_ms > MOST_REFRESH_MS)


if __name__ == "__main__":
    main()
