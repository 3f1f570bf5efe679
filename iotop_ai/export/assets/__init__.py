"""Files for other programs that come with the package: Grafana, Prometheus, systemd."""

from __future__ import annotations

from importlib.resources import files
from typing import NamedTuple

PROGRAM = "@PROGRAM@"
"""Stands for the command line of this program."""


class Asset(NamedTuple):
    """One file. place: where it usually lies, as a hint."""

    name: str
    text: str
    place: str


ASSETS = (
    Asset("dashboard.json", "Grafana dashboard", "Grafana: Dashboards, New, Import"),
    Asset("rules.yml", "Prometheus recording and alert rules", "/etc/prometheus/rules.yml, named in rule_files"),
    Asset("rules_test.yml", "their tests: promtool test rules rules_test.yml", "beside rules.yml"),
    Asset("iotop-ai-serve.service", "systemd unit of iotop-ai serve", "/etc/systemd/system"),
)


def content(name: str, program: str) -> str:
    """The text of an asset. program: as a unit's ExecStart= has it."""
    text = (files("iotop_ai.export") / "assets" / name).read_text(encoding="utf-8")
    return text.replace(PROGRAM, program)
