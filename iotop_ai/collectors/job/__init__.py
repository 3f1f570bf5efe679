"""Training jobs and what their tasks wait for."""
