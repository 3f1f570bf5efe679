"""The live machine as Snapshots."""
