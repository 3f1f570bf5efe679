"""Logs of other tools as Snapshots."""
