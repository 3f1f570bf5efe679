"""Rows and screens about GPUs."""
