"""Collects processes: their I/O, state, exits and users."""
