"""A recording of an impossibly large machine is refused quickly, in one line, and with bounded memory."""

from __future__ import annotations

import copy
import json
import os
import random
import resource
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from iotop_ai.cli.main import main
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.diagnosis.rules_version import stamp
from iotop_ai.model.block.counters import BlockRates
from iotop_ai.model.errors import InputError
from iotop_ai.model.machine.filesystem import FilesystemUsage
from iotop_ai.model.machine.rdma import RdmaCounters
from iotop_ai.model.reading import Reading, Status
from iotop_ai.pipeline import frames
from iotop_ai.store.format import size_limits as limits
from iotop_ai.store.format.codec import FORMAT, Decoder, Encoder, Header, TotalsLine, header_line
from iotop_ai.store.format.rated_cells import rated_cells
from iotop_ai.store.format.scalars import ShapeError
from iotop_ai.store.format.size_limits import MOST_ENTRIES, MOST_ENTRIES_OF, MOST_WAITING, ReaderBudget, check_values
from iotop_ai.store.read.file import FileRecording
from iotop_ai.store.read.gzip_members import members, pack, unpack
from iotop_ai.store.write.recorder import Recorder
from iotop_ai.store.write.sink import FileSink
from tests.bench.server import Server
from tests.cli.program import PLAIN, TOP, command
from tests.diagnosis.build import Machine, play

GOLDEN = Path(__file__).parents[2] / "data" / "recordings" / "format-1.iotop.jsonl.gz"
MEMORY, QUICK_S = 700 << 20, 60
SECOND = 1_000_000_000


def golden() -> list[bytes]:
    """The lines of the recording in tests/data/recordings."""
    fd = os.open(GOLDEN, os.O_RDONLY)
    try:
        return b"".join(unpack(fd, member) for member in members(fd)).split(b"\n")[:-1]
    finally:
        os.close(fd)


def small() -> list[bytes]:
    """The lines of a small recording: a header, a keyframe and a change."""
    server = Server("two", processes=3, gpus=1, disks=1, cores=1)
    encoder, out = Encoder(), []
    for frame in frames(server.snapshot() for _ in range(2)):
        one = frame.snapshot
        if not out:
            head = Header(FORMAT, "1", "h", one.host.boot_id, one.wall_ns, one.at_ns, 1.0, "names", stamp(), False)
            out.append(header_line(head))
        out += [line for line in encoder.lines(frame) if line.startswith('{"k":"snap"')]
    return [line.encode() for line in out]


HEAD, KEY, CHANGE = small()


def edited(change: Callable[[dict[str, Any]], None], line: bytes = KEY) -> bytes:
    raw = json.loads(line)
    change(raw)
    return json.dumps(raw, separators=(",", ":")).encode()


def refusal(*lines: bytes) -> str:
    """The reason why these lines are refused; "" if they are not."""
    decoder = Decoder()
    try:
        for number, line in enumerate(lines, 1):
            decoder.read(line, number)
    except InputError as error:
        return str(error)
    return ""


def processes(raw: dict[str, Any], count: int) -> None:
    """Replace the processes of a keyframe by ``count`` others, and leave out what depends on the processes."""
    table = raw["v"]["processes"]["value"]
    for name, one in (("stat", ["S", 1, 0, 0, 0, 0, 0, 1, 1, 0]), ("info", ["x", [], "u", 1])):
        table[name] = {f"{pid}/1": one for pid in range(1, count + 1)}
    table |= {name: {} for name in ("io", "threads", "wchan", "stat_out", "io_stale", "exits") if name in table}
    table.pop("gone", None)
    table["denied"] = []
    raw.pop("last", None)
    raw.pop("carry", None)


def many(name: str, count: int) -> Callable[[dict[str, Any]], None]:
    """A change that fills the table of this Reading with ``count`` copies of its first entry."""

    def change(raw: dict[str, Any]) -> None:
        value = raw["v"][name]["value"]
        one = next(iter(value.items()))
        raw["v"][name]["value"] = {(f"x{i}/1" if "/" in one[0] else f"x{i}"): one[1] for i in range(count)}

    return change


@pytest.mark.parametrize(
    ("name", "record"),
    [("block", "BlockCounters"), ("disks", "BlockInfo"), ("gpu", "GpuState"), ("smart", "SmartState")],
)
def test_a_table_may_have_as_many_entries_as_its_limit(name: str, record: str) -> None:
    most = MOST_ENTRIES_OF[record]
    assert refusal(HEAD, edited(many(name, most))) == ""
    assert refusal(HEAD, edited(many(name, most + 1))) == f"line 2: more than {most} entries in one table"


def test_65_537_processes_are_refused_and_65_536_are_not() -> None:
    assert refusal(HEAD, edited(lambda raw: processes(raw, 65_537))).startswith("line 2: more than 65536 entries")
    assert refusal(HEAD, edited(lambda raw: processes(raw, MOST_ENTRIES))) == ""


def test_changes_cannot_add_up_beyond_a_limit() -> None:
    def change(begin: int) -> Callable[[dict[str, Any]], None]:
        def more(raw: dict[str, Any]) -> None:
            raw["v"] = {"block": {"value": {"+": {f"y{i}/1": [0] * 11 for i in range(begin, begin + 1500)}}}}
            raw["m"] += begin * SECOND

        return more

    lines = [edited(change(i * 1500), CHANGE) for i in range(3)]
    assert refusal(HEAD, KEY, *lines) == "line 5: more than 4096 entries in one table"


def test_the_numbers_of_findings_and_jobs_are_limited() -> None:
    verdict = json.loads(next(line for line in golden() if line.startswith(b'{"k":"verdict"')))
    finding, most = verdict["v"][0][0], MOST_ENTRIES_OF["Finding"]
    verdict["v"][0] = [finding] * most
    assert refusal(HEAD, KEY, json.dumps(verdict).encode()) == ""
    verdict["v"][0] = [finding] * (most + 1)
    assert "entries in one table" in refusal(HEAD, KEY, json.dumps(verdict).encode())
    assert MOST_ENTRIES_OF["Job"] == 1024


def test_each_filesystem_of_a_recording_may_have_a_finding() -> None:
    most = MOST_ENTRIES_OF["FilesystemUsage"]
    assert {MOST_ENTRIES_OF[name] for name in ("Finding", "ActiveFinding", "FindingTotal")} == {most}


def test_a_recording_with_300_full_homes_is_read_again(tmp_path: Path) -> None:
    """A server that is full has a finding for the home of each user."""
    full = FilesystemUsage(10**13, 10**6, 10**6, 10**8, 10**8)
    live = play((Machine(usage={f"/home/u{i}": full for i in range(300)}), 20))
    assert len(live[-1].verdict.findings) == 300
    path = tmp_path / "run.iotop.jsonl"
    recorder = Recorder(FileSink(str(path)), Clock(), min_free_bytes=0, keyframe_every=7)
    for frame in live:
        recorder.put(frame)
    assert recorder.close()
    lines = list(FileRecording(str(path)).lines())
    assert [len(line.tally.finding_totals) for line in lines if isinstance(line, TotalsLine)][-1] == 300
    shown = list(frames(FileRecording(str(path)).items()))[-1].verdict
    assert {f.subject for f in shown.findings if f.class_id == "fs_full"} == {f"/home/u{i}" for i in range(300)}


def test_every_limit_names_a_record_that_occurs_in_a_recording() -> None:
    found = set()

    def walk(shape: Any) -> None:
        kind = getattr(shape, "kind", None)
        if kind is not None:
            found.add(kind.__name__)
        fields = getattr(shape, "fields", ())
        inner = [*(fields.values() if isinstance(fields, dict) else fields), *getattr(shape, "kinds", ())]
        inner += [getattr(shape, name) for name in ("inner", "item") if hasattr(shape, name)]
        for part in inner:
            if not isinstance(part, type):
                walk(part)

    from iotop_ai.store.format import codec

    for name in ("_SNAPSHOT", "_SAMPLE", "_CARRY", "_VERDICT", "_TALLY"):
        walk(getattr(codec, name))
    assert set(MOST_ENTRIES_OF) <= found, set(MOST_ENTRIES_OF) - found


def test_a_line_of_empty_lists_is_not_parsed() -> None:
    with pytest.raises(ShapeError, match="values in one line"):
        check_values(b'{"k":"later","x":[' + b"[]," * 3_000_000 + b"1]}")
    with pytest.raises(ShapeError, match="values in one line"):
        check_values(b'{"k":"later","x":[' + b'{"a":1},' * 1_000_000 + b"1]}")


def test_events_without_a_snapshot_are_counted() -> None:
    event = b'{"k":"ev","m":1,"t":1,"kind":"mark","text":"x"}'
    assert refusal(HEAD, KEY, *[event] * MOST_WAITING) == ""
    assert f"more than {MOST_WAITING} events" in refusal(HEAD, KEY, *[event] * (MOST_WAITING + 1))


def budget_refusal(lines: Iterable[tuple[int, int, int]]) -> str:
    """Why a reader refuses to keep more; "" if it does not. lines: the time, bytes and processes of each Snapshot."""
    budget = ReaderBudget()
    try:
        for at_ns, length, rows in lines:
            budget.count_snapshot(at_ns, length, rows)
    except ShapeError as error:
        return str(error)
    return ""


def test_memory_that_a_reader_keeps_is_counted_over_all_lines() -> None:
    budget = ReaderBudget()
    for _ in range(4):
        budget.count_line(16 << 20, key=False)
    with pytest.raises(ShapeError, match="64 MiB from one keyframe"):
        budget.count_line(1, key=False)
    # Samples older than a minute do not count. A time that does not advance belongs to another session.
    assert budget_refusal((second * SECOND, 2 << 20, 40_000) for second in range(400)) == ""
    assert budget_refusal((number % 2, 100, 1) for number in range(10_000)) == ""
    assert budget_refusal((number * SECOND // 200, 1000, 0) for number in range(30_000)) == "", "nvidia-smi -lms 5"
    assert budget_refusal((second * SECOND, 16 << 20, 10) for second in range(30)) == "more than 192 MiB in 60 s"
    assert budget_refusal((at_ns, 100, 60_000) for at_ns in range(200)) == "more than 8000000 rows of processes in 60 s"
    assert budget_refusal((at_ns, 100, 1) for at_ns in range(13_000)) == "more than 12000 Snapshots in 60 s"


def renewed(count: int, interval_ns: int, ports: int) -> list[bytes]:
    """A keyframe with ``ports`` RDMA ports, and short lines that only renew the time of their reading."""
    first = Server("two", processes=0, gpus=0, disks=0, cores=1).snapshot()
    table = {f"mlx5_{i}/1": RdmaCounters(5) for i in range(ports)}
    frame = next(frames([first]))
    encoder, out = Encoder(count), list[bytes]()
    for number in range(count):
        at_ns = first.at_ns + number * interval_ns
        one = first._replace(seq=number + 1, at_ns=at_ns, events=(), rdma=Reading(table, Status.OK, at_ns=at_ns))
        lines = encoder.lines(frame._replace(snapshot=one))
        out += [line.encode() for line in lines if line.startswith('{"k":"snap"')]
    return out


def test_short_lines_that_renew_a_large_table_are_counted() -> None:
    """For each such line, the history gets a separate table of rates."""
    ports = MOST_ENTRIES_OF["RdmaCounters"]
    lines = renewed(400, 50_000_000, ports)
    assert max(map(len, lines[1:])) < 400
    assert refusal(*lines).endswith(f"more than {limits.MOST_CELLS} figures of rates in 60 s")
    assert refusal(*renewed(400, SECOND, ports)) == ""
    assert refusal(*renewed(400, 50_000_000, 16)) == ""
    assert refusal(*renewed(2, SECOND, ports + 1)) == f"line 1: more than {ports} entries in one table"


def test_a_table_that_was_not_read_again_adds_no_rates() -> None:
    server = Server("two", processes=3, gpus=2, disks=4, cores=2)
    first, second = server.snapshot(), server.snapshot()
    assert rated_cells(first, None) > 4 * len(BlockRates._fields)
    assert rated_cells(second, first) > 0
    assert rated_cells(first._replace(at_ns=first.at_ns + 1), first) == 0


def test_too_many_keyframes_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("iotop_ai.store.format.size_limits.MOST_BLOCKS", 5)
    file = tmp_path / "a"
    file.write_bytes(HEAD + b"\n" + (KEY + b"\n") * 6)
    assert main(["export", "--allow-root", str(file)]) == 2
    assert "more than 5 keyframes in one file" in capsys.readouterr().err
    file.write_bytes(b"".join(pack(HEAD + b"\n" + KEY + b"\n", i, 1, 1) for i in range(6)))
    assert main(["export", "--allow-root", str(file)]) == 2
    assert "more than 5 keyframes in one file" in capsys.readouterr().err


def limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def run(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        command(*arguments), cwd=TOP, env=PLAIN, input=stdin, capture_output=True, timeout=QUICK_S, check=False,
        preexec_fn=limit_memory,
    )  # fmt: skip


def test_a_compressed_file_with_100_000_processes_per_line_is_refused_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = edited(lambda raw: processes(raw, 100_000))
    at_ns = json.loads(KEY)["m"]
    was = b'"m":%d,' % at_ns
    assert line.count(was) == 1
    lines = [line.replace(was, b'"m":%d,' % (at_ns + i * SECOND)) for i in range(3)]
    file = tmp_path / "a.iotop.jsonl.gz"
    parts = [b"\n".join([*([HEAD] if i == 0 else []), line, b""]) for i, line in enumerate(lines)]
    file.write_bytes(b"".join(pack(part, i + 1, 1, int(i == 0)) for i, part in enumerate(parts)))
    for done in (
        run("export", "--allow-root", str(file)),
        run("diagnose", "--allow-root", "-", "--json", stdin=b"".join(parts)),
    ):
        assert done.returncode == 2, done
        refused_in_one_line(done.stderr.decode())
    assert main(["diagnose", "--allow-root", str(file)]) == 2
    refused_in_one_line(capsys.readouterr().err)


def refused_in_one_line(error: str) -> None:
    assert error.startswith("input: ")
    assert "more than 65536 entries in one table" in error
    assert error.count("\n") == 1


def mutated(rng: random.Random, lines: list[bytes]) -> list[bytes]:
    """The lines with random damage: a line is duplicated, dropped or swapped, or a value in the JSON is changed."""
    lines = list(lines)
    for _ in range(rng.choice([1, 1, 2, 5])):
        at = rng.randrange(len(lines))
        how = rng.randrange(5)
        if how == 0:
            lines.insert(at, lines[rng.randrange(len(lines))])
        elif how == 1 and len(lines) > 2:
            del lines[at]
        elif how == 2:
            to = rng.randrange(len(lines))
            lines[at], lines[to] = lines[to], lines[at]
        else:
            raw = json.loads(lines[at])
            spoil(rng, raw)
            lines[at] = json.dumps(raw, separators=(",", ":")).encode()
    return lines


ODD = (
    None, True, 0, -1, 1, 2**63 - 1, -(2**63), 2**64, 1e308, 5e-324, 0.5, "", "x", "1/1", "\x1b[2J", "é" * 600, [], {},
    [[]], {"=": {}}, {"+": {}}, {"-": ["1/1"]}, [0] * 50, {"value": None},
)  # fmt: skip


def spoil(rng: random.Random, raw: Any) -> None:
    """Replace, copy or drop one random part of a JSON value."""
    while True:
        keys = list(raw) if isinstance(raw, dict) else list(range(len(raw))) if isinstance(raw, list) else []
        if not keys:
            return
        key = rng.choice(keys)
        inner = raw[key]
        if not isinstance(inner, dict | list) or not inner or rng.random() < 0.12:
            how = rng.random()
            if how < 0.6:
                raw[key] = copy.deepcopy(rng.choice(ODD))
            elif how < 0.8:
                del raw[key]
            else:
                raw[key] = copy.deepcopy(raw[rng.choice(keys)])
            return
        raw = inner


def fuzz(folder: Path, seed: int, seconds: float, most: int, capsys: pytest.CaptureFixture[str]) -> tuple[int, int]:
    """Run commands on mutated recordings; return how many were tried and refused. Checks every exit code."""
    rng, until = random.Random(seed), time.monotonic() + seconds
    lines = golden()
    whole = [*lines[:12], *lines[60:]]  # the beginning, and the end with another keyframe
    tried = refused = 0
    file = folder / "fuzz.iotop.jsonl"
    while tried < most and time.monotonic() < until:
        file.write_bytes(b"\n".join(mutated(rng, whole)) + b"\n")
        arguments = rng.choice([["export", "--format", "jsonl"], ["diagnose"], ["diagnose", "--json"]])
        began = time.process_time()
        code = main([arguments[0], "--allow-root", *arguments[1:], str(file)])
        assert time.process_time() - began < 30
        out, err = capsys.readouterr()
        assert code in (0, 1, 2), code
        assert "Traceback" not in out + err
        assert "\x1b" not in out + err
        assert err.count("\n") <= 1
        assert err == "" or err.startswith(("input: ", "unknown: ")), err
        tried += 1
        refused += err.startswith("input: ")
    return tried, refused


def test_mutated_recordings_are_read_or_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tried, refused = fuzz(tmp_path, 20261122, 60, int(os.environ.get("IOTOP_AI_FUZZ", "40")), capsys)
    assert tried >= 5
    assert refused >= 1


def test_a_machine_with_40_000_processes_and_2_000_disks_is_accepted() -> None:
    server = Server("two", processes=40_000, gpus=16, disks=2000, cores=128)
    encoder, decoder, budget = Encoder(), Decoder(), ReaderBudget()
    for frame in frames(server.snapshot() for _ in range(2)):
        for line in encoder.lines(frame):
            assert decoder.read(line.encode()) is not None
            assert len(line) < 12 << 20
            assert line.count(",") + line.count("[") + 4 * line.count("{") < limits.MOST_VALUES / 2
            budget.count_line(len(line), '"key":true' in line[:200])
        assert rated_cells(frame.snapshot, None) * 60 < limits.MOST_CELLS
