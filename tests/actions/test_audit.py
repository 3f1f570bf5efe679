"""The audit log on a filesystem without locks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.cli.program import TOP
from tests.rigs.without_flock import WITHOUT_FLOCK

WRITER = """
import sys
from pathlib import Path
from iotop_ai.actions.audit import Audit
from iotop_ai.collectors.io.clock import Clock
Audit(Clock(), Path(sys.argv[1])).write("term", "trainer", "asked")
"""


def test_the_audit_log_works_on_a_filesystem_without_locks(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", WITHOUT_FLOCK, sys.executable, "-c", WRITER, str(tmp_path / "state")]
    done = subprocess.run(argv, cwd=TOP, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (line,) = (tmp_path / "state" / "audit.jsonl").read_text().splitlines()
    assert json.loads(line)["action"] == "term"
