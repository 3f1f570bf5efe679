"""Real block devices that are slow, as context managers: a throttled loop device and a loop device over FUSE."""

from tests.rigs.slowdisk.fuse import FailingFolder, FuseDisk, why_no_fuse_disk
from tests.rigs.slowdisk.throttle import ThrottledDisk, why_no_throttled_disk

__all__ = ["FailingFolder", "FuseDisk", "ThrottledDisk", "why_no_fuse_disk", "why_no_throttled_disk"]
