"""Claims about training jobs."""
