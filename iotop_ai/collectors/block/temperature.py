"""Reads disk temperatures from hwmon, without root. A thread does this, because the driver may query the disk."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Container, Mapping

from iotop_ai.collectors.block.identity import nvme_controller
from iotop_ai.collectors.io.root import Root
from iotop_ai.model.block.counters import BlockInfo, BlockKey


def read_temperature(root: Root, name: str) -> float | None:
    """Return a disk's temperature in °C from the nvme or drivetemp sensor; None when it is unknown.

    Source: https://docs.kernel.org/hwmon/drivetemp.html, drivers/nvme/host/hwmon.c: temp1_input in 1/1000 °C.
    """
    base = f"sys/block/{name.replace('/', '!')}"
    device = nvme_controller(root, base) if name.startswith("nvme") else base + "/device"
    for folder in (device, device + "/hwmon", device + "/device/hwmon"):
        for entry in root.names(folder):
            if re.fullmatch(r"hwmon\d+", entry):
                milli = root.number_or_none(f"{folder}/{entry}/temp1_input")
                if milli is not None:
                    # NVMe reports 0 K when the temperature is unknown.
                    return milli / 1000 if milli > -273_000 else None
    return None


class Temperatures:
    """Keeps the newest temperatures by device. ``ask`` starts reading them on a thread and returns at once.

    A disk that does not answer blocks only this thread; the disks are read again only after the thread has ended.
    """

    def __init__(self, root: Root, start: Callable[[Callable[[], None]], None] | None = None) -> None:
        self._root = root
        self._start = start or self._on_thread
        self._busy = threading.Lock()
        self.celsius: Mapping[BlockKey, float] = {}

    def ask(self, infos: Mapping[BlockKey, BlockInfo], active: Container[str]) -> None:
        """Start reading the disks that may have a sensor. active: the names of the disks with recent I/O.

        If an earlier read is still running, ``celsius`` becomes empty instead. An idle HDD is not read, because the
        read would keep it from sleeping (docs.kernel.org/hwmon/drivetemp.html, "Known Issues").
        """
        keys = [
            key
            for key, info in infos.items()
            if info.kind == "disk"
            and info.transport in ("nvme", "ata", "scsi")
            and (info.transport == "nvme" or info.rotational is False or info.name in active)
        ]
        if not keys:
            self.celsius = {}
        elif self._busy.acquire(blocking=False):
            try:
                self._start(lambda: self._read_all(keys))
            except RuntimeError:  # this user has too many threads; a later call may be able to start one
                self._busy.release()
        else:
            # A sensor does not answer, so the earlier values may be out of date.
            self.celsius = {}

    def _read_all(self, keys: list[BlockKey]) -> None:
        try:
            readings = {key: read_temperature(self._root, key.name) for key in keys}
            self.celsius = {key: value for key, value in readings.items() if value is not None}
        finally:
            self._busy.release()

    @staticmethod
    def _on_thread(work: Callable[[], None]) -> None:
        threading.Thread(target=work, name="disk-temperature", daemon=True).start()
