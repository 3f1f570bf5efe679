"""What the live screen leaves out of memory."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys
from iotop_ai.cli.start.without_ssl import ssl_hidden
with ssl_hidden():
    import iotop_ai.tui.app
assert not {"ssl", "_ssl", "_hashlib"} & set(sys.modules), "loaded"
import ssl
assert ssl.create_default_context().verify_mode is ssl.CERT_REQUIRED
with ssl_hidden():
    import asyncio
    assert sys.modules["ssl"] is ssl
"""


def test_the_screen_goes_without_tls_and_whoever_wants_it_later_has_it() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
