"""What of a command line leaves the machine."""

from __future__ import annotations

import pytest

from iotop_ai.model.snapshot import Snapshot
from iotop_ai.store.redact import HIDDEN, Redactor, command_names, command_redacted
from tests.store.scenario import session


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (("python3.11", "/home/a/train.py", "--token", "abc"), ("python3.11", "train.py")),
        (
            ("/usr/bin/python", "-u", "-m", "torch.distributed.run", "--key=1"),
            ("python", "-m", "torch.distributed.run"),
        ),
        (("python", "-c", "password='x'"), ("python", "-c")),
        (("mysql", "-psecret", "db"), ("mysql",)),
        (("postgres: user db 10.0.0.1 idle",), ("postgres:",)),
        (("bash", "https://u:p@host/x?y"), ("bash",)),
        ((), ()),
    ],
)
def test_names_hold_no_argument(given: tuple[str, ...], names: tuple[str, ...]) -> None:
    assert command_names(given) == names


def test_redacted_hides_what_looks_like_a_secret() -> None:
    given = (
        "curl",
        "--api-token",
        "abc",
        "--password=x",
        "https://bob:pw@host/path",
        "a" * 20 + "1" * 20,
        "--epochs=3",
    )
    assert command_redacted(given) == (
        "curl", "--api-token", HIDDEN, f"--password={HIDDEN}", f"https://{HIDDEN}@host/path", HIDDEN, "--epochs=3",
    )  # fmt: skip


def test_each_snapshot_is_redacted_whatever_came_and_went_and_unchanged_stays_unchanged() -> None:
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
