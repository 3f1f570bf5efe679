"""Recordings as Snapshots."""
