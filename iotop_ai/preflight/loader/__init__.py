"""Sweeps a data loader of the user, each configuration in a process of its own."""
