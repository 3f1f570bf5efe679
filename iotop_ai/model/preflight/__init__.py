"""Records of the checks before a run: of the storage and the dataset on it, the environment, and the data loader."""
