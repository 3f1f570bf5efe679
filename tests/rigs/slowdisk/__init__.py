"""Real slow block devices as context managers: rig A is a throttled loop, rig B is a loop over FUSE."""

from tests.rigs.slowdisk.fuse import FailingFolder, FuseDisk, why_no_fuse_disk
from tests.rigs.slowdisk.throttle import ThrottledDisk, why_no_throttled_disk

__all__ = ["FailingFolder", "FuseDisk", "ThrottledDisk", "why_no_fuse_disk", "why_no_throttled_disk"]
