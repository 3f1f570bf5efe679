"""Claims about GPUs."""
