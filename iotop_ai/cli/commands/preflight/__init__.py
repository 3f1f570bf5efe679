"""The commands that check before a run."""
