"""A Frame in the text formats of Prometheus and OpenMetrics.

The text is not made with prometheus-client, which takes five times as long for the same text (docs/dependencies.md);
but the tests read it with that library's parsers and with promtool. Source:
https://github.com/prometheus/docs/blob/main/docs/instrumenting/exposition_formats.md,
https://prometheus.io/docs/specs/om/open_metrics_spec/.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from iotop_ai.export.prometheus.block import disk_families, smart_families
from iotop_ai.export.prometheus.families import COUNTER, INFO, Family
from iotop_ai.export.prometheus.gpu import gpu_families
from iotop_ai.export.prometheus.job import job_families
from iotop_ai.export.prometheus.machine import machine_families, monitor_families
from iotop_ai.export.prometheus.verdict import verdict_families
from iotop_ai.model.frame import Frame

TEXT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
SUFFIX = {COUNTER: "_total", INFO: "_info"}


def metrics(frame: Frame, devices: Collection[str] = ()) -> list[Family]:
    """Every family of a Frame that has at least one series. devices: only these disks; () for all."""
    return [family for family in every_family(frame, devices) if family.samples]


def every_family(frame: Frame, devices: Collection[str] = ()) -> list[Family]:
    """Every family, including those without a series on this machine. devices: only these disks; () for all."""
    return [
        *verdict_families(frame),
        *job_families(frame),
        *gpu_families(frame),
        *disk_families(frame, devices),
        *smart_families(frame, devices),
        *machine_families(frame),
        *monitor_families(frame),
    ]


def wants_openmetrics(accept: str) -> bool:
    """Whether a request's Accept header allows OpenMetrics, which Prometheus prefers."""
    return allowed_in(accept, "application/openmetrics-text")


def allowed_in(header: str, name: str) -> bool:
    """Whether an Accept or Accept-Encoding header names a format, and not with "q=0", which excludes the format."""
    for part in header.lower().split(","):
        listed, *parameters = (word.strip() for word in part.split(";"))
        if listed == name:
            return not any(re.fullmatch(r"q *= *0(\.0*)?", parameter) for parameter in parameters)
    return False


def render(families: Iterable[Family], *, openmetrics: bool) -> bytes:
    """The text of one scrape."""
    lines = []
    for name, kind, unit, text, samples in families:
        full = name + SUFFIX.get(kind, "")
        title = name if openmetrics else full
        shown_kind = kind if openmetrics or kind != INFO else "gauge"
        lines.append(f"# HELP {title} {text}\n# TYPE {title} {shown_kind}\n")
        if openmetrics and unit:
            lines.append(f"# UNIT {title} {unit}\n")
        lines += [f"{full}{labels} {value}\n" for labels, value in samples]
    if openmetrics:
        lines.append("# EOF\n")
    return "".join(lines).encode()
