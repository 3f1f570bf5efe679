"""The real smartctl on made-up disks: an NVMe described by a text file, a SATA disk from a dump of its answers."""

from tests.rigs.smart.disks import Smartctl, sata_json, why_no_smartctl

__all__ = ["Smartctl", "sata_json", "why_no_smartctl"]
