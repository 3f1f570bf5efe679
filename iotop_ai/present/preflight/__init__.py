"""The checks before a run, in words."""
