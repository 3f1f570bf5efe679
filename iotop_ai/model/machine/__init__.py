"""The rest of the host."""
