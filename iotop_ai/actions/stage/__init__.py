"""Copy a dataset to faster storage."""
