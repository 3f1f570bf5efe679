"""Compares two recorded runs: what changed, by how much, and whether the change is more than chance."""
