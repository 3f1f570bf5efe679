"""Records of the checks before a run: the storage, its nominal speed, and the forecast for the training."""
