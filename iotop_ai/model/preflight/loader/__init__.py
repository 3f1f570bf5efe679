"""Records of a sweep, which runs a data loader in several configurations, and of the recommended configuration."""
