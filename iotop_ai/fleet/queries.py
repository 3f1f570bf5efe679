"""The PromQL queries, by name.

The server aggregates each query, so that replicas count once and few series cross the network.
"""

from __future__ import annotations

from collections.abc import Mapping

RECENT = "1h"
"""A machine that has reported within this time is listed, even if it is silent now."""
_JOB = "instance, pid, script, slurm_job_id, unit"
"""The labels that identify a job on one machine."""
_ONLY_DISKS = 'device!~"loop.*|ram.*|zram.*|sr.*|fd.*"'
"""A matcher for the devices of node_exporter that count as disks."""
_BUSIEST = "topk by (instance) (1, max by (instance, device) (rate({}[WINDOW])))"
_DISK = _BUSIEST.format("iotop_disk_io_time_seconds_total")
_NODE_DISK = _BUSIEST.format(f"node_disk_io_time_seconds_total{{{_ONLY_DISKS}}}")
_AWAIT = """
    (max by (instance, device) (rate({disk}_read_time_seconds_total[WINDOW]))
      + max by (instance, device) (rate({disk}_write_time_seconds_total[WINDOW])))
    / (max by (instance, device) (rate({disk}_reads_completed_total[WINDOW]))
      + max by (instance, device) (rate({disk}_writes_completed_total[WINDOW])) > 0)
    and on (instance, device) {busiest}"""
"""The mean await of the busiest disk, in seconds."""
_LOST_TIME = 'bucket!~"compute|unexplained"'
"""A matcher for the time that a job lost."""

_READ_AT = "iotop_monitor_reading_timestamp_seconds"
READING, ALIVE = "reading", "alive"
"""The names of two queries. READING is sent first; all others are evaluated at the time of its answer. ALIVE finds the
machines that still deliver readings; the age of a reading does not show it, because a machine's clock may be wrong."""
_QUERIES: Mapping[str, str] = {
    READING: f"max by (instance) (last_over_time({_READ_AT}[{RECENT}])) or vector(time())",
    "verdict": "max by (instance, state) (iotop_verdict_state == 1)",
    "measuring": "max by (instance) (iotop_verdict_measuring == 1)",
    "findings": "max by (instance, class, subject, state, severity, primary) (iotop_finding)",
    "findings' loss": "max by (instance, class, subject) (iotop_finding_lost_ratio)",
    "job time": f"max by ({_JOB}, bucket) (increase(iotop_job_time_seconds_total[WINDOW])) > 0",
    "job GPUs": f"max by ({_JOB}) (last_over_time(iotop_job_gpus[WINDOW]))",
    "job ranks": f"max by ({_JOB}) (last_over_time(iotop_job_ranks[WINDOW]))",
    # The value is 2 for a current job, and 1 for a job that ended or had other ranks earlier in the window.
    "job info": f"max by ({_JOB}, ranks, rank_group) (2 * iotop_job_info or last_over_time(iotop_job_info[WINDOW]))",
    "late rank": f"max by ({_JOB}) (last_over_time(iotop_job_late_rank[WINDOW]))",
    "GPUs": "count by (instance) (max by (instance, UUID) (iotop_gpu_info))",
    "GPU use": "avg by (instance) (max by (instance, UUID) (avg_over_time(iotop_gpu_busy_ratio[WINDOW])))",
    "disk use": _DISK,
    "disk await": _AWAIT.format(disk="iotop_disk", busiest=_DISK),
    "health": "topk by (instance) (1, max by (instance, device) (iotop_smart_severity))",
    "collectors": 'max by (instance, collector, status) (iotop_collector_status{collector=~"gpu|smart"})',
    ALIVE: f"max by (instance) (changes({_READ_AT}[3m]) > 0 or count_over_time({_READ_AT}[3m]) == 1 and {_READ_AT})",
    "alerts": 'count by (instance, alertname, severity) (ALERTS{alertstate="firing"})',
    "node": f"max by (instance, nodename) (last_over_time(node_uname_info[{RECENT}]))",
    "node's reading": "max by (instance) (timestamp(node_uname_info))",
    "node's disk use": _NODE_DISK,
    "node's disk await": _AWAIT.format(disk="node_disk", busiest=_NODE_DISK),
    "dcgm": "max by (instance, Hostname, gpu, UUID) (DCGM_FI_DEV_GPU_UTIL)",
    "smartctl": "bottomk by (instance) (1, max by (instance, device) (smartctl_device_smart_status))",
    "smartctl's warning": "topk by (instance) (1, max by (instance, device) (smartctl_device_critical_warning))",
}


def queries(window_s: float) -> dict[str, str]:
    """Every query over a window of ``window_s`` seconds, with READING first."""
    return {name: _fill_in(text, window_s) for name, text in _QUERIES.items()}


def _fill_in(text: str, window_s: float) -> str:
    return " ".join(text.split()).replace("[WINDOW]", _window(window_s))


def _window(window_s: float) -> str:
    return f"[{max(1, round(window_s))}s]"


def quote(text: str) -> str:
    """A label's value as a PromQL string."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def history_queries(instance: str, window_s: float) -> dict[str, str]:
    """The queries for the graphs of a machine with iotop-ai: lost share, GPU use, and use of the busiest disk."""
    matchers, window = f"instance={quote(instance)}", _window(window_s)
    lost = f"iotop_job_time_seconds_total{{{matchers},{_LOST_TIME}}}{window}"
    total = f"iotop_job_time_seconds_total{{{matchers}}}{window}"
    return {
        "lost": f"sum(rate({lost})) / (sum(rate({total})) > 0)",
        "gpu": f"avg(avg_over_time(iotop_gpu_busy_ratio{{{matchers}}}{window}))",
        "disk": f"max(rate(iotop_disk_io_time_seconds_total{{{matchers}}}{window}))",
    }


def node_history_queries(instance: str, window_s: float) -> dict[str, str]:
    """The queries for the graphs of a machine that has only node_exporter."""
    matchers = f"instance={quote(instance)},{_ONLY_DISKS}"
    return {"disk": f"max(rate(node_disk_io_time_seconds_total{{{matchers}}}{_window(window_s)}))"}
