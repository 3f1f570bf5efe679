"""A summary of a recorded run in a few lines: the verdicts by share of time, the time lost, bytes and peaks."""

from __future__ import annotations

from collections.abc import Callable

from iotop_ai.model.block.counters import block_totals, is_leaf
from iotop_ai.model.frame import Frame
from iotop_ai.present.text.units import duration, rate, size
from iotop_ai.present.verdict.class_names import class_name


class RunSummary:
    """Collects sums and peaks over the Frames of a run."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._verdict_s: dict[tuple[str, str], float] = {}
        self._lost_s = self._judged_s = 0.0
        self._read_bytes = self._written_bytes = 0.0
        self._known_s = 0.0
        """The seconds in which the rates of the disks were known."""
        self._peaks: dict[str, tuple[float, str]] = {}

    def add(self, frame: Frame) -> None:
        """Add an interval; a gap and the first Frame add nothing."""
        seconds = frame.sample.seconds
        if seconds is None or frame.sample.gap:
            return
        self._seconds += seconds
        primary = frame.verdict.primary
        name = class_name(primary.class_id, primary.state)
        verdict = (primary.state.value, "measuring" if frame.verdict.measuring else name)
        self._verdict_s[verdict] = self._verdict_s.get(verdict, 0.0) + seconds
        if not frame.verdict.measuring:
            self._lost_s += (primary.lost_ratio or 0.0) * seconds
            self._judged_s += seconds
        block, infos = frame.sample.block, frame.snapshot.disks.value
        if (rates := block.value) is not None and infos is not None and block.renewed and block.seconds:
            totals = block_totals(rates, infos.values())
            if totals.read_bytes_per_s is not None and totals.write_bytes_per_s is not None:
                self._read_bytes += totals.read_bytes_per_s * block.seconds
                self._written_bytes += totals.write_bytes_per_s * block.seconds
                self._known_s += block.seconds
            for key, row in rates.items():
                if key.name in infos and is_leaf(infos[key.name]):
                    self._note_peak("read", row.read_bytes_per_s, key.name)
                    self._note_peak("write", row.write_bytes_per_s, key.name)
                    self._note_peak("await", row.await_ms, key.name)
                    self._note_peak("util", row.busy_ratio, key.name)
        for uuid, gpu in (frame.sample.gpu.value or {}).items():
            self._note_peak("gpu memory", gpu.memory_used_bytes, uuid[:12])
            self._note_peak("gpu", gpu.busy_ratio, uuid[:12])

    def _note_peak(self, figure: str, value: float | None, device: str) -> None:
        if value is not None and value > self._peaks.get(figure, (0.0, ""))[0]:
            self._peaks[figure] = (value, device)

    def lines(self) -> list[str]:
        """The lines of the summary; without a complete interval, one line that says so."""
        if not self._seconds:
            return ["recorded less than one interval: no summary"]
        by_time = sorted(self._verdict_s.items(), key=lambda item: -item[1])
        shares = ", ".join(
            f"{state} {name} {_percent(seconds / self._seconds)}" for (state, name), seconds in by_time[:6]
        )
        out = [f"watched   {duration(self._seconds)}", f"verdicts  {shares}"]
        if self._judged_s:
            out.append(
                f"stall     {_percent(self._lost_s / self._judged_s)} of the time was lost to the verdict's cause"
            )
        else:
            out.append("stall     unknown: too short to judge")
        if self._known_s:
            share = (
                ""
                if self._known_s > 0.99 * self._seconds
                else f" (known for {_percent(self._known_s / self._seconds)})"
            )
            out.append(f"disks     read {size(self._read_bytes)}, written {size(self._written_bytes)}{share}")
        peaks = [
            f"{figure} {value_text(self._peaks[figure][0])} ({self._peaks[figure][1]})"
            for figure, value_text in _PEAKS
            if figure in self._peaks
        ]
        if peaks:
            out.append(f"peaks     {', '.join(peaks)}")
        return out


def _percent(ratio: float) -> str:
    return "<1 %" if 0 < ratio < 0.01 else f"{ratio * 100:.0f} %"


_PEAKS: tuple[tuple[str, Callable[[float], str]], ...] = (
    ("read", lambda v: " ".join(rate(v))),
    ("write", lambda v: " ".join(rate(v))),
    ("await", lambda v: f"{v:.1f} ms"),
    # The kernel counts busy time in jiffies, so a short interval may appear more than 100 % busy.
    ("util", lambda v: _percent(min(1.0, v))),
    ("gpu", _percent),
    ("gpu memory", size),
)
