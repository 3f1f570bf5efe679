"""The process of ``Witness``: ``python -m iotop_ai.cli.commands.record.report_signals NUMBER...``."""

from __future__ import annotations

import os
import select
import signal
import sys

from iotop_ai.collectors.io.clock import Clock

READY = b"ready"
"""The first line, after which signals are reported."""


def main() -> None:
    """Report each signal as a line "NUMBER NANOSECONDS" (CLOCK_MONOTONIC) until standard input is closed."""
    numbers = [int(word) for word in sys.argv[1:]]
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    for number in numbers:
        signal.signal(number, lambda _number, _frame: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
    clock = Clock()
    os.write(1, READY + b"\n")
    while True:
        readable, _, _ = select.select([0, reader], [], [])
        if reader in readable:
            now_ns = clock.monotonic_ns()
            os.write(1, b"".join(b"%d %d\n" % (number, now_ns) for number in os.read(reader, 512)))
        elif not os.read(0, 1):
            return


if __name__ == "__main__":
    main()
