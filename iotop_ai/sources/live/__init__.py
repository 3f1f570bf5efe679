"""Yields Snapshots of the live machine."""
