"""Asks a Prometheus server about many machines, and joins its answers."""
