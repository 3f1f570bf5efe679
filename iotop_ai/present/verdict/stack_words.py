"""The words of advice that depend on the job's framework, or on the library that reads its data."""

from __future__ import annotations

from collections.abc import Mapping

from iotop_ai.present.verdict.advice import Args, amount, number, whole, word

COMPILE_ADVICE = {
    "torch": "use torch.compile or CUDA graphs",
    "jax": "put more of the step inside jax.jit",
    "tensorflow": "use tf.function(jit_compile=True)",
}
COMPILE_CACHE = {
    "torch": ": put TORCHINDUCTOR_CACHE_DIR on a persistent disk",
    "jax": ": put jax_compilation_cache_dir on a persistent disk",
}
SEES_GPU = {
    "torch": "python -c 'import torch; print(torch.cuda.is_available())'",
    "jax": "python -c 'import jax; print(jax.devices())'",
    "tensorflow": "python -c 'import tensorflow as tf; print(tf.config.list_physical_devices())'",
}
SAVES = {
    "torch": " (torch.distributed.checkpoint.async_save)",
    "jax": " (orbax.checkpoint.AsyncCheckpointer)",
    "tensorflow": " (in a thread), or use BackupAndRestore less often",
}
SYNCS = {
    "torch": ".item(), .cpu(), print(loss)",
    "jax": "block_until_ready(), float(loss)",
    "tensorflow": ".numpy(), print(loss)",
}
READS_AHEAD = {
    "torch": "use more workers, or read a batch's samples in parallel (Dataset.__getitems__): more reads at once",
    "jax": "use more workers or threads that read (worker_count, num_threads): more reads at once",
    "tensorflow": "use num_parallel_calls=AUTOTUNE in interleave, and prefetch(AUTOTUNE): more reads at once",
}
"""COMPILE_ADVICE to READS_AHEAD hold the words of some pieces of advice, by the job's framework."""


def for_framework(a: Args, words: Mapping[str, str], other: str) -> str:
    """The words for the job's framework; ``other`` for a framework without words, or an unknown one."""
    return words.get(word(a, "framework"), other)


_COMPILERS = {"torch": "torch.compile", "jax": "jax.jit", "tensorflow": "tf.function"}


def compiler(a: Args) -> str:
    """The compiler of the job's framework: "torch.compile"."""
    return for_framework(a, _COMPILERS, "compiling the model")


_ORDERED_READS = {
    "lmdb": "read the LMDB in the order of its keys and shuffle blocks, or keep it in memory",
    "hdf5": "if its data is HDF5, use larger chunks, read whole ones and shuffle blocks; else pack files into shards",
    "datasets": "if its data is a Hugging Face dataset, use flatten_indices() after shuffle(); else pack files",
}
"""How a job gets larger reads, by the library that reads its data; other jobs pack files."""


def pack_files(a: Args) -> str:
    """The advice to read more at a time."""
    how = _ORDERED_READS.get(word(a, "reader"), "pack files into shards of 100 MB")
    return f"{how}: its reads are {amount(a, 'read_size_bytes')} each"


def more_threads(a: Args) -> str:
    """The advice to load with more threads."""
    if word(a, "reader") == "dali":
        return "raise num_threads and prefetch_queue_depth of the DALI pipeline, or decode on the GPU (device='mixed')"
    return "use more threads or processes that load, and a deeper prefetch queue"


def fewer_batches(a: Args) -> str:
    """The advice to keep fewer batches: "use fewer workers (16 now) or a lower prefetch_factor (8 now)"."""
    names = ("workers_now", "prefetch_now")
    workers, prefetch = ("" if number(a, name) is None else f" ({whole(a, name)} now)" for name in names)
    return f"use fewer workers{workers} or a lower prefetch_factor{prefetch}"
