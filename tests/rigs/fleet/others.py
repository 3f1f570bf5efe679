"""A machine without iotop-ai, whose scrapes have the form of node_exporter, dcgm-exporter and smartctl_exporter.

Names and labels follow the sources: prometheus/node_exporter collector/diskstats_linux.go and uname.go,
NVIDIA/dcgm-exporter etc/default-counters.csv, prometheus-community/smartctl_exporter metrics.go.
"""

from __future__ import annotations

BLANK = 9223372036854775794
"""The value that DCGM reports for a figure that it does not have (DCGM_INT64_BLANK + 2)."""


def node_text(host: str, seconds: float) -> str:
    """The disk sda is busy for 97 % of the time, and answers in 40 ms."""
    reads = 24 * seconds
    lines = [f'node_uname_info{{machine="x86_64",nodename="{host}",release="6.1.0",sysname="Linux"}} 1']
    for device, busy, count in (("nvme0n1", 0.02, reads), ("sda", 0.97, reads), ("loop0", 1.0, reads)):
        labels = f'{{device="{device}"}}'
        lines += [
            f"node_disk_io_time_seconds_total{labels} {busy * seconds}",
            f"node_disk_reads_completed_total{labels} {count}",
            f"node_disk_writes_completed_total{labels} 0",
            f"node_disk_read_time_seconds_total{labels} {count * (0.04 if device == 'sda' else 0.0001)}",
            f"node_disk_write_time_seconds_total{labels} 0",
        ]
    return "\n".join(lines) + "\n"


def dcgm_text(host: str, seconds: float) -> str:
    """Three of the four GPUs report their use; on a machine with "blank" in its name, none of them does."""
    use = [BLANK] * 4 if "blank" in host else [90, 80, BLANK, 70]
    return "".join(
        f'DCGM_FI_DEV_GPU_UTIL{{gpu="{n}",UUID="GPU-{host}-{n}",device="nvidia{n}",modelName="NVIDIA H100",'
        f'Hostname="{host}"}} {value}\n'
        for n, value in enumerate(use)
    )


def smartctl_text(host: str, seconds: float) -> str:
    """There are two disks. sdb reports that it fails, except on a machine with "blank" in its name."""
    passed = 1 if "blank" in host else 0
    return f'smartctl_device_smart_status{{device="sda"}} 1\nsmartctl_device_smart_status{{device="sdb"}} {passed}\n'


TEXTS = {"node": (9100, node_text), "dcgm": (9400, dcgm_text), "smartctl": (9633, smartctl_text)}
"""The usual port and the text of each exporter."""
