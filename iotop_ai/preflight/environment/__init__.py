"""The environment that a training starts in: rights, limits, Python, machine."""
