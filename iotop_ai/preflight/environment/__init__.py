"""The environment in which a training starts: rights, limits, Python, and machine."""
