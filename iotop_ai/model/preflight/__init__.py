"""Records of the checks before a run: the storage, its nominal speed, the forecast."""
