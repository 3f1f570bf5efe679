"""The live screen does not load ssl."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys
from iotop_ai.cli.start.without_ssl import ssl_hidden
with ssl_hidden():
    import iotop_ai.tui.app
assert not {"ssl", "_ssl", "_hashlib"} & set(sys.modules), "the start loaded OpenSSL's modules"
import ssl
assert ssl.create_default_context().verify_mode is ssl.CERT_REQUIRED
with ssl_hidden():
    import asyncio
    assert sys.modules["ssl"] is ssl
"""


def test_the_screen_starts_without_ssl_which_can_be_imported_later() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
