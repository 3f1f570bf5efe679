"""Real datasets: they are scanned, read from the disk, left as they were, and decoded."""

from __future__ import annotations

import mmap
import os
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.machine.dataset_files import Pinned
from iotop_ai.collectors.machine.page_cache import PageCache, measure_cached
from iotop_ai.model.preflight.dataset import DATASET, Dataset, Decoding, Forecast
from iotop_ai.model.preflight.place import Place
from iotop_ai.model.preflight.report import Report
from iotop_ai.model.preflight.storage import CACHED, KIB, STAT, Measured, Phase
from iotop_ai.preflight.environment.python import read_python
from iotop_ai.preflight.storage import decode as decoder
from iotop_ai.preflight.storage.check import DatasetFacts, End, Message, Started, StorageCheck
from iotop_ai.preflight.storage.dataset import CHUNK, Files, Scanned, scan
from iotop_ai.preflight.storage.decode import decode
from iotop_ai.preflight.storage.forecast import with_forecast
from iotop_ai.preflight.storage.session import Request
from iotop_ai.present.preflight.dataset import dataset_text, forecast_text
from tests.preflight.storage.here import measured_here, session_here
from tests.preflight.storage.places import mounted, needs_root
from tests.rigs.nobody import UID

PHASES = tuple(Phase(DATASET, 0, depth, seconds) for depth, seconds in ((0, 5.0), (1, 0.4), (3, 0.4)))
"""A scan, which ends as soon as it has seen all files, and two readings, which use all of their time."""


def make(folder: Path, count: int, size: int) -> None:
    for number in range(count):
        path = folder / f"class{number % 3}" / f"{number}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(size + number))


def evict(folder: Path) -> None:
    for path in folder.rglob("*.bin"):
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def messages_of(path: Path, **more: object) -> list[Message]:
    check = StorageCheck(Request(str(path), PHASES, "own", write=False)._replace(**more), Clock())
    try:
        return list(check.messages())
    finally:
        check.close()


def here(path: Path, **more: object) -> list[Message]:
    """The messages of a check in this process."""
    return measured_here(path, PHASES, write=False, **more)


def found(messages: list[Message]) -> DatasetFacts:
    return next(one for one in messages if isinstance(one, DatasetFacts))


def results(messages: list[Message]) -> list[Measured]:
    return [one for one in messages if isinstance(one, Measured)]


def test_files_on_the_disk_are_read_and_evicted_again(tmp_path: Path) -> None:
    make(tmp_path, 120, 60 * KIB)
    evict(tmp_path)
    messages = messages_of(tmp_path)
    dataset = found(messages).dataset
    assert (dataset.files, dataset.complete, dataset.past) == (120, True, False)
    assert dataset.size_bytes == sum(60 * KIB + number for number in range(120))
    assert dataset.p10_bytes <= dataset.p50_bytes <= dataset.p90_bytes <= dataset.most_bytes == 60 * KIB + 119
    assert dataset.resident_ratio == 0.0
    alone, together = results(messages)
    assert (alone.depth, together.depth) == (1, 3)
    for one in (alone, together):
        assert one.ops > 10
        assert one.size_bytes / one.ops == pytest.approx(60 * KIB, rel=0.01)
    assert measure_cached(str(tmp_path), PageCache()).resident_bytes == 0
    assert messages[-1] == End()


def test_files_in_memory_stay_there_and_are_read_from_the_disk(tmp_path: Path) -> None:
    """A kernel that frees idle pages by itself (DAMON) may free some of their pages."""
    make(tmp_path, 60, 40 * KIB)
    for path in tmp_path.rglob("*.bin"):
        path.read_bytes()
    messages = here(tmp_path)
    dataset = found(messages).dataset
    assert dataset.past
    assert dataset.resident_ratio == pytest.approx(1.0, abs=0.05)
    assert len(results(messages)) == 2
    assert measure_cached(str(tmp_path), PageCache()).resident_ratio == pytest.approx(1.0, abs=0.05)


def test_only_the_uncached_files_of_a_dataset_are_read_and_evicted(tmp_path: Path) -> None:
    make(tmp_path, 90, 40 * KIB)
    evict(tmp_path)
    warm = [path for path in tmp_path.rglob("*.bin") if path.parent.name == "class1"]
    for path in warm:
        path.read_bytes()
    before = measure_cached(str(tmp_path), PageCache()).resident_bytes
    dataset = found(here(tmp_path)).dataset
    assert dataset.cold == 60
    assert dataset.resident_ratio == pytest.approx(1 / 3, abs=0.02)
    # The tolerance is less than a file, because the kernel may reuse single pages meanwhile.
    assert measure_cached(str(tmp_path), PageCache()).resident_bytes == pytest.approx(before, rel=0.03)


def scanned_of(path: Path, count: int, *, evict: bool) -> Scanned:
    """A dataset of this many files, of which number n has 1000 + n bytes. evict: whether they can be evicted."""
    for number in range(count):
        (path / f"{number:02}.bin").write_bytes(os.urandom(1000 + number))
    top = Pinned(os.open(path, os.O_RDONLY), ".", str(path))
    return Scanned(Dataset(count, count * 1000, True), top, tuple((f"{n:02}.bin", evict) for n in range(count)))


@pytest.mark.parametrize(("count", "readers"), [(4, 3), (7, 7), (9, 2)])
def test_two_readers_never_read_the_same_file(tmp_path: Path, count: int, readers: int) -> None:
    scanned = scanned_of(tmp_path, count, evict=True)
    pieces = Files(scanned, scanned.files, readers).pieces
    with mmap.mmap(-1, CHUNK) as buffer:
        sizes = [
            {sum(size for size, _ in pieces(buffer, reader + readers * turn)) for turn in range(20)}
            for reader in range(readers)
        ]
    os.close(scanned.top.folder)
    assert sorted(size for each in sizes for size in each) == list(range(1000, 1000 + count))


def test_files_that_stay_in_memory_are_read_only_once(tmp_path: Path) -> None:
    scanned = scanned_of(tmp_path, 10, evict=False)
    parts = [scanned.part(number) for number in range(3)]
    assert sorted(sum(parts, ())) == sorted(scanned.files)
    session, messages = session_here(tmp_path, PHASES)
    for number, readers in ((1, 1), (2, 8)):
        session._read_files(scanned, Phase(DATASET, 0, readers, 5.0), scanned.part(number))
    os.close(scanned.top.folder)
    assert [(one.depth, one.ops) for one in results(messages)] == [(1, 3), (4, 4)]
    assert sum(one.size_bytes for one in results(messages)) == sum(1000 + number for number in range(3, 10))


def test_files_that_were_removed_meanwhile_are_not_counted(tmp_path: Path) -> None:
    scanned = scanned_of(tmp_path, 3, evict=False)
    (tmp_path / "00.bin").unlink()
    (tmp_path / "01.bin").write_bytes(b"")
    session, messages = session_here(tmp_path, PHASES)
    session._read_files(scanned, Phase(DATASET, 0, 2, 5.0), scanned.files[:2])
    session._read_files(scanned, Phase(DATASET, 0, 2, 5.0), scanned.files)
    os.close(scanned.top.folder)
    assert [(one.ops, one.size_bytes) for one in results(messages)] == [(1, 1002)]


def test_files_with_holes_are_not_read(tmp_path: Path) -> None:
    make(tmp_path, 3, 4 * KIB)
    os.truncate(tmp_path / "class0/0.bin", 1 << 30)
    scanned = scan_of(tmp_path)
    assert (scanned.dataset.files, scanned.dataset.sampled, scanned.dataset.holes) == (3, 2, 1)
    assert sorted(path for path, _ in scanned.files) == ["class1/1.bin", "class2/2.bin"]
    report = Report(Place("/d"), 0, dataset=scanned.dataset)
    assert "not read: 1 sparse file in the sample, whose holes need no I/O" in dataset_text(report)


def report_of(*rows: tuple[int, float], **dataset: object) -> Report:
    """rows: the number of readers, and how many reads of 64 MB they made in one second."""
    found = tuple(Measured(DATASET, CHUNK, depth, int(ops), int(ops * (64 << 20)), 1.0) for depth, ops in rows)
    files = Dataset(100, 100 << 30, True, most_bytes=1 << 30)._replace(**dataset)
    return Report(Place("/d"), 0, results=found, dataset=files)


def test_files_that_are_read_only_in_part_are_forecast_by_their_bytes() -> None:
    made = with_forecast(report_of((1, 5), (4, 5)), 4.0, 4, None, 8.0)
    assert made.forecast is not None
    assert made.forecast.first == pytest.approx(320 / 1024 / 4)
    assert any("this storage gives 320 MB/s: expect 8 % of the GPU" in text for text in forecast_text(made))
    assert any("only the first 64 MB of larger files are read" in text for text in dataset_text(made))


def test_a_forecast_with_workers_needs_the_rates_of_one_and_of_several_readers() -> None:
    made = with_forecast(report_of((1, 2), (3, 6), most_bytes=64 << 20, size_bytes=6400 << 20), 100.0, 8, None, 8.0)
    assert made.forecast is not None
    assert made.forecast.samples_per_s == 6
    assert with_forecast(report_of((1, 2)), 100.0, 8, None, 8.0).forecast is None
    assert with_forecast(report_of((1, 2)), 100.0, 0, None, 8.0).forecast is not None
    assert with_forecast(report_of((3, 6)), 100.0, 0, None, 8.0).forecast is None


def test_uneven_reads_of_small_and_large_files_give_no_forecast() -> None:
    """A reader is busy with the large file while three others read the small files again and again."""
    files = Dataset(21, (64 << 20) + 4000, True, sampled=21, most_bytes=64 << 20)
    files = files._replace(resident_bytes=64 << 20, known_bytes=files.size_bytes)
    rows = (Measured(DATASET, CHUNK, 1, 50, 220 << 20, 0.5), Measured(DATASET, CHUNK, 4, 3682, 115 << 20, 0.5))
    made = with_forecast(Report(Place("/d"), 0, results=rows, dataset=files), 200.0, 4, None, 8.0)
    assert made.forecast is None
    (line,) = forecast_text(made)
    assert line.endswith("; ? the dataset's file sizes vary too much to tell how fast the storage is")
    # If all of it is in memory, only the rate of memory counts.
    memory = Measured(CACHED, 1 << 20, 1, 64, 64 << 20, 0.01)
    in_memory = files._replace(resident_bytes=files.known_bytes)
    made = with_forecast(Report(Place("/d"), 0, results=(*rows, memory), dataset=in_memory), 4200.0, 4, None, 8.0)
    (line,) = forecast_text(made)
    assert line.endswith("; memory gives 6.2 GB/s: expect 50 % of the GPU")


def test_the_cached_part_is_forecast_at_the_measured_rate_of_memory() -> None:
    half_cached = {"most_bytes": 64 << 20, "size_bytes": 6400 << 20, "resident_bytes": 1, "known_bytes": 2}
    report = report_of((1, 5), (4, 5), **half_cached)
    assert with_forecast(report, 100.0, 4, None, 8.0).forecast == Forecast(5, 0.05, None, "storage", at_least=True)
    cached, stat = Measured(CACHED, 1 << 20, 1, 64, 64 << 20, 0.01), Measured(STAT, 0, 1, 1000, 0, 0.01)
    made = with_forecast(report._replace(results=(*report.results, stat, cached)), 100.0, 4, None, 8.0).forecast
    assert made is not None
    assert made.samples_per_s == pytest.approx(1 / (0.5 / 5 + 0.5 * (0.01 + 0.00001)))
    packed = with_forecast(report._replace(results=(*report.results, stat, cached)), 100.0, 4, 64 << 20, 8.0).forecast
    assert packed is not None
    assert packed.samples_per_s == pytest.approx(1 / (0.5 / 5 + 0.5 * 0.01))


def test_without_a_large_file_only_the_dataset_is_read(tmp_path: Path) -> None:
    make(tmp_path, 30, 20 * KIB)
    messages = here(tmp_path)
    assert not [one for one in messages if isinstance(one, Started)]
    assert any(isinstance(one, str) and "only the dataset's files are read" in one for one in messages)


def test_an_empty_dataset_is_reported(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    session, messages = session_here(tmp_path, PHASES, write=False)
    with pytest.raises(OSError, match="no file there has the 8 MB"):
        session.run()
    session.close()
    assert found(messages).dataset.files == 0


def scan_of(path: Path) -> Scanned:
    """Scan a folder to its end, and close the folder's descriptor in the result."""
    scanned = scan(str(path), 5.0, Clock(), lambda *_: None)
    os.close(scanned.top.folder)
    return scanned


def test_a_link_to_a_file_is_followed_and_each_target_is_counted_once(tmp_path: Path) -> None:
    """The Hugging Face hub stores its files in this way."""
    rev, blobs = tmp_path / "hub/snapshots/rev", tmp_path / "hub/blobs"
    for folder in (rev, blobs):
        folder.mkdir(parents=True)
    (blobs / "hash1").write_bytes(os.urandom(9000))
    (blobs / "hash2").write_bytes(png(8))
    (rev / "train.bin").symlink_to("../../blobs/hash1")
    (rev / "again.bin").symlink_to(blobs / "hash1")
    (rev / "one.png").symlink_to("../../blobs/hash2")
    (rev / "gone.bin").symlink_to("../../blobs/hash3")
    (rev / "null.bin").symlink_to(os.devnull)
    (rev / "all").symlink_to(blobs)
    dataset = scan_of(rev).dataset
    assert (dataset.files, dataset.size_bytes) == (2, 9000 + len(png(8)))
    assert (dataset.unreadable, dataset.linked_folders, dataset.complete) == (1, 1, False)
    assert {"1 entry of the dataset could not be read", "1 link to folders left out"} <= set(
        dataset_text(Report(Place("/d"), 0, dataset=dataset))
    )
    assert scan_of(tmp_path / "hub").dataset.files == 2
    session, messages = session_here(rev, PHASES, write=False, python=sys.executable)
    session.run()
    session.close()
    assert "Pillow does not load" in found(messages).decoding.why
    assert [one.ops > 0 for one in results(messages)] == [True, True]


@needs_root
def test_root_follows_another_users_link_only_to_files_of_that_user(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    theirs, secret, shared = tmp_path / "theirs", tmp_path / "secret", tmp_path / "shared.bin"
    theirs.mkdir()
    for path in (secret, shared):
        path.write_bytes(b"x" * 5000)
    (theirs / "secret.bin").symlink_to(secret)
    (theirs / "shared.bin").symlink_to(shared)
    os.chown(theirs, UID, UID)
    os.chown(shared, UID, UID)
    scanned = scan_of(theirs)
    assert [path for path, _ in scanned.files] == [str(shared)]
    assert scanned.dataset.unreadable == 1
    theirs.chmod(0o777)
    os.chown(theirs, 0, 0)
    assert scan_of(theirs).files == ()


@needs_root
def test_folders_on_other_filesystems_are_left_out_and_reported(tmp_path: Path) -> None:
    make(tmp_path, 3, 4 * KIB)
    with mounted(tmp_path / "more", "-t", "tmpfs", "none") as more:
        (more / "4.bin").write_bytes(b"x" * 5000)
        dataset = scan_of(tmp_path).dataset
    assert (dataset.files, dataset.elsewhere, dataset.complete) == (3, 1, False)
    assert dataset.fits(1 << 40) is None
    assert "1 folder on other filesystems left out" in dataset_text(Report(Place("/d"), 0, dataset=dataset))


def test_a_scan_ends_in_time(tmp_path: Path) -> None:
    make(tmp_path, 30, 100)
    scanned = scan(str(tmp_path), 0.0, Clock(), lambda *_: None)
    os.close(scanned.top.folder)
    assert not scanned.dataset.complete
    assert scanned.dataset.files == 1


def png(side: int) -> bytes:
    """A PNG image of random pixels."""

    def chunk(name: bytes, raw: bytes) -> bytes:
        return struct.pack(">I", len(raw)) + name + raw + struct.pack(">I", zlib.crc32(name + raw))

    rows = b"".join(b"\0" + os.urandom(3 * side) for _ in range(side))
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


@pytest.fixture(scope="module")
def with_pillow(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of a Python in a new environment that has Pillow."""
    folder = tmp_path_factory.mktemp("pillow")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = str(folder / "bin/python")
    done = subprocess.run([python, "-m", "pip", "install", "-q", "pillow"], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"needs the package index: {done.stderr.strip()[-200:]}")
    return python


@pytest.mark.slow
def test_pictures_are_decoded_in_the_users_own_python(tmp_path: Path, with_pillow: str) -> None:
    for number in range(20):
        (tmp_path / f"{number}.png").write_bytes(png(200))
    (tmp_path / "broken.png").write_bytes(b"not a picture")
    decoding = found(messages_of(tmp_path, python=with_pillow)).decoding
    assert decoding.decoder.startswith("Pillow ")
    assert (decoding.files, decoding.failed) == (20, 1)
    assert decoding.file_s is not None
    assert 0.0001 < decoding.file_s < 1.0


@pytest.mark.slow
def test_no_picture_starts_the_program_ghostscript(
    tmp_path: Path, with_pillow: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pillow passes PostScript, which a file of any name may contain, to the program gs."""
    ran, gs = tmp_path / "ran", tmp_path / "bin" / "gs"
    gs.parent.mkdir()
    gs.write_text(f"#!/bin/sh\ntouch {ran}\n")
    gs.chmod(0o755)
    monkeypatch.setenv("PATH", f"{gs.parent}:{os.environ['PATH']}")
    script = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n%%EOF\n"
    found = decode(with_pillow, [script, png(8)], Clock(), lambda: True)
    assert (found.files, found.failed) == (1, 1)
    assert not ran.exists()


def test_a_picture_of_another_format_is_not_loaded(tmp_path: Path) -> None:
    """A module replaces Pillow, and its pictures note that they are loaded."""
    pillow, loaded = tmp_path / "PIL", tmp_path / "loaded"
    pillow.mkdir()
    (pillow / "__init__.py").write_text("__version__ = '1'\n")
    (pillow / "Image.py").write_text(
        "from pathlib import Path\n"
        "class Picture:\n"
        "    def __init__(self, file): self.format = file.read().decode()\n"
        "    def convert(self, mode): return self\n"
        f"    def load(self): Path({str(loaded)!r}).open('a').write(self.format + ' ')\n"
        "open = Picture\n"
    )
    python = stand_in(tmp_path, f'PYTHONPATH={tmp_path} exec {sys.executable} "$@"')
    found = decode(python, [b"PNG", b"EPS", b"FITS", b"JPEG"], Clock(), lambda: True)
    assert (found.decoder, found.files, found.failed) == ("Pillow 1", 2, 2)
    assert loaded.read_text().split() == ["PNG", "JPEG"]


def decoded(python: str) -> Decoding:
    return decode(python, [png(8)], Clock(), lambda: True)


def test_a_python_without_pillow_is_reported() -> None:
    found = decoded(sys.executable)
    assert found.file_s is None
    assert "Pillow does not load in this Python" in found.why


@pytest.mark.parametrize("end", ["\\n", ""])
def test_a_python_that_prints_when_it_starts_is_read(tmp_path: Path, end: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(f"print('{{}}', 'hello', sep='\\n', end='{end}')\n")
    python = stand_in(tmp_path, f'PYTHONPATH={tmp_path} exec {sys.executable} "$@"')
    assert "Pillow does not load in this Python" in decoded(python).why


@pytest.mark.parametrize("python", ["", "/bin/false", "/nonexistent/python"])
def test_a_python_that_does_not_run_is_reported(python: str) -> None:
    assert decoded(python) == Decoding(
        why=f"{python} does not run" if python else "no Python is found; give the path of yours with --python"
    )


def stand_in(folder: Path, script: str) -> str:
    """Write a program that replaces the user's Python."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_a_decoder_that_crashes_names_the_signal(tmp_path: Path) -> None:
    assert decoded(stand_in(tmp_path, "kill -KILL $$")) == Decoding(why="decoding was ended by SIGKILL")


def test_nested_brackets_in_place_of_an_answer_are_reported(tmp_path: Path) -> None:
    python = stand_in(tmp_path, "head -c 200000 /dev/zero | tr '\\0' '['")
    assert decoded(python) == Decoding(why=f"{python} does not run")
    assert "does not run" in read_python(python, str(tmp_path), Clock()).error


def test_a_slow_decoder_is_waited_for_while_progress_is_shown(tmp_path: Path) -> None:
    data, began, go, got = (tmp_path / name for name in ("data", "began", "go", "got"))
    data.mkdir()
    (data / "1.png").write_bytes(png(300))  # this is more than a pipe can buffer
    answer = '{"decoder": "Pillow", "files": 1, "failed": 0, "cpu_s": 1.0, "why": ""}'
    script = f"touch {began}; until [ -e {go} ]; do sleep 0.05; done; wc -c > {got}; echo '{answer}'"
    session, messages = session_here(data, PHASES, write=False, python=stand_in(tmp_path, script))

    def progress(*step: object) -> None:
        if began.exists():
            go.touch()

    session._emit = session._emit._replace(progress=progress)
    session.run()
    session.close()
    assert found(messages).decoding == Decoding("Pillow", 1, 0, 1.0)
    assert int(got.read_text()) == 4 + (data / "1.png").stat().st_size > 1 << 16
    assert [one.name for one in results(messages)] == [DATASET, DATASET]


def test_pictures_are_decoded_without_memfd_create(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Python built for a glibc before 2.27 has no memfd_create."""
    monkeypatch.delattr(os, "memfd_create")
    got = tmp_path / "got"
    answer = '{"decoder": "Pillow", "files": 1, "failed": 0, "cpu_s": 1.0, "why": ""}'
    found = decode(stand_in(tmp_path, f"cat > {got}; echo '{answer}'"), [b"picture"], Clock(), lambda: True)
    assert found == Decoding("Pillow", 1, 0, 1.0)
    assert got.read_bytes() == b"\0\0\0\7picture"


def test_a_decoder_that_does_not_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder, "_TIMEOUT_S", 0.3)
    file = tmp_path / "pid"
    found = decoded(stand_in(tmp_path, f"echo $$ > {file}; exec sleep 60"))
    assert found == Decoding(why="decoding took more than 0.3 s")
    assert decode(stand_in(tmp_path, "exec sleep 60"), [png(8)], Clock(), lambda: False) == Decoding(why="stopped")
    assert not file.exists() or not Path(f"/proc/{file.read_text().strip()}").exists()
