"""Imports logs of other tools as Snapshots."""
