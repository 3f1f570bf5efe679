"""Rows and screens about disks."""
