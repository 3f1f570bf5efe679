"""Faster replacements for parts of the standard library that would slow down start-up."""
