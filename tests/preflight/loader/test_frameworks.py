"""The real program on real torch datasets and tf.data pipelines, each of which has one fault or one limit."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.preflight.loader.sources import DATASETS, PIPELINES, processes_in, run_loader, swept
from tests.rigs.slowdisk import why_no_fuse_disk
from tests.rigs.slowdisk.files import slow_files
from tests.scenarios.stacks.install import python_of, why_no_stack

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
needs_torch = pytest.mark.skipif(bool(why_no_stack("torch")), reason=why_no_stack("torch") or "installed")
needs_tensorflow = pytest.mark.skipif(
    bool(why_no_stack("tensorflow")), reason=why_no_stack("tensorflow") or "installed"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sets.py").write_text(DATASETS)
    (tmp_path / "pipes.py").write_text(PIPELINES)
    return tmp_path


def with_torch(target: str, *arguments: str) -> tuple[str, ...]:
    return f"sets:{target}", "--python", str(python_of("torch")), *arguments


@pytest.fixture
def slow_images(tmp_path: Path) -> Iterator[Path]:
    """A folder with 1500 files, on a slow disk."""
    if why := why_no_fuse_disk():
        pytest.skip(why)
    with slow_files(tmp_path, 1500) as mount:
        yield mount


@needs_torch
def test_a_loader_bound_by_storage_is_recognised(folder: Path, slow_images: Path) -> None:
    arguments = with_torch("Files", "--workers", "0,2,4", "--batch-size", "8", "--cold", str(slow_images))
    found = swept(folder, *arguments, "--seconds", "4", IMAGES=str(slow_images))
    assert found["exit_code"] == 0
    assert found["recommended"]["bound"] == "storage"
    assert found["recommended"]["workers"] == 4
    rates = [run["samples_per_s"] for run in found["runs"]]
    assert rates[0] < rates[1] < rates[2]
    assert all(run["blocked_ratio"] > 0.5 for run in found["runs"])
    assert all(run["storage_bytes"] > 0.5 * run["samples"] * (32 << 10) for run in found["runs"])


@needs_torch
def test_a_loader_bound_by_the_cpu_is_recognised(folder: Path) -> None:
    found = swept(folder, *with_torch("Cpu", "--workers", "0,2", "--seconds", "3"))
    assert found["exit_code"] == 0
    assert found["recommended"]["bound"] == "cpu"
    best = max(run["samples_per_s"] for run in found["runs"])
    assert found["recommended"]["samples_per_s"] >= 0.95 * best


@needs_torch
def test_a_lock_that_a_thread_held_during_the_fork_is_named(folder: Path) -> None:
    done = run_loader(folder, *with_torch("Forked", "--workers", "2,0", "--timeout", "5", "--seconds", "1"))
    assert done.returncode == 1
    assert "hangs: no batch for 5 s; worker" in done.stdout
    assert re.search(r" sleeps in sets\.py:34 in __getitem__ \(futex", done.stdout)
    assert "use: batch_size=32, num_workers=0" in done.stdout
    assert processes_in(folder) == []


@needs_torch
def test_a_dataset_that_spawn_cannot_send_is_named(folder: Path) -> None:
    found = swept(folder, *with_torch("Lambda", "--workers", "1", "--start", "fork,spawn,forkserver", "--seconds", "1"))
    kinds = [run["failure"] and run["failure"]["kind"] for run in found["runs"]]
    assert kinds == [None, "pickle", "pickle"]
    assert 'multiprocessing_context="fork"' in found["recommended"]["patch"]
    assert "start methods: fork works, spawn, forkserver fail" in found["findings"]


@needs_torch
def test_the_memory_growth_of_a_dataset_that_keeps_what_it_reads_is_measured(folder: Path) -> None:
    (run,) = swept(folder, *with_torch("Leaking", "--workers", "2", "--seconds", "8"))["runs"]
    assert 0.7 < run["growth_bytes"] / (32 * 8192 * 4) < 1.3


@needs_torch
def test_memory_of_a_healthy_dataset_does_not_grow(folder: Path) -> None:
    (run,) = swept(folder, *with_torch("Cpu", "--workers", "2", "--seconds", "8"))["runs"]
    assert run["growth_bytes"] is None


@needs_torch
@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="needs root to mount")
def test_a_small_dev_shm_is_named(folder: Path) -> None:
    mount = 'mount --make-rprivate / && mount -t tmpfs -o size=16m tmpfs /dev/shm && exec "$@"'
    arguments = with_torch("Big", "--workers", "2,0", "--seconds", "1", "--timeout", "15")
    done = run_loader(folder, *arguments, before=("unshare", "-m", "sh", "-c", mount, "sh"))
    assert done.returncode == 1
    assert "2 workers, batch 32: /dev/shm of 16 MB is full: workers pass batches through it" in done.stdout
    assert "use: batch_size=32, num_workers=0" in done.stdout


@needs_torch
def test_a_function_gets_the_keyword_arguments_of_the_loader(folder: Path) -> None:
    found = swept(folder, *with_torch("loader", "--workers", "1", "--prefetch", "3", "--pin", "--seconds", "1"))
    assert found["recommended"]["patch"] == (
        "batch_size=32, num_workers=1, prefetch_factor=3, persistent_workers=True, pin_memory=True"
    )


@needs_torch
def test_a_web_loader_is_swept_as_it_is(folder: Path) -> None:
    found = swept(folder, *with_torch("web", "--workers", "0,2", "--seconds", "1"))
    assert found["exit_code"] == 0
    assert [(run["kind"], run["failure"]) for run in found["runs"]] == [("iterable", None)] * 2
    assert all(run["samples"] == 8 * run["batches"] for run in found["runs"])
    assert found["recommended"]["patch"] == "num_workers=2"


@needs_torch
def test_a_function_without_keyword_arguments_is_refused(folder: Path) -> None:
    done = run_loader(folder, *with_torch("finished", "--workers", "0,1"))
    assert done.returncode == 2
    assert "it returns a DataLoader but takes no num_workers" in done.stderr


@needs_tensorflow
def test_a_pipeline_of_tf_data_is_swept(folder: Path) -> None:
    python = str(python_of("tensorflow"))
    found = swept(
        folder, "pipes:make", "--python", python, "--workers", "0,2", "--start", "fork,spawn", "--seconds", "3"
    )
    assert [run["kind"] for run in found["runs"]] == ["tensorflow"] * 2
    assert found["runs"][1]["samples_per_s"] > 1.4 * found["runs"][0]["samples_per_s"]
    assert found["recommended"]["patch"] == "batch_size=32, num_parallel_calls=2"
    done = run_loader(folder, "pipes:finished", "--python", python, "--workers", "0")
    assert "it returns a tf.data.Dataset but takes no num_parallel_calls" in done.stderr


@needs_tensorflow
def test_a_pipeline_of_files_on_a_slow_disk_is_swept(folder: Path, slow_images: Path) -> None:
    arguments = ("--python", str(python_of("tensorflow")), "--workers", "4", "--interleave", "1,8", "--batch-size", "8")
    found = swept(
        folder, "pipes:files", *arguments, "--cold", str(slow_images), "--seconds", "3", IMAGES=str(slow_images)
    )
    one, eight = (run["samples_per_s"] for run in found["runs"])
    assert eight > 1.5 * one
    assert found["recommended"]["interleave"] == 8
    assert "cycle_length=8" in found["recommended"]["patch"]
    assert found["runs"][0]["stages"][:4] == ["Prefetch", "Batch", "ParallelMap", "ParallelInterleave"]
    assert found["exit_code"] == 0
