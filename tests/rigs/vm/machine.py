"""Builds and runs the guest. Its root is that of this machine, read-only below a tmpfs, so it has every program."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

HERE = Path(__file__).resolve().parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "iotop-ai-tests/vm"
PROGRAMS = {
    "qemu-system-x86_64": "qemu-system-x86 seabios ipxe-qemu",
    "cpio": "cpio",
    "modprobe": "kmod",
    "busybox": "busybox-static",
    "apt-get": "apt",
    "smartctl": "smartmontools",
}
DISKS = ("nvme", "sata", "scsi", "virtio")
MEBIBYTES = 64
BOOT_S = 180.0


def why_no_machine() -> str:
    """The reason why a guest cannot run here; "" if it can."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    missing = [packages for program, packages in PROGRAMS.items() if shutil.which(program, path=path) is None]
    return f"needs apt install {' '.join(missing)}" if missing else ""


def built() -> Path:
    """The folder with kernel and initramfs, built if needed. Raises CalledProcessError, e.g. without a network."""
    if not (CACHE / "initramfs.gz").exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        subprocess.run(["bash", HERE / "build.sh", CACHE], check=True, capture_output=True, timeout=300)
    return CACHE


class Machine:
    """The guest. Use it as ``with Machine() as m: code, text = m.run("smartctl -a /dev/nvme0"); m.unplug_nvme()``."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="vm-"))
        self._boot = built()
        self._qemu: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Machine:
        for name in DISKS:
            with open(self._folder / f"{name}.img", "wb") as image:
                image.truncate(MEBIBYTES << 20)
        with open(self._folder / "qemu.err", "wb") as errors:
            self._qemu = subprocess.Popen(self._argv(), stdin=subprocess.DEVNULL, stderr=errors)
        try:
            self._agent = self._connect("agent")
            self._monitor = self._connect("qmp")
            self._monitor.readline()
            self.qmp("qmp_capabilities")
            self.booted_s = float(json.loads(self._agent.readline())["ready"])
        except BaseException:
            output = (self._folder / "qemu.err").read_text() + self.console()[-2000:]
            self._close()
            raise RuntimeError(f"the guest did not start: {output}") from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def _argv(self) -> list[str]:
        def drive(name: str) -> tuple[str, ...]:
            return "-drive", f"file={self._folder / name}.img,format=raw,if=none,id={name}-image"

        cmdline = f"console=ttyS0 quiet panic=-1 rdinit=/init mitigations=off delayacct psi=1 rig={HERE}"
        return [
            *("qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-m", "1024", "-smp", "2"),
            *("-nodefaults", "-display", "none", "-no-reboot"),
            *("-kernel", str(self._boot / "vmlinuz"), "-initrd", str(self._boot / "initramfs.gz"), "-append", cmdline),
            *("-chardev", f"file,id=c0,path={self._folder}/console", "-serial", "chardev:c0"),
            *("-chardev", f"socket,id=c1,path={self._folder}/agent,server=on,wait=off", "-serial", "chardev:c1"),
            *("-qmp", f"unix:{self._folder}/qmp,server=on,wait=off"),
            *("-fsdev", "local,id=fs0,path=/,security_model=none,readonly=on,multidevs=remap"),
            *("-device", "virtio-9p-pci,fsdev=fs0,mount_tag=root"),
            *drive("nvme"),
            *("-device", "nvme,id=nvme0,serial=RIGNVME01,drive=nvme-image"),
            *("-device", "ich9-ahci,id=ahci"),
            *drive("sata"),
            *("-device", "ide-hd,drive=sata-image,bus=ahci.0,serial=RIGSATA01,rotation_rate=7200"),
            *("-device", "virtio-scsi-pci,id=scsi"),
            *drive("scsi"),
            *("-device", "scsi-hd,drive=scsi-image,bus=scsi.0,serial=RIGSCSI01"),
            *drive("virtio"),
            *("-device", "virtio-blk-pci,drive=virtio-image,serial=RIGVBLK01"),
        ]

    def _connect(self, name: str) -> BinaryIO:
        end = time.monotonic() + 20
        while True:
            connection = socket.socket(socket.AF_UNIX)
            try:
                connection.connect(str(self._folder / name))
            except OSError:
                connection.close()
                if time.monotonic() > end or self._qemu is None or self._qemu.poll() is not None:
                    raise
                time.sleep(0.05)
            else:
                connection.settimeout(BOOT_S)
                return connection.makefile("rwb")  # type: ignore[return-value]

    def run(self, command: str, timeout: float = 120) -> tuple[int, str]:
        """Run a bash command as root in the guest. Returns its exit status (-1 after the timeout) and its output."""
        self._agent.write(json.dumps({"cmd": command, "timeout": timeout}).encode() + b"\n")
        self._agent.flush()
        reply = json.loads(self._agent.readline())
        return reply["rc"], reply["out"]

    def qmp(self, command: str, **arguments: Any) -> dict[str, Any]:
        """Send a command to QEMU, and return the answer. Raises RuntimeError if QEMU refuses."""
        request = {"execute": command, **({"arguments": arguments} if arguments else {})}
        self._monitor.write(json.dumps(request).encode() + b"\n")
        self._monitor.flush()
        while True:
            reply: dict[str, Any] = json.loads(self._monitor.readline())
            if "error" in reply:
                raise RuntimeError(f"{command}: {reply['error']}")
            if "event" not in reply:
                return reply

    def warn_nvme(self, bits: int) -> None:
        """Set the critical warning of the NVMe."""
        self.qmp("qom-set", path="/machine/peripheral/nvme0", property="smart_critical_warning", value=bits)

    def unplug_nvme(self) -> None:
        """Unplug the NVMe."""
        self.qmp("device_del", id="nvme0")

    def plug_nvme(self) -> None:
        """Plug in another NVMe with the same serial number."""
        image = {"driver": "file", "filename": str(self._folder / "nvme.img")}
        self.qmp("blockdev-add", driver="raw", **{"node-name": "nvme-again"}, file=image)
        self.qmp("device_add", driver="nvme", id="nvme0", serial="RIGNVME01", drive="nvme-again")

    def console(self) -> str:
        """The messages of the guest's kernel."""
        with contextlib.suppress(OSError):
            return (self._folder / "console").read_text(errors="replace")
        return ""

    def _close(self) -> None:
        if self._qemu is not None:
            self._qemu.kill()
            self._qemu.wait()
        shutil.rmtree(self._folder, ignore_errors=True)
