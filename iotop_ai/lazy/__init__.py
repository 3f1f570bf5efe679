"""Cheaper versions of constructs of the standard library that would slow down the start."""
