"""Measures the user's data loader with several configurations. Each configuration runs in a separate process."""
