"""The facts about one GPU as labelled fields: utilisation, clocks, links, memory health, NUMA node."""

from __future__ import annotations

from iotop_ai.model.gpu.amd_throttle import reasons_text
from iotop_ai.model.gpu.detail import GpuDetail
from iotop_ai.model.gpu.state import GpuRates, GpuState
from iotop_ai.present.text.fields import Field
from iotop_ai.present.text.units import UNKNOWN, percent, rate


def facts(state: GpuState, rates: GpuRates | None, detail: GpuDetail | None) -> list[Field]:
    """All known facts in a fixed order, without those that this GPU or driver does not provide."""
    fields = [*_work(state, rates), *_link(state, rates, detail)]
    if detail is not None:
        fields += _health(state, detail)
    return [field for field in fields if field.value and field.value != UNKNOWN]


def _number(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.0f}"


def _work(state: GpuState, rates: GpuRates | None) -> list[Field]:
    shares = [] if rates is None else [
        Field("occupancy", percent(rates.occupancy_ratio), " %"),
        Field("DRAM", percent(rates.dram_ratio), " %"),
        Field("gaps", percent(rates.gap_ratio), " % of samples"),
        Field("graphics", percent(rates.graphics_ratio), " %"),
        Field("compute", percent(rates.compute_ratio), " %"),
        Field("copy", percent(rates.copy_ratio), " %"),
        Field("decoder", percent(rates.decoder_ratio), " %"),
        Field("encoder", percent(rates.encoder_ratio), " %"),
        Field("JPEG", percent(rates.jpeg_ratio), " %"),
        Field("OFA", percent(rates.ofa_ratio), " %"),
    ]  # fmt: skip
    performance_state = "" if state.performance_state is None else f"P{state.performance_state}"
    memory_tail = " MHz" if state.memory_max_mhz is None else f"/{state.memory_max_mhz} MHz"
    return [
        *shares,
        Field("SM", _number(state.sm_mhz), f"/{_number(state.sm_max_mhz)} MHz"),
        Field("mem clock", _number(state.memory_mhz), memory_tail),
        Field("state", performance_state),
        Field("held back by", reasons_text(state.throttle_bits or 0)),
        Field("temp of", state.temperature_sensor or ""),
        Field("mem temp", _number(state.memory_celsius), " C"),
        Field("fan", _number(state.fan_percent), " %"),
    ]


def _link(state: GpuState, rates: GpuRates | None, detail: GpuDetail | None) -> list[Field]:
    link = ""
    if state.pcie_generation is not None and state.pcie_width is not None:
        link = f"{state.pcie_generation}x{state.pcie_width}"
    tail = []
    if detail is not None and detail.device_max_generation is not None:
        width = detail.device_max_width or state.pcie_max_width
        tail.append(f"device {detail.device_max_generation}x{width or UNKNOWN}")
    if detail is not None and detail.slot_max_generation is not None:
        tail.append(f"slot {detail.slot_max_generation}x{detail.slot_max_width or UNKNOWN}")
    out = [Field("PCIe", link, f" {', '.join(tail)}" if tail else "")]
    if state.pcie_replays is not None:
        out.append(Field("replays", str(state.pcie_replays), "", "strong" if state.pcie_replays else "zero"))
    if rates is not None and rates.nvlink_rx_bytes_per_s is not None:
        value, unit = rate(rates.nvlink_rx_bytes_per_s)
        sent = " ".join(rate(rates.nvlink_tx_bytes_per_s))
        out.append(Field("NVLink in", value, f" {unit}, out {sent}"))
    if detail is not None and detail.nvlinks:
        out.append(Field("NVLinks", str(detail.nvlinks_active), f"/{detail.nvlinks} up"))
        out.append(_link_errors(detail))
    return out


def _link_errors(detail: GpuDetail) -> Field:
    counts = (
        (detail.nvlink_crc_errors, "CRC"), (detail.nvlink_replays, "replays"), (detail.nvlink_recoveries, "recoveries")
    )  # fmt: skip
    reported = [(count, word) for count, word in counts if count is not None]
    if not any(count for count, _ in reported):
        return Field("link errors", "none" if reported else "", "", "zero")
    return Field("link errors", ", ".join(f"{count} {word}" for count, word in reported if count), "", "strong")


def _health(state: GpuState, detail: GpuDetail) -> list[Field]:
    out = []
    if detail.ecc_corrected is not None or detail.ecc_uncorrected is not None:
        bad = bool(detail.ecc_uncorrected)
        total = f", {detail.ecc_uncorrected_total} in its life" if detail.ecc_uncorrected_total else ""
        out.append(
            Field(
                "ECC",
                f"{_number(detail.ecc_uncorrected)} uncorrected",
                f"{total}, {_number(detail.ecc_corrected)} corrected",
                "bad" if bad else "text",
            )
        )
    elif detail.ecc is False:
        out.append(Field("ECC", "off"))
    if detail.sram_uncorrected is not None:
        token = "bad" if detail.sram_uncorrected or detail.sram_exceeded else "text"
        more = f", {_number(detail.sram_corrected)} corrected"
        out.append(Field("SRAM", f"{detail.sram_uncorrected} uncorrected", more, token))
    if detail.rows_corrected is not None or detail.rows_uncorrected is not None:
        rows = (detail.rows_corrected or 0) + (detail.rows_uncorrected or 0)
        out.append(Field("rows", f"{rows} remapped", ", reset pending" if detail.rows_pending else ""))
    without_xid = "unknown, not watched" if state.xid_watched is False else "none seen"
    out.append(Field("Xid", without_xid if state.last_xid is None else str(state.last_xid)))
    if detail.slowdown_celsius is not None:
        out.append(Field("slowdown", str(detail.slowdown_celsius), " C"))
    if state.margin_celsius is not None:
        out.append(Field("margin", str(state.margin_celsius), " C to slowdown"))
    if detail.numa_node is not None:
        out.append(Field("node", str(detail.numa_node), f" CPUs {detail.cpus}" if detail.cpus else ""))
    if detail.driver:
        out.append(Field("driver", detail.driver))
    return out
