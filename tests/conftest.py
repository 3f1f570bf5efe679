"""Options of the whole suite."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest


def pytest_configure(config: pytest.Config) -> None:
    # What a test makes the program remember is not the developer's.
    folder = tempfile.TemporaryDirectory(prefix="iotop-ai-state-")
    os.environ["XDG_STATE_HOME"] = folder.name
    os.environ["XDG_CONFIG_HOME"] = os.path.join(folder.name, "config")
    config.add_cleanup(folder.cleanup)
    # Where the suite runs in the background, programs would inherit that Ctrl-C does nothing.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="also run the tests marked slow")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--slow"):
        return
    skip = pytest.mark.skip(reason="slow: run with --slow")
    for item in items:
        if "slow" in item.keywords:
            item.add_marker(skip)


@pytest.fixture
def disk_folder(tmp_path: Path) -> Path:
    """A folder whose pages can leave memory."""
    found = subprocess.run(["stat", "-f", "-c", "%T", str(tmp_path)], capture_output=True, text=True, check=True)
    if found.stdout.strip() in ("tmpfs", "ramfs"):
        pytest.skip(f"{tmp_path} lies in memory")
    return tmp_path
