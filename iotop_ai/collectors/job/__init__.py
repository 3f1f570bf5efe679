"""Collects training jobs, and what their tasks wait for."""
