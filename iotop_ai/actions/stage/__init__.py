"""Copies a dataset to faster storage."""
