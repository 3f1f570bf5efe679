from __future__ import annotations

from iotop_ai.model.machine.pressure import PressureRates, PressureTotals, pressure_rates


def test_full_pressure_of_the_whole_systems_cpu_is_unknown() -> None:
    """For the whole system the kernel always prints 0, because the figure is defined only for a cgroup."""
    keys = ("cpu", "io", "cgroup:/job:cpu")
    before = dict.fromkeys(keys, PressureTotals(0, 0))
    after = {"cpu": PressureTotals(500_000, 0), "io": PressureTotals(500_000, 0)}
    after["cgroup:/job:cpu"] = PressureTotals(500_000, 250_000)
    rates = pressure_rates(before, after, 1.0)
    assert [rates[key] for key in keys] == [PressureRates(0.5, None), PressureRates(0.5, 0.0), PressureRates(0.5, 0.25)]
