"""Files for other programs, shipped with the package: Grafana, Prometheus, systemd, Slurm, Kubernetes."""

from __future__ import annotations

from importlib.resources import files
from typing import NamedTuple

PROGRAM, PYTHON = "@PROGRAM@", "@PYTHON@"
"""Placeholders in the files, for the command that starts this program and for its Python interpreter."""


class Asset(NamedTuple):
    """A shipped file. text: a description of the file. place: where, or with which command, it is usually installed."""

    name: str
    text: str
    place: str

    @property
    def is_script(self) -> bool:
        """Whether the file is a shell script."""
        return self.name.endswith(".sh")


ASSETS = (
    Asset("dashboard.json", "Grafana dashboard", "Grafana: Dashboards, New, Import"),
    Asset("rules.yml", "Prometheus recording and alert rules", "/etc/prometheus/rules.yml, named in rule_files"),
    Asset("rules_test.yml", "tests of rules.yml: promtool test rules rules_test.yml", "beside rules.yml"),
    Asset("iotop-ai-serve.service", "systemd unit of iotop-ai serve", "/etc/systemd/system"),
    Asset("slurm-prolog.sh", "begins a recording with each Slurm job", "/etc/slurm/iotop-ai, as Prolog= of slurm.conf"),
    Asset("slurm-epilog.sh", "ends the recording, writes what the job lost", "beside the prolog, as Epilog="),
    Asset("slurm_line.py", "writes the epilog's line about one or more nodes", "beside the epilog"),
    Asset("daemonset.json", "Kubernetes DaemonSet of iotop-ai serve", "kubectl apply -f"),
)


def content(name: str, program: str, python: str = "") -> str:
    """The content of an asset, with the placeholders replaced.

    program, python: the replacements, already quoted as the file needs (for ExecStart= of a unit, or for a shell).
    """
    text = (files("iotop_ai.export") / "assets" / name).read_text(encoding="utf-8")
    return text.replace(PROGRAM, program).replace(PYTHON, python)
