"""Names that the start and the settings' table share; light, as every start loads them."""

from __future__ import annotations

from iotop_ai.model.settings import Settings

DEFAULT = "default"
"""The origin of a setting that nothing sets."""
READ_ONLY = "read-only (--readonly, --procfs, --sysfs or the settings)"
PREFIX = "IOTOP_AI_"
"""Prefix of the environment variables that hold a setting."""


def read_only_elsewhere(settings: Settings) -> Settings:
    """The Settings, read-only where /proc or /sys may belong to another machine: its pids and disks are not ours."""
    own = settings.procfs.rstrip("/") in ("", "/proc") and settings.sysfs.rstrip("/") in ("", "/sys")
    return settings if own else settings._replace(readonly=True)
