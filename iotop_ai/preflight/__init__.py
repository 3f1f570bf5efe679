"""The checks before a run: of the storage, of the environment, and of the data loader."""
