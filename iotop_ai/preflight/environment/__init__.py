"""The environment in which training starts: rights, limits, Python, and machine."""
