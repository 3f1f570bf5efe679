"""Names that start-up, the table of settings and some commands share.

Every command loads this module, so keep it small.
"""

from __future__ import annotations

from iotop_ai.model.settings import Settings

DEFAULT = "default"
"""The origin of a setting that neither a flag, a variable nor the file sets."""
READ_ONLY = "read-only (--readonly, --procfs, --sysfs or the settings)"
"""The first words of the error message when read-only mode refuses a command."""
PREFIX = "IOTOP_AI_"
"""The prefix of the environment variables that hold a setting."""


def read_only_for_other_machine(settings: Settings) -> Settings:
    """Return the Settings, made read-only if /proc or /sys may belong to another machine.

    The pids and disks there would not be those of this machine.
    """
    own = settings.procfs.rstrip("/") in ("", "/proc") and settings.sysfs.rstrip("/") in ("", "/sys")
    return settings if own else settings._replace(readonly=True)
