"""The commands that check the storage, the environment and the data loader before a run."""
