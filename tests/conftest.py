"""Options and fixtures of the whole test suite."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings


def pytest_configure(config: pytest.Config) -> None:
    gc.disable()  # until pytest has collected the tests, which makes many objects that stay
    # Keep the state that the tested program writes apart from the developer's state.
    folder = tempfile.TemporaryDirectory(prefix="iotop-ai-state-")
    os.environ["XDG_STATE_HOME"] = folder.name
    os.environ["XDG_CONFIG_HOME"] = os.path.join(folder.name, "config")
    config.add_cleanup(folder.cleanup)
    # On a loaded machine one example of a property may take seconds.
    settings.register_profile("loaded", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.register_profile("quick", settings.get_profile("loaded"), max_examples=40)
    settings.load_profile("loaded" if config.getoption("--slow") else "quick")
    # A background suite ignores SIGINT, and one under nohup ignores SIGHUP. The tested programs would inherit that.
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="also run the tests marked slow")


ALONE = "mark.alone"
"""The text that a file contains if some of its tests must run alone."""
WAITING = ("tests/cli/commands/monitor/test_remote.py", "tests/cli/commands/record/", "tests/tui/terminal/")
"""The paths of tests that mostly wait for a program."""


PURE = ("tests/diagnosis/facts/", "tests/diagnosis/verdict/", "tests/diagnosis/rules/", "tests/lazy/", "tests/model/")
PURE += ("tests/present/", "tests/store/format/", "tests/test_verdict_words.py", "tests/test_verdicts.py")
"""The paths of tests that only compute: they do not read the machine, and do not disturb tests that do."""
NOT_PURE = "test_block_hung.py"
"""This file is below one of the paths in PURE, but its tests read the machine."""


def is_pure(path: Path, config: pytest.Config) -> bool:
    """Whether a file has only tests that compute."""
    return path.relative_to(config.rootpath).as_posix().startswith(PURE) and path.name != NOT_PURE


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Ignore files without a test for this pass: importing them all takes longer than many tests."""
    if not collection_path.name.startswith("test_"):
        return None
    match config.option.markexpr:
        case "alone":
            return True if ALONE not in collection_path.read_text(encoding="utf-8") else None
        case "pure":
            return None if is_pure(collection_path, config) else True
        case "not alone and not pure":
            return True if is_pure(collection_path, config) else None
    return None


def in_turns(config: pytest.Config, items: list[pytest.Item]) -> list[pytest.Item]:
    """Spread the tests that wait evenly among those that compute, so that the cores always have work."""

    def waits(item: pytest.Item) -> bool:
        return item.path.relative_to(config.rootpath).as_posix().startswith(WAITING)

    waiting, computing = [item for item in items if waits(item)], [item for item in items if not waits(item)]
    ranked = [((i + 0.5) / len(group), item) for group in (waiting, computing) for i, item in enumerate(group)]
    return [item for _, item in sorted(ranked, key=lambda pair: pair[0])]


@pytest.hookimpl(tryfirst=True)  # this runs before -m selects the tests
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):  # the tests run in several workers
        items[:] = in_turns(config, items)
        # The longest test starts first, so that the other workers do not wait for it in the end.
        items.sort(key=lambda item: item.path.name != "test_cost_gates.py")
    for item in items:
        if is_pure(item.path, config):
            item.add_marker("pure")
    if config.getoption("--slow"):
        return
    skip = pytest.mark.skip(reason="slow: run with --slow")
    for item in items:
        if "slow" in item.keywords:
            item.add_marker(skip)


def pytest_collection_finish() -> None:
    """Exclude the objects that exist now from garbage collections, because some tests run one."""
    gc.freeze()
    gc.enable()


def pytest_runtest_teardown() -> None:
    """Let psutil read this machine again: a reader of another tree sets psutil's path for the whole program."""
    if (psutil := sys.modules.get("psutil")) is not None:
        psutil.PROCFS_PATH = "/proc"  # type: ignore[attr-defined]


@pytest.fixture
def own_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder that only this user can change. For root it is not below /tmp, where all users can write."""
    if os.geteuid() != 0:
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="iotop-ai-test-", dir="/var/lib") as folder:
        yield Path(folder)


@pytest.fixture
def disk_folder(tmp_path: Path) -> Path:
    """A folder on a filesystem whose pages can be evicted from memory."""
    found = subprocess.run(["stat", "-f", "-c", "%T", str(tmp_path)], capture_output=True, text=True, check=True)
    if found.stdout.strip() in ("tmpfs", "ramfs"):
        pytest.skip(f"{tmp_path} lies in memory")
    return tmp_path
