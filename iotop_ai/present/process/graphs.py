"""The graphs of one process over time: bytes read, bytes written, CPU and IO-wait."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from iotop_ai.model.frame import Frame
from iotop_ai.model.process.records import ProcessKey, ProcessRates
from iotop_ai.model.sample import Sample
from iotop_ai.present.screen.graphs import Graph, axis_and_graphs
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.braille import Series, nice_top, series
from iotop_ai.present.text.line import Line
from iotop_ai.present.text.units import brief, percent, rate_unit


def process_graphs(frame: Frame, view: View, key: ProcessKey, slots: int) -> list[Graph]:
    """The graphs in a fixed order. Reads and writes share a scale; IO-wait is left out where the kernel does not count
    it. slots: the number of values in each graph.
    """
    table = frame.snapshot.processes.value
    samples = (*view.past, *frame.history)
    readable = table is not None and key not in table.denied
    begin_ns, end_ns = start_ns(frame, key), _end_ns(frame, samples, key)

    def series_of(value: Callable[[ProcessRates], float | None], if_unlisted: float | None) -> Series:
        """The series of a rate. if_unlisted: its value in a Sample that leaves out the process because it is idle."""

        def of_sample(sample: Sample) -> float | None:
            listed = sample.processes.value
            if listed is None or sample.processes.seconds is None or not begin_ns <= sample.at_ns <= end_ns:
                return None
            rates = listed.rates.get(key)
            return if_unlisted if rates is None else value(rates)

        return series(samples, of_sample, slots, frame.snapshot.interval_s)

    read = series_of(lambda r: r.read_bytes_per_s, 0.0 if readable else None)
    write = series_of(lambda r: r.write_bytes_per_s, 0.0 if readable else None)
    cpu = series_of(lambda r: r.cpu_ratio, 0.0)
    most = max(read.peak or 0.0, write.peak or 0.0)
    unit, scale = rate_unit(most)
    top = nice_top(most / scale) * scale

    def rate_text(value: float | None) -> str:
        return brief(None if value is None else value / scale)

    out = [
        Graph("read", unit, read, scale, top, rate_text),
        Graph("write", unit, write, scale, top, rate_text),
        Graph("CPU", "%", cpu, 0.01, max(1.0, nice_top(cpu.peak)), percent),
    ]
    if table is not None and table.delay_counted(key):
        wait = series_of(lambda r: r.io_delay_ratio, 0.0)
        out.append(Graph("IO-wait", "%", wait, 0.01, 1.0, percent, view.marks.io_wait / 100 or None))
    return out


def start_ns(frame: Frame, key: ProcessKey) -> int:
    """The time at which the process started, on the clock of the Samples."""
    table = frame.snapshot.processes.value
    ticks_per_s = 100 if table is None else table.clk_tck
    return key.start_ticks * 1_000_000_000 // ticks_per_s - (frame.snapshot.suspended_ns or 0)


def _end_ns(frame: Frame, samples: Sequence[Sample], key: ProcessKey) -> int:
    """The time until which the process is known to have run, on the clock of the Samples.

    For a process that has ended, this is the time of the last Sample that lists it: a Sample does not list idle
    processes, so later Samples would show 0 for a process that no longer exists. 0 if no Sample lists
    the process.
    """
    table = frame.snapshot.processes.value
    if table is None or key in table.info:
        return frame.snapshot.at_ns
    listed_at = (one.at_ns for one in samples if one.processes.value is not None and key in one.processes.value.rates)
    return max(listed_at, default=0)


def process_graph_rows(frame: Frame, view: View, key: ProcessKey, width: int, height: int) -> list[Line]:
    """The time axis and as many of the process's graphs as fit."""
    return axis_and_graphs(frame, view, width, height, lambda slots: process_graphs(frame, view, key, slots))
