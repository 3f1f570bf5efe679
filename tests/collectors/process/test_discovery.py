"""New processes are found by the last pid that the kernel assigned."""

import os
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.process.collector import ProcessCollector
from iotop_ai.collectors.process.discovery import PidDiscovery
from iotop_ai.model.process.records import ProcessKey
from tests.collectors.process.test_collector import add_process
from tests.rigs.descriptors import too_many_open_files

pytestmark = pytest.mark.alone


def test_a_missing_pid_is_probed_once_more() -> None:
    with closing(PidDiscovery(Root("/"))) as discovery:
        known = frozenset(int(name) for name in os.listdir("/proc") if name.isdecimal())
        discovery.find(known)
        child = subprocess.Popen(["true"])
        child.wait()
        probes = 0
        probed = discovery.find(known)
        while child.pid in probed:
            assert discovery.listed is None
            probes += 1
            discovery.retry_missing([child.pid])
            probed = discovery.find(known)
        assert probes in (1, 2)  # only one if many other processes started meanwhile


def test_a_pid_that_is_used_again_at_once_is_found_once(tmp_path: Path) -> None:
    (tmp_path / "proc" / "700").mkdir(parents=True)
    loadavg = tmp_path / "proc" / "loadavg"
    loadavg.write_text("0.00 0.00 0.00 1/9 498\n")
    with closing(PidDiscovery(Root(str(tmp_path)))) as discovery:
        discovery._live = True
        assert discovery.find({700}) == []
        loadavg.write_text("0.00 0.00 0.00 1/9 499\n")
        assert discovery.find({500, 700}) == [499]
        discovery.probe_again(500)
        loadavg.write_text("0.00 0.00 0.00 1/9 501\n")
        assert discovery.find({700}) == [500, 501]


def test_a_process_that_starts_while_too_many_files_are_open_is_found_in_the_next_tick(tmp_path: Path) -> None:
    add_process(tmp_path, 5, 50)
    loadavg = tmp_path / "proc" / "loadavg"
    loadavg.write_text("0.00 0.00 0.00 1/9 5\n")
    with closing(ProcessCollector(Root(str(tmp_path)), Clock())) as collector:
        collector._discovery._live = True
        collector.read()
        add_process(tmp_path, 6, 60)
        loadavg.write_text("0.00 0.00 0.00 1/9 6\n")
        with too_many_open_files():
            assert set(collector.read().stat) == {ProcessKey(5, 50)}
        assert set(collector.read().stat) == {ProcessKey(5, 50), ProcessKey(6, 60)}


def test_each_tick_lists_proc_if_the_kernel_does_not_print_the_last_pid(tmp_path: Path) -> None:
    """gVisor prints a constant line (pkg/sentry/fsimpl/proc, loadavgData)."""
    (tmp_path / "proc" / "1").mkdir(parents=True)
    (tmp_path / "proc" / "loadavg").write_text("0.00 0.00 0.00 0/0 0\n")
    with closing(PidDiscovery(Root(str(tmp_path)))) as discovery:
        discovery._live = True
        assert discovery.find(set()) == [1]
        (tmp_path / "proc" / "77").mkdir()
        assert discovery.find({1}) == [77]
        assert discovery.listed == {1, 77}
