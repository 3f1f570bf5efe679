"""Reads the SMART health of disks, with smartctl in a helper process."""
