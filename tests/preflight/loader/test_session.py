"""The caller's end of the connection to a process that tests one configuration."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.model.preflight.loader.run import Configuration, Steady
from iotop_ai.preflight.loader.session import Request, Session

DONE = {"message": "done", "batches": 8, "samples": 64, "seconds": 1.0, "first_batch_s": 0.5}


def test_the_result_of_a_process_that_has_ended_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\nread line\necho '{json.dumps(DONE)}'\n")
    python.chmod(0o755)
    request = Request(str(python), "mine", "make", str(tmp_path), os.environ, 1.0, 10.0)
    session = Session(request, Configuration(0, 8), Root(), Clock())
    receive = session._receive

    def too_early(wait_ms: int) -> list[dict[str, Any]]:
        """Read nothing, and let the process end meanwhile."""
        monkeypatch.setattr(session, "_receive", receive)
        assert session._child.stdin is not None
        session._child.stdin.close()
        session._child.wait(10)
        return []

    monkeypatch.setattr(session, "_receive", too_early)
    run = session.run(lambda batches: None)
    assert run.failure is None
    assert run.steady == Steady(8, 64, 1.0, 0.5)
