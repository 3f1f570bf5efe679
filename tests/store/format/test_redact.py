"""The part of a command line that may leave the machine."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotop_ai.model.snapshot import Event, Snapshot
from iotop_ai.store.format.redact import Redactor, command_names
from iotop_ai.store.format.secrets import HIDDEN, command_redacted
from tests.store.scenario import session
from tests.store.secret_samples import WITH_SECRET, WITHOUT_SECRET

GPU = "GPU-6ffbd1c2-91aa-4c1e-b7b2-0123456789ab"


@pytest.mark.parametrize(
    ("cmdline", "names"),
    [
        (("python3.11", "/home/a/train.py", "--token", "abc"), ("python3.11", "train.py")),
        (
            ("/usr/bin/python", "-u", "-m", "torch.distributed.run", "--key=1"),
            ("python", "-m", "torch.distributed.run"),
        ),
        (("python", "-c", "password='x'"), ("python", "-c")),
        (("bash", "-lc", "exec python train.py $0", "hunter2"), ("bash", "-lc")),
        (("python", "-Ic", "main()", "hunter2"), ("python", "-Ic")),
        (("python", "-Icmain()", "hunter2"), ("python", "-Ic")),
        (("python", "-um", "train.main", "hunter2"), ("python", "-m", "train.main")),
        (("python", "-mtrain.main", "hunter2"), ("python", "-m", "train.main")),
        (("python", "-BE", "train", "hunter2"), ("python", "train")),
        (("python", "-O", "train", "hunter2"), ("python", "train")),
        (("python", "-uX", "dev", "-W", "ignore", "train", "hunter2"), ("python", "train")),
        (("python3", "-", "hunter2"), ("python3",)),
        (("bash", "-s", "--", "hunter2"), ("bash",)),
        (("sh", "-xs", "hunter2.sh"), ("sh",)),
        (("python", "-s", "train", "hunter2"), ("python", "train")),
        (("node", "--inspect", "app", "hunter2"), ("node",)),
        (("bash", "--login", "script", "hunter2"), ("bash",)),
        (("torchrun", "--nproc-per-node", "8", "train.py", "hunter2"), ("torchrun", "train.py")),
        (("sh", "-xe", "build.sh"), ("sh", "build.sh")),
        (("perl", "-p", "-E", "s/@PASS@/hunter2/"), ("perl", "-E")),
        (("perl", "-0777ne", "s/@PASS@/hunter2/"), ("perl", "-0777ne")),
        (("perl", "-MList::Util=sum", "-pes/@PASS@/$ARGV[0]/", "hunter2"), ("perl", "-pe")),
        (("perl", "-c", "/home/a/train.pl", "hunter2"), ("perl", "train.pl")),
        (("ruby", "-eputs ARGV", "hunter2"), ("ruby", "-e")),
        (("ruby", "-Eutf-8", "train.rb", "hunter2"), ("ruby", "train.rb")),
        (("node", "--eval=run(process.argv)", "hunter2"), ("node", "--eval")),
        (("node", "--print", "'/hunter2'", "hunter2"), ("node", "--print")),
        (("mysql", "-psecret", "db"), ("mysql",)),
        (("postgres: user db 10.0.0.1 idle",), ("postgres:",)),
        (("bash", "https://u:p@host/x?y"), ("bash",)),
        ((), ()),
    ],
)
def test_the_names_level_keeps_only_the_program_and_its_script(
    cmdline: tuple[str, ...], names: tuple[str, ...]
) -> None:
    assert command_names(cmdline) == names


def test_the_redacted_form_hides_what_looks_like_a_secret() -> None:
    cmdline = (
        "curl",
        "--api-token",
        "abc",
        "--password=x",
        "https://bob:pw@host/path",
        "a" * 20 + "1" * 20,
        "--epochs=3",
    )
    assert command_redacted(cmdline) == (
        "curl", "--api-token", HIDDEN, f"--password={HIDDEN}", f"https://{HIDDEN}@host/path", HIDDEN, "--epochs=3",
    )  # fmt: skip


def test_every_snapshot_is_redacted_but_unchanged_records_stay_the_same_objects() -> None:
    redactor = Redactor("names")
    taken: list[Snapshot] = [s for s in session(6, 60) if s.processes.value is not None]
    before = None
    for snapshot in taken:
        whole, written = snapshot.processes.value, redactor.snapshot(snapshot).processes.value
        assert whole is not None
        assert written is not None
        assert written.info == {k: i._replace(cmdline=command_names(i.cmdline)) for k, i in whole.info.items()}
        if before is not None and before[0].info == whole.info:
            assert written.info is before[1].info
        before = (whole, written)
    assert len({frozenset(s.processes.value.info) for s in taken if s.processes.value is not None}) > 1


def redacted_event(kind: str, text: str, level: str = "names") -> str:
    """The text of the event after redaction."""
    snapshot = next(iter(session(6, 1)))._replace(events=(Event(1, 1, kind, text),))
    return Redactor(level).snapshot(snapshot).events[0].text


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("ack", f"gpu_fault:{GPU} critical xid=79"),
        ("ack", "failing_disk:S3Z8NB0K123456A-WDC-WD40EFRX-68N32N0-WD-WCC7K0AAAAAA warning smart.reallocated=8"),
        ("ack_undone", "failing_disk:50014EE2B1A2C3D4E5F60718293A4B5C"),
        ("xid", f"{GPU}: Xid 79"),
        ("pcie_error", "50014EE2B1A2C3D4E5F60718293A4B5C: PCIe error"),
        ("device_added", "dm-uuid-LVM-0123456789abcdefghijABCDEFGHIJ0123456789"),
    ],
)
def test_a_text_of_the_program_itself_is_not_changed(kind: str, text: str) -> None:
    assert redacted_event(kind, text) == text


@pytest.mark.parametrize(
    "kind",
    ["mark", "action", "alert", "process_ended", "oom_kill", "hung_task", "of_a_newer_version"],
)
def test_an_event_with_text_from_outside_shows_no_secret(kind: str) -> None:
    assert redacted_event(kind, "curl --password=Tr0ub4dor") == f"curl --password={HIDDEN}"


@pytest.mark.parametrize(
    ("level", "text"),
    [
        ("names", "python train.py"),
        ("redacted", f"python /home/a/train.py --data /srv/customer --token {HIDDEN}"),
        ("full", "python /home/a/train.py --data /srv/customer --token Tr0ub4dor"),
    ],
)
def test_the_command_line_of_a_recorded_command_follows_the_level(level: str, text: str) -> None:
    line = "python /home/a/train.py --data /srv/customer --token Tr0ub4dor"
    assert redacted_event("command_start", line, level) == text
    assert redacted_event("command_start", text, level) == text


@pytest.mark.parametrize("uuid", [GPU, GPU.replace("GPU", "MIG"), GPU.replace("GPU", "MIG-GPU") + "/1/0"])
def test_the_uuid_of_a_gpu_is_not_a_secret(uuid: str) -> None:
    cmdline = ("env", f"CUDA_VISIBLE_DEVICES={uuid},{uuid}", "nvidia-smi", "-i", uuid)
    assert command_redacted(cmdline) == cmdline
    assert redacted_event("action", f"sent SIGTERM to train.py on {uuid}") == f"sent SIGTERM to train.py on {uuid}"


@pytest.mark.parametrize(("secret", "cmdline"), WITH_SECRET, ids=[" ".join(s)[:40] for _, s in WITH_SECRET])
def test_a_command_line_shows_no_secret(secret: str, cmdline: tuple[str, ...]) -> None:
    assert secret in " ".join(cmdline)
    for command in (command_redacted, command_names):
        assert secret not in " ".join(command(cmdline)), command(cmdline)
    assert command_redacted(cmdline)[0] == cmdline[0]


@pytest.mark.parametrize("cmdline", WITHOUT_SECRET, ids=[" ".join(s)[:40] for s in WITHOUT_SECRET])
def test_a_command_line_without_a_secret_stays_readable(cmdline: tuple[str, ...]) -> None:
    assert command_redacted(cmdline) == cmdline


@given(st.lists(st.text(max_size=40), max_size=6))
def test_any_command_line_keeps_its_number_of_words(words: list[str]) -> None:
    assert len(command_redacted(tuple(words))) == len(words)


def test_redacting_twice_changes_nothing() -> None:
    for _, one in WITH_SECRET:
        once = command_redacted(one)
        assert command_redacted(once) == once


@pytest.mark.parametrize(
    "text",
    [
        "a=" * 16_000, "a:" * 16_000, "//" * 16_000, "-" * 32_000, "a" * 32_000, "A0a" * 10_000, "//a:" * 8_000,
        "//:" * 10_000, "thin:" * 6_000, "sk-" * 10_000, "-sk-" * 8_000,
    ],
    ids=lambda text: text[:5],
)  # fmt: skip
def test_no_argument_takes_long_to_redact(text: str) -> None:
    began = time.thread_time()
    command_redacted(("x", text, text + "@", text + " "))
    assert time.thread_time() - began < 2.0
