"""New processes are found by the last pid that the kernel gave out, on the running machine."""

import os
import subprocess
from contextlib import closing

import pytest

from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.process.discovery import PidDiscovery

pytestmark = pytest.mark.alone


def test_a_missing_pid_is_probed_once_more() -> None:
    with closing(PidDiscovery(Root("/"))) as new:
        known = frozenset(int(name) for name in os.listdir("/proc") if name.isdecimal())
        new.find(known)
        child = subprocess.Popen(["true"])
        child.wait()
        probes = 0
        probed = new.find(known)
        while child.pid in probed:
            assert new.listed is None
            probes += 1
            new.retry_missing([child.pid])
            probed = new.find(known)
        assert probes in (1, 2)  # one probe is enough if many other processes were started meanwhile
