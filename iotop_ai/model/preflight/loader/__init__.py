"""The sweep of a data loader: the configurations, the measurements of each, and the recommended configuration."""
