"""The prolog and epilog of Slurm, run by a shell in the way that slurmd runs them."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from iotop_ai.export.assets.slurm_line import line
from tests.cli.program import iotop_here
from tests.job_times import SLOW_DISK
from tests.waiting import until

SCRIPTS = ("slurm-prolog.sh", "slurm-epilog.sh")
JOB = "48213"
NICE = """#!/bin/sh
[ "$1 $2" = "-n 10" ] && shift 2 && exec "$@"
"""
"""This replaces nice: at a low priority, a report on a busy machine would take too long for a test."""


@pytest.fixture
def folder(own_folder: Path) -> Iterator[Path]:
    """The installed assets, with a folder "data" for recordings. Afterwards, a recorder that still runs is ended."""
    done = iotop_here("assets", "install", "all", str(own_folder))
    assert done.returncode == 0, done.stderr
    (own_folder / "data").mkdir(mode=0o700)
    (own_folder / "nice").write_text(NICE)
    (own_folder / "nice").chmod(0o755)
    yield own_folder
    for path in own_folder.glob("data/*.pid"):
        subprocess.run(["kill", path.read_text().strip()], check=False)


def run(folder: Path, name: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a script in the environment that slurmd gives it, with these further variables."""
    environment = {
        "PATH": f"{folder}:/usr/sbin:/usr/bin:/sbin:/bin",
        "SLURM_JOB_ID": JOB,
        "IOTOP_AI_SLURM_DIR": str(folder / "data"),
        **variables,
    }
    argv = [str(folder / name), *arguments]
    return subprocess.run(argv, env=environment, cwd="/", capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.parametrize("shell", ["bash", "dash"])
def test_each_shell_accepts_the_scripts(folder: Path, name: str, shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell}")
    done = subprocess.run([shell, "-n", str(folder / name)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert os.access(folder / name, os.X_OK)
    text = (folder / name).read_text()
    assert "@PROGRAM@" not in text
    assert "@PYTHON@" not in text


def test_a_job_is_recorded_from_its_prolog_to_its_epilog(folder: Path) -> None:
    data = folder / "data"
    done = run(folder, "slurm-prolog.sh")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    recording, pid = data / f"job-{JOB}.iotop.jsonl", int((data / f"job-{JOB}.pid").read_text())
    until(lambda: recording.exists() and '"k":"snap"' in recording.read_text(), "a first reading")
    assert recording.stat().st_mode & 0o077 == 0
    assert os.getsid(pid) == pid
    begun = time.monotonic()
    done = run(folder, "slurm-epilog.sh")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert time.monotonic() - begun < 10
    until(lambda: (data / f"job-{JOB}.txt").exists(), "the line")
    assert not Path(f"/proc/{pid}").exists()
    assert not (data / f"job-{JOB}.pid").exists()
    text = (data / f"job-{JOB}.txt").read_text()  # another training on this machine may be in the recording
    assert re.fullmatch(rf"job {JOB}(: .*| lost [\d.]+ of [\d.]+ (GPU-)?h(: .*)?)\n", text), text


RECORDER = """
import signal, sys, time
pid_file = sys.argv[2]
def end(*_):
    open(pid_file, "w").write("next")
    sys.exit()
signal.signal(signal.SIGTERM, end if pid_file else signal.SIG_DFL)
print("ready", flush=True)
time.sleep(60)
"""
"""A recorder without a recording. If it gets the name of a pid file, it writes that file before it ends."""


@pytest.fixture
def recorder(folder: Path, request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str]]:
    """A RECORDER whose pid is in the job's pid file. If the parameter is true, it gets the name of that file."""
    data = folder / "data"
    recording, pid_file = data / f"job-{JOB}.iotop.jsonl", data / f"job-{JOB}.pid"
    argv = [sys.executable, "-c", RECORDER, str(recording), str(pid_file) if request.param else ""]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        pid_file.write_text(f"{process.pid}\n")
        yield process
        process.kill()


@pytest.mark.parametrize("recorder", [False], indirect=True)
def test_a_job_that_fails_at_once_leaves_no_recorder(folder: Path, recorder: subprocess.Popen[str]) -> None:
    assert not (folder / "data" / f"job-{JOB}.iotop.jsonl").exists()
    assert run(folder, "slurm-epilog.sh").returncode == 0
    assert recorder.wait(30) == -signal.SIGTERM


@pytest.mark.parametrize("recorder", [True], indirect=True)
def test_the_pid_of_a_requeued_job_is_kept(folder: Path, recorder: subprocess.Popen[str]) -> None:
    reaper = threading.Thread(target=recorder.wait)
    reaper.start()
    (folder / "data" / f"job-{JOB}.iotop.jsonl").write_text("not a recording\n")
    assert run(folder, "slurm-epilog.sh", "now").returncode == 0
    reaper.join()
    assert (folder / "data" / f"job-{JOB}.pid").read_text() == "next"


def test_the_line_of_a_job_names_its_slow_disk(folder: Path) -> None:
    data, shared, scontrol = folder / "data", folder / "shared", folder / "scontrol"
    shared.mkdir()
    (data / f"job-{JOB}.iotop.jsonl").write_bytes(gzip.decompress(SLOW_DISK.read_bytes()))
    scontrol.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {folder}/scontrol.words\n')
    scontrol.chmod(0o755)
    # The pid in this file is not that of a recorder, so the process must be left alone.
    (data / f"job-{JOB}.pid").write_text(f"{os.getpid()}\n")
    variables = {"IOTOP_AI_SLURM_SHARED": str(shared), "IOTOP_AI_SLURM_COMMENT": "1"}
    done = run(folder, "slurm-epilog.sh", "now", **variables)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    text = (shared / f"job-{JOB}.txt").read_text().strip()
    report = json.loads(next(shared.glob(f"job-{JOB}.*.json")).read_text())
    (job,) = report["jobs"]
    seconds = job["time_s"]
    lost = sum(value for name, value in seconds.items() if name not in ("compute", "unexplained"))
    share = round(100 * seconds["data_disk"] / lost)
    assert share > 50
    assert text.endswith(f": {share} % disk {job['disk']} on {report['machine']['host']}")
    assert (folder / "scontrol.words").read_text() == f"update\nJobId={JOB}\nAdminComment={text}\n"
    assert not list(shared.glob("*.part"))


@pytest.mark.parametrize("job", ["", "../../etc/passwd", "1; touch x", "$(touch x)"])
@pytest.mark.parametrize("name", SCRIPTS)
def test_an_invalid_job_id_does_nothing(folder: Path, name: str, job: str) -> None:
    done = run(folder, name, SLURM_JOB_ID=job)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list((folder / "data").iterdir()) == []


def test_an_unusable_folder_or_an_invalid_recording_does_not_drain_the_node(folder: Path) -> None:
    assert run(folder, "slurm-prolog.sh", IOTOP_AI_SLURM_DIR="/proc/nothing").returncode == 0
    (folder / "data" / f"job-{JOB}.iotop.jsonl").write_text("not a recording\n")
    assert run(folder, "slurm-epilog.sh", "now").returncode == 0
    assert not list((folder / "data").glob("*.json*.part"))
    assert not (folder / "data" / f"job-{JOB}.txt").exists()


def test_old_recordings_are_removed(folder: Path) -> None:
    old, other = folder / "data" / "job-7.iotop.jsonl", folder / "data" / "notes"
    for path in (old, other):
        path.write_text("")
        os.utime(path, (0, 0))
    run(folder, "slurm-prolog.sh")
    assert not old.exists()
    assert other.exists()


def test_the_pid_of_a_long_job_is_kept(folder: Path) -> None:
    long_job = folder / "data" / "job-7.pid"
    long_job.write_text("")
    os.utime(long_job, (0, 0))
    run(folder, "slurm-prolog.sh")
    assert long_job.exists()


def node(host: str, gpus: int, disk: str = "sda", label: str = f"slurm {JOB}", **hours: float) -> dict[str, Any]:
    """The report of a node on which one job ran."""
    seconds = {name: 3600 * value for name, value in hours.items()}
    gpu_hours = gpus * sum(hours.values()) if gpus and hours else None
    job = {"label": label, "gpus": gpus, "gpu_hours": gpu_hours, "time_s": seconds, "disk": disk, "mount": "/lustre"}
    return {"machine": {"host": host}, "jobs": [job]}


def test_the_hours_of_nodes_are_added_up_and_the_largest_loss_is_named() -> None:
    nodes = [
        node("gpu07", 8, compute=35.0, data_disk=18.8, data_cpu=2.45),
        node("gpu08", 8, label=f"slurm {JOB}.0", compute=51.0, collective=5.25),
    ]
    assert line(JOB, nodes) == f"job {JOB} lost 212 of 900 GPU-h: 71 % disk sda on gpu07"
    assert line(JOB, [node("gpu07", 0, compute=1.0, data_network=3.0)]).endswith(
        "3 of 4 h: 100 % network /lustre on gpu07"
    )


def test_the_gpu_hours_of_a_job_are_those_of_its_report() -> None:
    """A job that held 8 GPUs at first and then one has less than 8 GPU-hours an hour."""
    one = node("gpu07", 8, compute=0.75, data_disk=0.25)
    one["jobs"][0]["gpu_hours"] = 1.6
    assert line(JOB, [one]) == f"job {JOB} lost 0.4 of 1.6 GPU-h: 100 % disk sda on gpu07"


def test_a_job_without_known_gpus_is_left_out_of_the_gpu_hours() -> None:
    """The ``report`` of a long run does not know the GPUs of a job that began and ended between two of its readings."""
    one, short = (node("gpu07", gpus, label="", compute=1.0, data_disk=1.0) for gpus in (8, 0))
    short["jobs"][0]["gpus"] = None
    assert line(JOB, [one, short]) == f"job {JOB} lost 8 of 16 GPU-h: 100 % disk sda on gpu07"
    assert line(JOB, [short]) == f"job {JOB} lost 1 of 2 h: 100 % disk sda on gpu07"


def test_other_jobs_of_the_node_do_not_count() -> None:
    other = node("gpu07", 4, label="slurm 4821", data_disk=9.0)
    assert line(JOB, [other]) == f"job {JOB}: no training was seen"
    nodes = [node("gpu07", 4, compute=2.0), other]
    assert line(JOB, nodes) == f"job {JOB} lost 0 of 8 GPU-h"
    # cgroups may be off, so that the job has no label
    without = node("gpu07", 4, label="", compute=1.0, checkpoint=1.0)
    assert line(JOB, [without]) == f"job {JOB} lost 4 of 8 GPU-h: 100 % checkpoint on gpu07"
    untimed = node("gpu07", 4)
    assert line(JOB, [untimed]) == f"job {JOB}: where its time went is not known"


@pytest.mark.parametrize("text", ['{"jobs": [3]}', '{"jobs": [{"label": ""}], "machine": {"host": "gpu08"}}'])
def test_a_file_that_is_not_a_report_is_skipped(folder: Path, text: str) -> None:
    good, bad = folder / "good.json", folder / "bad.json"
    good.write_text(json.dumps(node("gpu07", 8, compute=1.0, transfer=1.0)))
    bad.write_text(text)
    argv = [sys.executable, "-I", "-S", str(folder / "slurm_line.py"), JOB]
    done = subprocess.run([*argv, str(bad), str(good)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"job {JOB} lost 8 of 16 GPU-h: 100 % copies to the GPU on gpu07\n")
    assert "bad.json is not a report" in done.stderr
    assert subprocess.run([*argv, str(bad)], capture_output=True, check=False).returncode == 1
