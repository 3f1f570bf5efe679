"""A made-up disk of a scene."""

from __future__ import annotations

from dataclasses import dataclass

from iotop_ai.model.block.counters import IDLE_BLOCK_RATES, BlockInfo, BlockRates, Mount
from tests.diagnosis.device_numbers import minor_of


@dataclass(frozen=True)
class Disk:
    """A device that does the same each second. size_bytes: the size of one request."""

    name: str = "sda"
    transport: str = "ata"
    rotational: bool | None = False
    kind: str = "disk"
    mount: str = "/data"
    fstype: str = "ext4"
    slaves: tuple[str, ...] = ()
    holders: tuple[str, ...] = ()
    read_bytes_per_s: float = 0.0
    write_bytes_per_s: float = 0.0
    await_ms: float | None = None
    busy: float | None = 0.0
    size_bytes: float = 128 * 1024
    queue: float | None = None
    unknown: bool = False
    in_flight: int = 0
    major: int = 8
    scheduler: str = "mq-deadline"
    md_sync: str = ""
    parent: str = ""
    detail: str = ""

    @property
    def info(self) -> BlockInfo:
        mounts = (Mount(self.mount, self.fstype, f"/dev/{self.name}"),) if self.mount else ()
        return BlockInfo(
            self.name, self.major, minor_of(self.name), self.kind, self.name, slaves=self.slaves, holders=self.holders,
            transport=self.transport, rotational=self.rotational, mounts=mounts, md_sync=self.md_sync,
            scheduler=self.scheduler, parent=self.parent, detail=self.detail,
        )  # fmt: skip

    @property
    def rates(self) -> BlockRates:
        if self.unknown:
            return BlockRates(*[None] * len(BlockRates._fields))
        if not self.read_bytes_per_s and not self.write_bytes_per_s:
            return IDLE_BLOCK_RATES._replace(in_flight=self.in_flight)
        return IDLE_BLOCK_RATES._replace(
            reads_per_s=self.read_bytes_per_s / self.size_bytes,
            read_bytes_per_s=self.read_bytes_per_s,
            read_await_ms=self.await_ms if self.read_bytes_per_s else None,
            read_size_bytes=self.size_bytes if self.read_bytes_per_s else None,
            writes_per_s=self.write_bytes_per_s / self.size_bytes,
            write_bytes_per_s=self.write_bytes_per_s,
            await_ms=self.await_ms,
            busy_ratio=self.busy,
            queue_size=self.queue,
        )
