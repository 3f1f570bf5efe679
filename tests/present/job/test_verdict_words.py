"""Every class of job verdicts in words, the path of a job's data, and the line about its workers' waits."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from iotop_ai.model.frame import Frame
from iotop_ai.model.job.records import JobMount
from iotop_ai.present.text.fit import fit
from iotop_ai.present.verdict import headline
from tests.diagnosis.build import JOB_ALONE, MB, Disk, last
from tests.diagnosis.host_scenes import GONE, ended
from tests.diagnosis.job_scenes import DATA_SCENES, STATE_SCENES, TIME_SCENES, with_job

SCENES = {**DATA_SCENES, **STATE_SCENES, **TIME_SCENES}
PARTS = (headline.headline, headline.because, headline.advice, headline.ruled_out, headline.loss)


def sentence(part: object, frame: Frame) -> str:
    return headline.text_of(part(frame.verdict))  # type: ignore[operator]


@pytest.mark.parametrize("name", SCENES)
@pytest.mark.parametrize("width", [50, 69, 149])
def test_every_sentence_is_shortened_by_whole_clauses(name: str, width: int) -> None:
    frame = last(SCENES[name])
    for part in PARTS:
        spans = part(frame.verdict)
        whole, cut = headline.text_of(spans), headline.text_of(fit(spans, width)).removesuffix("…")
        assert len(cut) <= width
        assert whole.startswith(cut) or re.sub(r" ?\([^)]*\)", "", whole).startswith(cut)
        assert "?" not in whole
    assert len(sentence(headline.headline, frame)) <= 69
    assert all(json.dumps(headline.finding_object(f), allow_nan=False) for f in frame.verdict.findings)


def test_the_cause_of_a_hung_job_is_true_without_its_last_clause() -> None:
    spans = headline.because(last(SCENES["hung"]).verdict)
    assert headline.text_of(fit(spans, 50)) == "its GPU did not work for a minute"


@pytest.mark.parametrize(
    ("name", "expected", "because", "advice"),
    [
        (
            "storage_read",
            "8 of 8 GPUs wait for data 78 % of the time",
            "disk sda 88 MB/s, r_await 87 ms (typical ≤ 1.3); 8 workers blocked 97 %",
            "give the GPUs the ~399 MB/s they ask for: sda gives 88 MB/s",
        ),
        (
            "small_random",
            "train.py waits for data 80 % of the time",
            "disk sda reads of 8 KB, 88 MB/s, r_await 3 ms (typical ≤ 1); 8 workers blocked 97 %",
            "pack files into shards of 100 MB: its reads are 8 KB each;"
            " raise num_workers 8 -> 16: waiting workers cost no CPU and read in parallel",
        ),
        (
            "network_fs",
            "train.py waits for data 80 % of the time",
            "/nfs (nfs4) gives 84 MB/s; 8 workers blocked 97 %, no local disk delivers it",
            "copy its dataset on /nfs to a local disk before the run;"
            " raise num_workers 8 -> 16: waiting workers cost no CPU and read in parallel",
        ),
        (
            "io_limit",
            "train.py waits for data 80 % of the time",
            "limit 84 MB/s in blkio/x/read_bps, it reads 84 MB/s; 8 workers blocked 97 %",
            "raise the limit of 84 MB/s in blkio/x/read_bps, or read less",
        ),
        (
            "io_limit elsewhere",
            "train.py waits for data 80 % of the time",
            "7.8 tasks are blocked, but sda has <0.1 requests queued",
            "look for a limit above this machine: the volume's or the hypervisor's IOPS and MB/s",
        ),
        (
            "cpu_prep",
            "train.py waits for data 80 % of the time",
            "8 workers compute at 97 % CPU, 38 of 40 cores idle; blocked by disks 1 %",
            "raise num_workers 8 -> 32 (80 % of 40 cores)",
        ),
        (
            "single_thread",
            "the GPU waits for data 86 % of the time",
            "train.py loads its data itself: it runs 86 %, blocked 0 %, 38 of 40 cores idle",
            "raise num_workers 0 -> 32 (80 % of 40 cores); set pin_memory=True, persistent_workers=True",
        ),
        (
            "checkpoint_write",
            "train.py waits for its checkpoint 48 % of the time",
            "sda writes 24 MB/s; blocked 5 of 10 s",
            "save in the background (torch.distributed.checkpoint.async_save), or to a disk other than sda",
        ),
        (
            "host_bound",
            "the GPU waits for train.py's main thread 60 % of the time",
            "it runs 97 % of the time and loads nothing",
            "use fewer .item(), .cpu(), print(loss): each waits for the GPU; log every 50 steps;"
            " use torch.compile or CUDA graphs, or use a larger batch",
        ),
        (
            "hung",
            "train.py makes no progress",
            "its GPU did not work for a minute; its processes computed, read and wrote next to nothing",
            "run py-spy dump --pid 50 to see what train.py waits for; then dump its workers",
        ),
        (
            "hung stopped",
            "train.py is stopped",
            "a signal (SIGSTOP, Ctrl-Z), a debugger or a frozen cgroup holds pid 50",
            "ask alice to continue it: kill -CONT 50, or thaw its cgroup",
        ),
        (
            "compiling",
            "train.py compiles its kernels 90 % of the time",
            "a compiler runs below it",
            "keep what it compiles between runs: put TORCHINDUCTOR_CACHE_DIR on a persistent disk",
        ),
        (
            "storage_read threads",
            "the GPU waits for data 60 % of the time",
            "disk sda 88 MB/s, r_await 87 ms (typical ≤ 1.3); its loader threads blocked 100 % of the wait",
            "give the GPUs the ~219 MB/s they ask for: sda gives 88 MB/s",
        ),
        (
            "cpu_prep threads",
            "the GPU waits for data 60 % of the time",
            "its loader threads compute 100 % of the wait, 38 of 40 cores idle; blocked by disks 0 %",
            "use more threads or processes that load, and a deeper prefetch queue",
        ),
        ("healthy", "train.py finds its data ready 99 % of the time", "8 workers idle 93 %, run 5 %, blocked 2 %", ""),
        ("fs_full", "/data is full", "512 MB free, 100 % used", "delete old checkpoints and logs on /data"),
        (
            "shm_full",
            "/dev/shm of train.py is 95 % full",
            "its size is 1 GB, 8 workers hand their batches over in it",
            "run mount -o remount,size=50% /dev/shm, or use fewer workers (8 now) or a lower prefetch_factor",
        ),
    ],
)
def test_each_scene_is_described(name: str, expected: str, because: str, advice: str) -> None:
    frame = last(SCENES[name])
    assert sentence(headline.headline, frame) == expected
    assert sentence(headline.because, frame) == because
    assert sentence(headline.advice, frame) == advice


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        (1, "it exited with an error"),
        (-1, "its terminal or ssh session was closed"),
        (-4, "it crashed in native code"),
        (-10, "a signal from outside killed it"),
        (-13, "the reader of its output exited"),
        (-15, "it received a request to stop"),
        (-24, "it reached its CPU time limit"),
        (-40, "a signal from outside killed it"),
    ],
)
def test_a_death_has_the_cause_that_its_exit_code_shows(code: int, cause: str) -> None:
    frame = last(replace(GONE, events=(ended("trainer", code),)))
    assert sentence(headline.because, frame) == f"{cause}; the dead process had pid 50"


def test_the_disks_of_a_filesystem_on_several_are_counted() -> None:
    disks = tuple(
        Disk(f"sd{letter}", mount="/data", read_bytes_per_s=23 * MB, await_ms=87.0, busy=1.0, queue=2.0)
        for letter in "abcd"
    )
    frame = last(with_job(replace(JOB_ALONE, disks=disks), mounts=(JobMount("/data", "ext4", "", ""),)))
    assert sentence(headline.because, frame).startswith("disk sda +3 88 MB/s, r_await 87 ms")


def test_if_the_disk_of_the_job_is_unknown_no_disk_is_named() -> None:
    frame = last(SCENES["io_limit elsewhere"])
    verdict = frame.verdict
    args = tuple(one for one in verdict.primary.args if one[0] not in ("device", "queue"))
    unknown = verdict._replace(findings=(verdict.primary._replace(args=args), *verdict.findings[1:]))
    words = headline.text_of(headline.because(unknown))
    assert words == "7.8 tasks are blocked, but none of their requests is seen in a disk's queue"


@pytest.mark.parametrize(
    ("part", "words"), [("data_cpu", "CPU 90 %"), ("data_disk", "the disk 90 %"), ("data_network", "the network 90 %")]
)
def test_a_program_that_prepares_a_dataset_does_not_wait_for_data(part: str, words: str) -> None:
    name = "object_stream" if part == "data_network" else "cpu_prep" if part == "data_cpu" else "storage_read alone"
    time = ((part, 0.90), ("data_other", 0.05), ("compute", 0.05))
    machine = with_job(DATA_SCENES[name], worker_kind="prep", stall=0.95, time=time)
    text = headline.text_of(headline.headline(last(machine, 40).verdict))
    assert text == f"train.py prepares data, its slowest part is {words} of the time"
    on_gpu = replace(machine, gpus=(0.05,), gpu_pids=(50,), power=200.0)
    assert "prepares" not in headline.text_of(headline.headline(last(on_gpu, 40).verdict)), "it trains"


def test_work_in_other_threads_of_the_workers_is_not_claimed_for_their_main_threads() -> None:
    """Grain's workers and pipes of WebDataset read and decode in threads and children; their main threads sleep."""
    reads = with_job(DATA_SCENES["storage_read alone"], worker_disk=0.0)
    words = "; threads or children of 8 workers blocked 97 % of the wait"
    assert sentence(headline.because, last(reads)).endswith(words)
    decodes = with_job(DATA_SCENES["cpu_prep"], worker_cpu=0.05, worker_cpu_wait=0.17)
    assert sentence(headline.because, last(decodes)) == (
        "threads or children of 8 workers compute 98 % of the wait, 38 of 40 cores idle; blocked by disks 2 %"
    )
    queued = with_job(DATA_SCENES["cpu_prep"], worker_cpu=0.1, worker_cpu_wait=0.85)
    assert "8 workers compute at 10 % CPU, 85 % wait for a core" in sentence(headline.because, last(queued))
