"""Rows and screens about the health of disks."""
