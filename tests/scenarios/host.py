"""Programs around a job: ``python host.py FOLDER --mode MODE [its options] [options of trainer.py]``.

epochs: a trainer that restarts its workers every --epoch steps; each worker first imports for --import-s. dies: a
trainer that kills itself with --signal after --after seconds. serve: an inference server that waits for requests. read:
a program that reads the folder's files from the disk again and again. spin, write, compile, desktop: other kinds of
load.
"""

from __future__ import annotations

import argparse
import http.server
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from tests.scenarios.place import die_with_us
from tests.scenarios.trainer import Dataset, Loader, options, spin

CHUNK = 512 * 1024
SOURCE = "\n".join(f"double f{i}(double x) {{ return x * {i}.5 + f{i - 1}(x / {i + 1}.25); }}" for i in range(1, 400))


class Importing(Dataset):
    """A dataset whose first sample in each worker takes as long as importing a large framework."""

    def __init__(self, a: argparse.Namespace, import_s: float) -> None:
        super().__init__(a)
        self.import_s = import_s
        self.imported = 0

    def load(self, number: int) -> int:
        if self.imported != os.getpid():
            self.imported = os.getpid()
            spin(self.import_s)
        return super().load(number)


def train(a: argparse.Namespace, dataset: Dataset, epoch: int, end: float) -> None:
    """Train until ``end``, and restart the workers after every ``epoch`` steps (0: never)."""
    log = a.log.open("w", buffering=1) if a.log else None
    loader, step = Loader(dataset, a.workers, a.batch, a.prefetch, a.method), 0
    while time.monotonic() < end:
        start = time.monotonic()
        if epoch and step and step % epoch == 0:
            for process in loader.processes:
                process.terminate()
                process.join()
            loader = Loader(dataset, a.workers, a.batch, a.prefetch, a.method)
        loader.get()
        ready = time.monotonic()
        time.sleep(a.step)
        step += 1
        now = time.monotonic()
        if log:
            log.write(json.dumps({"at": ready, "wait": ready - start, "all": now - start, "save": 0.0}) + "\n")


def serve(conf: Path | None) -> None:
    """Listen for HTTP requests. With a GPU, also hold the memory of a model there and leave the GPU idle."""
    if conf is not None:
        text = [line for line in conf.read_text().splitlines() if not line.startswith(("gpu0.util", "gpu0.power_mw"))]
        lines = [*text, "gpu0.util=0", "gpu0.power_mw=75000", f"gpu0.procs={os.getpid()}:42949672960"]
        fresh = conf.with_suffix(".new")
        fresh.write_text("\n".join(lines) + "\n")
        os.replace(fresh, conf)
    http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler).serve_forever()


def read(folder: Path) -> None:
    """Read files of the folder at random positions, never from the cache."""
    files, rng = sorted(folder.glob("*.bin")), random.Random()
    while True:
        fd = os.open(rng.choice(files), os.O_RDONLY)
        try:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
            most = os.fstat(fd).st_size
            for _ in range(8):
                offset = rng.randrange(max(1, most - CHUNK)) // 4096 * 4096
                os.pread(fd, CHUNK, offset)
                os.posix_fadvise(fd, offset, CHUNK, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)


def read_much(folder: Path, count: int) -> None:
    """Read with ``count`` threads, because forked readers would look like the loaders of a job."""
    for _ in range(count):
        threading.Thread(target=read, args=(folder,), daemon=True).start()
    signal.pause()


def spin_much(count: int) -> None:
    """Keep ``count`` cores busy with shell loops.

    Each loop has a session of its own, because the kernel shares the cores between sessions (sched_autogroup_enabled):
    all loops of one session together would get no more than the job.
    """
    command = ["sh", "-c", "while :; do :; done"]
    programs = [subprocess.Popen(command, start_new_session=True, preexec_fn=die_with_us) for _ in range(count)]
    for program in programs:
        program.wait()


def write(folder: Path) -> None:
    """Write a log line by line, and start it again when it is large."""
    path = folder / "noisy.log"
    while True:
        with path.open("w", buffering=1) as log:
            for number in range(40_000):
                log.write(f"{time.time()} worker {number} did something\n")
                if number % 20 == 0:
                    time.sleep(0.01)


def compile_all(folder: Path) -> None:
    """Compile a C program again and again."""
    source = folder / "part.c"
    source.write_text(f"double f0(double x) {{ return x; }}\n{SOURCE}\nint main(void) {{ return (int)f399(1.0); }}\n")
    while True:
        subprocess.run(["gcc", "-O1", "-o", str(folder / "part.o"), "-c", str(source)], check=True)


def desktop(folder: Path) -> None:
    """Behave like an idle desktop: wake up now and then, and sometimes write a file."""
    while True:
        time.sleep(0.5)
        spin(0.004)
        if random.random() < 0.05:
            (folder / "settings").write_text("x" * 3000)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--mode", required=True)
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--epoch", type=int, default=100)
    parser.add_argument("--import-s", type=float, default=1.5)
    parser.add_argument("--after", type=float, default=9.0)
    parser.add_argument("--signal", type=int, default=int(signal.SIGKILL))
    own, rest = parser.parse_known_args()
    a = options([str(own.folder), *rest])
    if own.mode == "epochs":
        train(a, Importing(a, own.import_s), own.epoch, float("inf"))
    elif own.mode == "dies":
        threading.Timer(own.after, os.kill, (os.getpid(), own.signal)).start()
        train(a, Dataset(a), 0, float("inf"))
    elif own.mode == "serve":
        serve(a.gpu)
    elif own.mode == "read":
        read_much(own.folder, own.count)
    elif own.mode == "spin":
        spin_much(own.count)
    else:
        {"write": write, "compile": compile_all, "desktop": desktop}[own.mode](own.folder)


if __name__ == "__main__":
    sys.exit(main())
