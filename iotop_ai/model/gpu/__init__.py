"""GPUs."""
