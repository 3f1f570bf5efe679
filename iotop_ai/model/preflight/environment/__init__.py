"""Facts about the environment in which a training run starts, and the checks of these facts."""
