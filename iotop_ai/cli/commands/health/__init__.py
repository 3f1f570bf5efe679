"""Disks' health and its acknowledgement."""
