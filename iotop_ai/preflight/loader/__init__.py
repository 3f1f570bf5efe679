"""Sweeps a data loader of the user. Each configuration runs in a separate process."""
