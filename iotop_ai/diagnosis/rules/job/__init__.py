"""Rules about training jobs."""
