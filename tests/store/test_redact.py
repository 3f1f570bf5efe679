"""What of a command line leaves the machine."""

from __future__ import annotations

import pytest

from iotop_ai.store.redact import HIDDEN, command_names, command_redacted


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
