"""The meaning of NVIDIA's Xid errors. Source: https://docs.nvidia.com/deploy/xid-errors/."""

from __future__ import annotations

_BY_NUMBER = {
    13: "graphics engine exception: usually an error in the program",
    31: "memory page fault: usually an illegal address in the program",
    43: "the GPU stopped processing: the program faulted",
    45: "the program's channels were removed, often after another error",
    46: "the GPU stopped processing: reset it",
    48: "double-bit ECC error: drain the node and reset the GPU",
    54: "the board's auxiliary power cable is not connected",
    61: "internal microcontroller breakpoint: reset the GPU",
    62: "internal microcontroller halt: reset the GPU",
    63: "a memory row was remapped or a page retired: reset when idle",
    64: "remapping a memory row failed: have the board replaced",
    74: "NVLink error: check the link and the switch",
    79: "the GPU has fallen off the bus: check power, slot and board",
    92: "many corrected ECC errors: watch the GPU",
    94: "contained ECC error: the program that hit it must restart",
    95: "uncontained ECC error: drain the node and reset the GPU",
    119: "the GPU's system processor timed out: reset the GPU",
    120: "the GPU's system processor failed: reset the GPU",
    140: "unrecovered ECC error: reset the GPU",
    154: "the recovery action that the driver asks for has changed: run nvidia-smi -q",
}


def xid_meaning(number: int) -> str:
    """The meaning of an Xid as one clause; a pointer to NVIDIA's catalogue if the number is not in the table."""
    return _BY_NUMBER.get(number, "see NVIDIA's catalogue of Xids")
