"""SMART health of disks, read by smartctl in a helper process."""
