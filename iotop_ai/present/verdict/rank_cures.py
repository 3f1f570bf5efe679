"""The cures for ranks that wait for each other, as text."""

from __future__ import annotations

from iotop_ai.present.verdict.advice import Args, number, whole, word

_CLOCK_COMMANDS = {"AMD": "amd-smi metric or rocm-smi", "Intel": "xpu-smi or intel_gpu_top"}
"""The commands that show why a GPU's clock is low, by the maker of the GPU."""


def ask_peers(a: Args) -> str:
    """How to find the rank that makes the others wait."""
    local = "" if number(a, "pid") is None else f"; here run py-spy dump --pid {whole(a, 'pid')}"
    return f"run iotop-ai why on the hosts of its other ranks; then read NCCL's log (NCCL_DEBUG=INFO){local}"


def compare_ranks(a: Args) -> str:
    """What to compare, for ranks that wait for their data longer than the others."""
    own = "its" if number(a, "late_count") == 1 else "their"
    cores = f"{own} cores (taskset -cp {whole(a, 'late_pid')})"
    return f"compare {word(a, 'late')} with the others: {own} samples, {cores}, {own} files"


def help_late(a: Args) -> str:
    """What to do for the rank on a GPU that differs from the others."""
    pid = "" if number(a, "pid") is None else f" (pid {whole(a, 'pid')})"
    gpu = f"{word(a, 'late') or 'the late GPU'}{pid}"
    command = _CLOCK_COMMANDS.get(word(a, "maker"), "nvidia-smi -q -d PERFORMANCE")
    remedies = {
        "blocked": f"use a faster disk or more workers for the rank on {gpu}",
        "computes": f"use more workers or lighter samples for the rank on {gpu}",
        "longer": f"make shards and batches equal: the rank on {gpu} has more to compute",
        "clock": f"find out why {gpu} runs at a lower clock: heat, power limit, {command}",
    }
    if word(a, "how") == "less":
        return f"share the work more evenly: {gpu} could do more"
    return remedies.get(word(a, "why"), f"look at the rank on {gpu}: its data, its shard, its clock")
