"""Rows and screens about training jobs."""
