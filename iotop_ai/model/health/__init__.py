"""Disk health."""
