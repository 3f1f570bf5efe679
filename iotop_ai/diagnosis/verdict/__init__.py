"""Turns findings into the verdict."""
