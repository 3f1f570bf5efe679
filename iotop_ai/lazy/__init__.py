"""Cheap versions of standard library constructs that would slow the start down."""
