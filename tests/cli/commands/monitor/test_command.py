"""A signal that comes while the live screen starts."""

from __future__ import annotations

import asyncio
import signal

import pytest

from iotop_ai.cli.commands.monitor.command import _raise_signalled, _SignalledError


def test_a_signal_in_a_callback_of_the_loop_ends_the_program() -> None:
    async def start() -> None:
        asyncio.get_running_loop().call_soon(_raise_signalled, signal.SIGHUP, None)
        await asyncio.sleep(20)

    with pytest.raises(_SignalledError) as raised:
        asyncio.run(start())
    assert raised.value.number == signal.SIGHUP
