"""The numbers of system calls, compared with the kernel's headers if these are installed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from iotop_ai.collectors.job.system_calls import system_calls

HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
NAMES = {"newfstatat": "fstatat"}
"""Names that differ in the generic header."""


@pytest.mark.parametrize("machine", HEADERS)
def test_the_numbers_equal_those_in_the_kernels_headers(machine: str) -> None:
    if not HEADERS[machine].exists():
        pytest.skip(f"needs {HEADERS[machine]} (linux-libc-dev)")
    lines = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)\n", HEADERS[machine].read_text())
    header = {name: int(number) for name, number in lines}
    calls = system_calls(machine)
    numbers = {call.name: number for number, call in calls.items()}
    found = {name: header.get(name, header.get(NAMES.get(name, ""))) for name in numbers}
    assert {
        name: numbers[name] for name, number in found.items() if number is not None and number != numbers[name]
    } == {}
    assert {name for name, number in found.items() if number is None} <= {"futex_wait", "restart_syscall"}
    assert len(numbers) == len(calls) > 50


def test_another_processor_architecture_has_no_numbers() -> None:
    assert system_calls("riscv64") == {}
