"""Cheaper versions of parts of the standard library that would slow down the start."""
