"""Text charts of a watched period: the rate and await of disks, and the use of the GPUs or CPUs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from iotop_ai.export.text.charts import Point, chart
from iotop_ai.model.block.counters import BlockKey, BlockRates
from iotop_ai.model.errors import UnknownError
from iotop_ai.model.frame import Frame
from iotop_ai.model.sample import Sample

_MIB = 1 << 20
_SPARE_ROWS = 2
"""The rows that each chart leaves empty in its part of the height."""


class Trend:
    """Collects the series of one run. devices: the kernel names to draw; () draws the one that moved the most bytes."""

    def __init__(self, devices: Sequence[str] = ()) -> None:
        self._devices = tuple(devices)
        self._first_ns: int | None = None
        self._times: list[float] = []
        self._samples: list[Sample] = []

    def __len__(self) -> int:
        return len(self._samples)

    def add(self, frame: Frame) -> None:
        """Add a Frame's Sample. The first Frame has no rates, and only sets the start time."""
        if self._first_ns is None:
            self._first_ns = frame.snapshot.at_ns
            return
        self._times.append(round((frame.snapshot.at_ns - self._first_ns) / 1e9, 1))
        self._samples.append(frame.sample)

    def drawn_devices(self) -> tuple[str, ...]:
        """The kernel names to draw. Raises UnknownError if none was given and no device is known."""
        if self._devices:
            return self._devices
        rate_sums: dict[str, float] = {}
        for sample in self._samples:
            for key, rates in (sample.block.value or {}).items():
                rate_sums[key.name] = rate_sums.get(key.name, 0.0) + _bytes_per_s(rates)
        if not rate_sums:
            raise UnknownError("no block device found")
        # A disk and its partition may have moved the same bytes; the disk has the shorter name.
        return (max(rate_sums, key=lambda name: (rate_sums[name], -len(name))),)

    def render(self, width: int, height: int, ascii_only: bool = False) -> str:
        """The charts, one below the other, each at most ``width`` (but at least 30) columns wide.

        height: the rows of all charts together; each chart has at least 6. A chart without a known value becomes a line
        of text. Raises UnknownError without plotext, or if ``drawn_devices`` raises it.
        """
        series: list[tuple[str, list[Point]]] = []
        for name in self.drawn_devices():
            series.append((f"{name} read + write, MiB/s", self._points(name, _rate_mib)))
            series.append((f"{name} await, ms", self._points(name, lambda rates: rates.await_ms)))
        gpu = [(at, _gpu_percent(sample)) for at, sample in zip(self._times, self._samples, strict=True)]
        if any(value is not None for _, value in gpu):
            series.append(("GPU busy, %, mean", gpu))
        else:
            cpu = [(at, _cpu_percent(sample)) for at, sample in zip(self._times, self._samples, strict=True)]
            series.append(("CPU busy, %, all cores", cpu))
        rows = max(height // len(series), 0)
        return "\n\n".join(_chart_or_words(title, points, width, rows, ascii_only) for title, points in series)

    def _points(self, name: str, value: Callable[[BlockRates], float | None]) -> list[Point]:
        out: list[Point] = []
        for at, sample in zip(self._times, self._samples, strict=True):
            rates = _rates_of(sample.block.value or {}, name)
            out.append((at, None if rates is None else value(rates)))
        return out


def _chart_or_words(title: str, points: Sequence[Point], width: int, height: int, ascii_only: bool) -> str:
    if all(value is None for _, value in points):
        return f"{title}: no data (no requests, or unknown)"
    return chart(title, points, width, height - _SPARE_ROWS, ascii_only)


def _rates_of(table: Mapping[BlockKey, BlockRates], name: str) -> BlockRates | None:
    return next((rates for key, rates in table.items() if key.name == name), None)


def _bytes_per_s(rates: BlockRates) -> float:
    return (rates.read_bytes_per_s or 0.0) + (rates.write_bytes_per_s or 0.0)


def _rate_mib(rates: BlockRates) -> float | None:
    if rates.read_bytes_per_s is None or rates.write_bytes_per_s is None:
        return None
    return _bytes_per_s(rates) / _MIB


def _gpu_percent(sample: Sample) -> float | None:
    busy = [gpu.busy_ratio for gpu in (sample.gpu.value or {}).values() if gpu.busy_ratio is not None]
    return 100 * sum(busy) / len(busy) if busy else None


def _cpu_percent(sample: Sample) -> float | None:
    busy = None if sample.cpu.value is None else sample.cpu.value.all.busy_ratio
    return None if busy is None else 100 * busy
