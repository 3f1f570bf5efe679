"""A virtual machine with an NVMe, a SATA, a SCSI and a virtio disk: QEMU without KVM, on this machine's files."""

from tests.rigs.vm.machine import Machine, why_no_machine

__all__ = ["Machine", "why_no_machine"]
