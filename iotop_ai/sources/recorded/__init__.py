"""Yields the Snapshots of recordings."""
