"""Facts about the environment in which a training starts, and the checks of these facts."""
