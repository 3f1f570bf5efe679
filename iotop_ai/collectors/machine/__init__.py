"""Collects the state of the rest of the machine: CPU, memory, pressure, mounts, network and kernel log."""
