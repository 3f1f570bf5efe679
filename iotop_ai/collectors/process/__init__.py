"""Processes: I/O, state, exits, users."""
