"""For a file of any content: one clear line without that content, exit code 2, bounded memory, and a quick end."""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import resource
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iotop_ai.cli.main import main
from iotop_ai.diagnosis.rules_version import stamp
from iotop_ai.model.errors import InputError
from iotop_ai.pipeline import frames
from iotop_ai.playback.selection import RecordedFrames, corrupt_input_as_error
from iotop_ai.store.format.codec import FORMAT, Decoder, Encoder, Header, header_line
from iotop_ai.store.format.json_chunks import to_line
from iotop_ai.store.read.blocks import split_lines
from iotop_ai.store.read.gzip_members import pack
from iotop_ai.store.write.compress import compress
from tests.cli.program import PLAIN, TOP, command
from tests.store.scenario import session

SECRET = "s3cretpassw0rd"
MEMORY = 700 << 20
QUICK_S = 20


def recording(length: int = 6, seed: int = 3) -> bytes:
    """A short file with keyframes, changes, verdicts and events. Its header lacks the description of the fields."""
    encoder = Encoder(keyframe_every=3)
    played = list(frames(session(seed, length)))
    first = played[0].snapshot
    head = json.loads(
        header_line(
            Header(FORMAT, "1", "h", first.host.boot_id, first.wall_ns, first.at_ns, 1.0, "names", stamp(), False)
        )
    )
    del head["fields"]
    lines = [to_line(head), *(line for frame in played for line in encoder.lines(frame))]
    return "\n".join([*lines, to_line({"k": "end", "m": played[-1].snapshot.at_ns}), ""]).encode()


def error_line(path: Path) -> str:
    """The error line that reading the whole file gives; "" if it can be read."""
    try:
        with corrupt_input_as_error(str(path)):
            for _ in RecordedFrames(str(path), allow_root=True):
                continue
    except InputError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("step", [pytest.param(1, marks=pytest.mark.slow), 7])
def test_a_file_that_is_cut_at_any_byte_is_read_or_refused(tmp_path: Path, step: int) -> None:
    whole = recording(2)
    path = tmp_path / "cut.iotop.jsonl"
    messages = set()
    for length in range(0, len(whole), step):
        path.write_bytes(whole[:length])
        line = error_line(path).replace(str(path), "FILE")
        assert line.isprintable()
        messages.add(line)
    assert "" in messages, "no file that is cut after a keyframe was read"
    assert messages - {""} == {"FILE: no complete keyframe in it"}, "the beginning of a recording has another error"


QUICK_OR_SLOW = [pytest.param(100, id="quick"), pytest.param(400, marks=pytest.mark.slow, id="slow")]
"""How many damaged files are tried."""


@pytest.mark.parametrize("tries", QUICK_OR_SLOW)
@pytest.mark.parametrize("packed", [False, True])
def test_flipped_bits_are_read_or_refused(tmp_path: Path, packed: bool, tries: int) -> None:
    path = tmp_path / "a.iotop.jsonl"
    path.write_bytes(recording())
    if packed:
        path = Path(compress(str(path)))
    whole = path.read_bytes()
    rng = random.Random(20261121)
    failed = 0
    for _ in range(tries):
        damaged = bytearray(whole)
        for _ in range(rng.choice([1, 1, 1, 8])):
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        line = error_line(path)
        assert line.isprintable()
        assert "cannot be evaluated" not in line, line
        failed += bool(line)
    assert failed > tries // 4


@pytest.mark.parametrize("tries", QUICK_OR_SLOW)
def test_flipped_digits_are_read_or_refused(tmp_path: Path, tries: int) -> None:
    """Such damage leaves the JSON valid, so that the values themselves have to be checked."""
    whole = recording()
    path = tmp_path / "a.iotop.jsonl"
    rng = random.Random(7)
    for _ in range(tries):
        damaged = bytearray(whole)
        for _ in range(3):
            at = rng.choice([found.start() for found in re.finditer(rb"\d", damaged)])
            new = rng.choice([b"-1", b"0", b"99999999999999999999", b"1e999", b"null", b"true", b'"x"', b"0.5", b"[]"])
            damaged[at : at + 1] = new if rng.random() < 0.5 else rng.choice([b"0", b"1", b"9"])
        path.write_bytes(damaged)
        line = error_line(path)
        assert line.isprintable()
        assert "cannot be evaluated" not in line, line


def limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def export(path: str, stdin: int = subprocess.DEVNULL) -> subprocess.CompletedProcess[str]:
    """Run the real program with bounded memory and time."""
    return subprocess.run(
        command("export", "--allow-root", path),
        cwd=TOP, env=PLAIN, stdin=stdin, capture_output=True, text=True, timeout=QUICK_S, check=False,
        preexec_fn=limit_memory,
    )  # fmt: skip


def refused(path: Path | str, message: str, stdin: int = subprocess.DEVNULL) -> None:
    done = export(str(path), stdin)
    assert done.returncode == 2, done
    assert message in done.stderr
    assert done.stderr.startswith(("input: ", "unknown: "))
    assert done.stderr.count("\n") == 1
    assert SECRET not in done.stderr
    assert done.stdout == ""


HEAD = recording(1).split(b"\n", 1)[0] + b"\n"


def file_with(folder: Path, data: bytes) -> Path:
    path = folder / "file"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "no complete keyframe in it"),
        (b"%PDF-1.7\n" + SECRET.encode() + b"\n%%EOF\n", "not a recording"),
        (b"root:" + SECRET.encode() + b":0:0::/root:/bin/sh\n", "not a recording"),
        (gzip.compress(SECRET.encode() * 100), "without this program's index"),
        (b"\x1f\x8b" + SECRET.encode(), "cut off before"),
        (HEAD, "no complete keyframe"),
        (HEAD.replace(b'"fmt":1', b'"fmt":999') + recording(1).split(b"\n", 1)[1], "newer iotop-ai"),
        (HEAD + b'{"k":"snap","m":1,"t":1,"key":true,"v":' + b"[" * 200_000 + b"\n", "line 2: nested too deeply"),
        (HEAD + b'{"k":"snap","m":1,"t":1,"key":true,"v":NaN}\n', "line 2: NaN"),
        (HEAD + b'{"k":"snap","m":1,"t":1,"key":true,"v":{"seq":-Infinity}}\n', "line 2: -Infinity"),
        (HEAD + b'{"k":"snap","m":1,"t":1,"key":true,"v":{"seq":1e999}}\n', "line 2: "),
        (HEAD + b'{"k":"snap","m":1,"t":1,"key":true,"v":"' + SECRET.encode() + b'"}\n', "line 2: "),
        (HEAD + b'{"k":"snap","m":1,"t":1,"key":true,' + SECRET.encode() + b"}\n", "line 2: not a line"),
    ],
    ids=[
        *("empty", "pdf", "passwd", "foreign gzip", "torn gzip", "head", "newer", "deep", "nan", "inf", "1e999"),
        *("shape", "json"),
    ],
)  # fmt: skip
def test_foreign_and_broken_files_are_refused(
    tmp_path: Path, data: bytes, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", "--allow-root", str(file_with(tmp_path, data))]) == 2
    out, err = capsys.readouterr()
    assert message in err
    assert err.startswith("input: ")
    assert err.count("\n") == 1
    assert SECRET not in err
    assert out == ""


@pytest.mark.parametrize("head", [b"", HEAD, recording(2)[:-1]], ids=["alone", "behind the header", "at the end"])
def test_a_line_of_10_gb_is_refused(tmp_path: Path, head: bytes) -> None:
    path = file_with(tmp_path, head)
    os.truncate(path, 10 << 30)
    refused(path, "not a recording" if not head else "line longer than 16 MiB")


def test_a_line_of_10_gb_in_the_middle_is_refused(tmp_path: Path) -> None:
    whole = recording(2)
    path = file_with(tmp_path, whole)
    with open(path, "r+b") as file:
        file.seek(10 << 30)
        file.write(b"\n" + whole.split(b"\n", 1)[1])
    refused(path, "line longer than 16 MiB")


def test_a_line_may_have_16_mib(tmp_path: Path) -> None:
    unknown = b'{"k":"later","x":"' + b"x" * ((16 << 20) - 20) + b'"}\n'
    path = file_with(tmp_path, HEAD + unknown + recording(2).split(b"\n", 1)[1])
    assert len(unknown) == (16 << 20) + 1
    assert error_line(path) == ""
    path.write_bytes(HEAD + b" " + unknown + recording(2).split(b"\n", 1)[1])
    assert "longer than 16 MiB" in error_line(path)


def test_a_gzip_bomb_is_refused(tmp_path: Path) -> None:
    line = b'{"k":"later","x":"' + b"x" * (8 << 20) + b'"}\n'
    bomb = HEAD + line * 10
    refused(file_with(tmp_path, pack(bomb, 1, 1, 1, level=1)), "unpacks to more than 64 MiB")
    refused(file_with(tmp_path, pack(HEAD + b"x" * (20 << 20), 1, 1, 1, level=1)), "line longer than 16 MiB")


def test_a_path_that_is_not_a_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "fifo")
    refused(tmp_path / "fifo", "not a regular file")
    for path, message in (
        (tmp_path, "not a regular file"),
        (tmp_path / "absent", "No such file"),
        ("/dev/zero", "not a regular file"),
    ):
        assert main(["export", "--allow-root", str(path)]) == 2
        out, err = capsys.readouterr()
        assert message in err
        assert err.startswith(("input: ", "unknown: "))
        assert (err.count("\n"), out) == (1, "")
    with open("/dev/zero", "rb") as zero:
        refused("-", "line 1: a line longer than 16 MiB", zero.fileno())


def test_damage_in_the_middle_is_reported_in_one_line(tmp_path: Path) -> None:
    lines = recording(6).split(b"\n")
    lines[4] = b'{"k":"snap","m":1,"t":1,"v":{"block":"' + SECRET.encode() + b'"}}'
    done = export(str(file_with(tmp_path, b"\n".join(lines))))
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "line 5: " in done.stderr
    assert SECRET not in done.stderr


TEXT = recording(4)
LINES = [line for line in TEXT.split(b"\n") if line]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


def decode(*lines: bytes) -> None:
    """Decode these lines, which may raise nothing but an InputError."""
    decoder = Decoder()
    for number, line in enumerate(lines, 1):
        try:
            decoder.read(line, number)
        except InputError as error:
            assert str(error).isprintable()  # noqa: PT017 - either end is right


@given(st.lists(st.binary(max_size=200), max_size=4))
def test_any_bytes_can_be_decoded_or_are_refused(lines: list[bytes]) -> None:
    decode(*LINES[:2], *lines)


@given(st.sampled_from(["hdr", "snap", "ev", "verdict", "end", "x"]), st.dictionaries(st.text(max_size=4), JSON), JSON)
def test_any_json_can_be_decoded_or_is_refused(kind: str, rest: dict[str, object], value: object) -> None:
    line = {**rest, "k": kind, "m": 1, "t": 1, "v": value, "key": True}
    decode(*LINES[:2], json.dumps(line).encode())
    decode(*LINES[:2], json.dumps({**line, "key": False}).encode())


def replaced(raw: object, steps: list[int], value: object) -> object:
    """The JSON with this value at the place to which the steps lead."""
    if not steps or not isinstance(raw, list | dict) or not raw:
        return value
    if isinstance(raw, list):
        at = steps[0] % len(raw)
        return [replaced(part, steps[1:], value) if i == at else part for i, part in enumerate(raw)]
    at = list(raw)[steps[0] % len(raw)]
    return {key: replaced(part, steps[1:], value) if key == at else part for key, part in raw.items()}


@settings(max_examples=2 * settings.default.max_examples, deadline=None)
@given(st.integers(0, len(LINES) - 1), st.lists(st.integers(0, 30), max_size=7), JSON)
def test_lines_with_one_part_replaced_are_decoded_or_refused(
    tmp_path_factory: pytest.TempPathFactory, which: int, steps: list[int], value: object
) -> None:
    lines = list(LINES)
    lines[which] = json.dumps(replaced(json.loads(lines[which]), steps, value)).encode()
    decode(*lines)
    path = tmp_path_factory.mktemp("r") / "a.iotop.jsonl"
    path.write_bytes(b"\n".join(lines) + b"\n")
    assert error_line(path).isprintable()


@given(st.lists(st.binary(max_size=30), max_size=8))
def test_lines_are_the_same_wherever_the_chunks_of_a_file_end(parts: list[bytes]) -> None:
    whole = b"".join(parts)
    wanted = whole.split(b"\n")
    if not wanted[-1]:
        wanted.pop()
    assert list(split_lines(parts)) == wanted
    assert list(split_lines(parts, torn=False)) == whole.split(b"\n")[:-1]


@pytest.mark.parametrize("line", [b"", b'{"k":"later"}'])
def test_a_block_has_a_limit_of_lines_of_any_kind(tmp_path: Path, line: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    most = 1000
    monkeypatch.setattr("iotop_ai.store.read.blocks.MOST_BLOCK_LINES", most)
    path = tmp_path / "a.iotop.jsonl"
    whole = recording(1)
    filler = (line + b"\n") * (most - whole.count(b"\n"))
    path.write_bytes(whole + filler)
    assert error_line(path) == ""
    path.write_bytes(whole + filler + line + b"\n")
    assert f"more than {most} lines" in error_line(path)
