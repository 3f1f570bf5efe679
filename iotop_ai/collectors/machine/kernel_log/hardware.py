"""Parses lines of the kernel log about the links of disks, PCIe, memory, and GPUs of AMD and Intel.

The forms of the lines are those of Linux 4.18 to 6.18 in drivers/ata/libata-eh.c (ata_eh_link_report) and libata-core.c
(sata_print_link_status), drivers/nvme/host/pci.c (nvme_warn_reset, nvme_reset_work), drivers/pci/pcie/aer.c
(aer_print_error), drivers/edac/edac_mc.c (edac_ce_error, edac_ue_error), mm/memory-failure.c,
arch/x86/kernel/cpu/mce/core.c, drivers/gpu/drm/amd/amdgpu (amdgpu_job_timedout, amdgpu_device_gpu_recover) and
drivers/gpu/drm/i915/i915_gpu_error.c.
"""

from __future__ import annotations

from iotop_ai.collectors.machine.kernel_log.event import ATA, GPU_RESET, MEMORY, PCIE, RESET, LogEvent
from iotop_ai.lazy.regex import pattern

MEDIUM, CABLE = "critical medium", "interface CRC"
"""The kinds of errors of a damaged medium and of a bad cable. The block layer also writes "critical medium"."""
_PCI = r"([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])"
_ATA_PORT = r"(ata\d{1,4}(?:\.\d{2})?)"

_EXCEPTION = pattern(
    rf"^{_ATA_PORT}: (?:limited )?exception Emask 0x[0-9a-f]+ SAct 0x[0-9a-f]+ "
    r"SErr (0x[0-9a-f]+) action 0x[0-9a-f]+( frozen)?"
)
_FAILED = pattern(rf"^{_ATA_PORT}: failed command: ([A-Z0-9 /_()-]{{1,40}})$")
_ATA_CAUSE = pattern(rf"^{_ATA_PORT}: error: \{{ ([A-Z ]{{1,40}}) \}}$")
_LINK_DOWN = pattern(rf"^{_ATA_PORT}: SATA link down \(SStatus [0-9A-F]+ SControl [0-9A-F]+\)$")
_LIMITED = pattern(rf"^{_ATA_PORT}: limiting SATA link speed to ([0-9.<>]+ Gbps)$")
_NVME_DOWN = pattern(r"^nvme (nvme\d{1,5}): controller is down; will reset: CSTS=(0x[0-9a-f]+)")
_NVME_LOST = pattern(
    r"^nvme (nvme\d{1,5}): (?:Removing after probe failure status|Disabling device after reset failure): (-?\d+)$"
)
_AER = pattern(
    rf"^[A-Za-z0-9_.-]{{1,40}} {_PCI}: (?:AER: )?PCIe Bus Error: "
    r"severity=(Correct(?:ed|able)|Uncorrect(?:ed|able) \((?:Non-)?Fatal\)), type=([A-Za-z ]{1,40}), "
)
_EDAC = pattern(r"^EDAC MC(\d{1,3}): (\d{1,9}) ([CU])E .{0,80}?on (\S{1,64}) \(")
_POISON = pattern(r"^(?:mce: )?Uncorrected hardware memory error in user-access at ([0-9a-f]{1,16})$")
_MEMORY_FAILURE = pattern(
    r"^Memory failure: (0x[0-9a-f]+): recovery action for ([A-Za-z0-9 /-]{1,60}): ([A-Za-z ]{1,20})$"
)
_AMD_RING = pattern(
    rf"^amdgpu {_PCI}: (?:\[drm(?::\S+)?\] )?(?:\*ERROR\* )?(?:amdgpu: )?ring (\S{{1,32}}) timeout, signaled seq="
)
_AMD_RESET = pattern(
    rf"^amdgpu {_PCI}: amdgpu: (GPU reset begin!|GPU Recovery Failed: -?\d+|GPU reset end with ret = -\d+)"
)
_AMD_ERRORS = pattern(
    rf"^amdgpu {_PCI}: amdgpu: (\d{{1,9}}) uncorrectable hardware errors detected in (\w{{1,24}}) block"
)
_INTEL_HANG = pattern(rf"^i915 {_PCI}: \[drm\] GPU HANG: ecode ([0-9a-f:]{{1,40}})")
_XE_RESET = pattern(
    rf"^xe {_PCI}: \[drm\] (?:\*ERROR\* )?(?:Tile\d+: )?(GT\d+): (Engine reset|reset (?:started|failed))"
)


def ata(text: str) -> LogEvent | None:
    """Parse a line of libata about a disk's link or command.

    Of the lines of one failed command, only the first, which reports the exception, counts as an error.
    """
    if match := _EXCEPTION.match(text):
        frozen = ", frozen" if match[3] else ""
        return LogEvent(ATA, match[1], f"{match[1]}: link error (SErr {match[2]}{frozen})", "link", is_counted=True)
    if match := _FAILED.match(text):
        return LogEvent(ATA, match[1], f"{match[1]}: {match[2]} failed", "ATA command")
    if match := _ATA_CAUSE.match(text):
        flags = match[2].split()
        if "UNC" in flags:
            return LogEvent(ATA, match[1], f"{match[1]}: the medium cannot be read", MEDIUM)
        return LogEvent(ATA, match[1], f"{match[1]}: data was damaged on the cable", CABLE) if "ICRC" in flags else None
    if match := _LINK_DOWN.match(text):
        return LogEvent(ATA, match[1], f"{match[1]}: the link is down", "link", is_counted=True)
    match = _LIMITED.match(text)
    return match and LogEvent(ATA, match[1], f"{match[1]}: its link is slowed to {match[2]}", "link", is_counted=True)


def nvme_reset(text: str) -> LogEvent | None:
    """Parse a line about an NVMe controller that stopped answering."""
    if match := _NVME_DOWN.match(text):
        message = f"{match[1]}: the controller is down and is reset (CSTS {match[2]})"
        return LogEvent(RESET, match[1], message, "controller", is_counted=True)
    match = _NVME_LOST.match(text)
    return match and LogEvent(
        RESET, match[1], f"{match[1]}: the kernel gave up on the controller", "controller", is_counted=True
    )


def pcie(text: str) -> LogEvent | None:
    """Parse a line about an error of a PCIe link. The subject is the address of the device that reported it.

    A corrected error only costs time and is not counted.
    """
    match = _AER.match(text)
    if match is None:
        return None
    address, severity, layer = match.groups()
    corrected = severity.startswith("C")
    word = "corrected" if corrected else f"uncorrected{' and fatal' if '(Fatal' in severity else ''}"
    error = "" if corrected else "PCIe"
    return LogEvent(PCIE, address, f"{address}: PCIe error, {word}, {layer}", error, is_counted=not corrected)


def memory(text: str) -> LogEvent | None:
    """Parse a line about an error of the machine's memory, which names a DIMM (EDAC) or a page."""
    if match := _EDAC.match(text):
        number, count, kind, place = match.groups()
        word = "corrected" if kind == "C" else "uncorrected"
        return LogEvent(
            MEMORY, place, f"memory {place} (MC{number}): {count} {word} error{'' if count == '1' else 's'}"
        )
    if match := _POISON.match(text):
        return LogEvent(MEMORY, match[1], f"memory at {match[1]}: an uncorrected error in use")
    match = _MEMORY_FAILURE.match(text)
    return match and LogEvent(MEMORY, match[1], f"memory page {match[1]}: damaged, {match[2]}: {match[3].lower()}")


def gpu(text: str) -> LogEvent | None:
    """Parse a line about a hang or reset of an AMD or Intel GPU."""
    if match := _AMD_RING.match(text):
        return LogEvent(GPU_RESET, match[1], f"{match[1]}: ring {match[2]} hangs", "ring timeout", is_counted=True)
    if match := _AMD_RESET.match(text):
        failed = not match[2].startswith("GPU reset begin")
        outcome = "its reset failed" if failed else "the driver resets it"
        return LogEvent(
            GPU_RESET, match[1], f"{match[1]}: {outcome}", "failed reset" if failed else "reset", is_counted=True
        )
    if match := _AMD_ERRORS.match(text):
        message = f"{match[1]}: {match[2]} uncorrectable errors in {match[3]}"
        return LogEvent(GPU_RESET, match[1], message, "uncorrectable errors", is_counted=match[2] != "0")
    if match := _INTEL_HANG.match(text):
        return LogEvent(GPU_RESET, match[1], f"{match[1]}: the GPU hangs ({match[2]})", "hang", is_counted=True)
    match = _XE_RESET.match(text)
    return match and LogEvent(
        GPU_RESET, match[1], f"{match[1]}: {match[2]} {match[3].lower()}", "reset", is_counted=True
    )


PARSERS = (
    ("ata", ata),
    ("nvme nvme", nvme_reset),
    ("PCIe Bus Error", pcie),
    ("EDAC MC", memory),
    ("emory", memory),  # "Memory" or "memory"
    ("amdgpu ", gpu),
    ("GPU HANG", gpu),
    ("xe 0", gpu),
)
"""Pairs of (a text that a line must contain, the parser for such lines)."""
