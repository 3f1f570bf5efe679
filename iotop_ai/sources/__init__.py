"""Anything that yields Snapshots."""
