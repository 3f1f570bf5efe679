"""Metrics of GPUs, with the labels of dcgm-exporter."""

from __future__ import annotations

from iotop_ai.export.prometheus.families import INFO, Family, columns_of, families_of, family, label_text
from iotop_ai.model.frame import Frame
from iotop_ai.model.gpu.detail import GpuDetail
from iotop_ai.model.gpu.state import GpuRates, GpuState

MOST_GPUS = 64
GPU = "iotop_gpu"
COUNTER_BY_RATE = {
    "pcie_tx_bytes_per_s": "pcie_tx_bytes", "pcie_rx_bytes_per_s": "pcie_rx_bytes",
    "nvlink_tx_bytes_per_s": "nvlink_tx_kib", "nvlink_rx_bytes_per_s": "nvlink_rx_kib",
    "pcie_replays_per_s": "pcie_replays", "power_cap_ratio": "power_cap_ns", "sync_boost_ratio": "sync_boost_ns",
    "sw_thermal_ratio": "sw_thermal_ns", "hw_thermal_ratio": "hw_thermal_ns", "power_brake_ratio": "power_brake_ns",
}  # fmt: skip
"""For some rates, the counter that is exported instead of the rate, if the driver has that counter."""


def gpu_families(frame: Frame) -> list[Family]:
    """The families of the GPUs that answer, at most MOST_GPUS of them."""
    table = frame.snapshot.gpu.value or {}
    states = [(uuid, reading.value) for uuid, reading in table.items() if reading.value is not None][:MOST_GPUS]
    rates, details = frame.sample.gpu.value or {}, frame.snapshot.gpu_slow.value or {}
    labels = {uuid: label_text((("gpu", str(state.number)), ("UUID", uuid))) for uuid, state in states}
    known_details = {
        uuid: reading.value for uuid, reading in details.items() if reading.value is not None and uuid in labels
    }
    rate_rows = [
        (
            labels[uuid],
            rates[uuid]._replace(**{rate: None for rate, counter in COUNTER_BY_RATE.items() if _has(state, counter)}),
        )
        for uuid, state in states
        if uuid in rates
    ]
    return [
        *families_of(columns_of(GPU, GpuRates), rate_rows),
        *families_of(columns_of(GPU, GpuState), [(labels[uuid], state) for uuid, state in states]),
        *families_of(columns_of(GPU, GpuDetail), [(labels[uuid], detail) for uuid, detail in known_details.items()]),
        family(
            *(GPU, INFO, "Identity of a GPU, for joins."),
            [
                (
                    (
                        ("gpu", str(state.number)),
                        ("UUID", uuid),
                        ("model", state.name),
                        ("pci_bus_id", state.bus_id),
                        ("driver", known_details[uuid].driver if uuid in known_details else ""),
                    ),
                    1,
                )
                for uuid, state in states
            ],
        ),
    ]


def _has(state: GpuState, counter: str) -> bool:
    return getattr(state, counter) is not None
