"""The rest of the host: CPU, memory, pressure, mounts, network, kernel log."""
