"""The sweep of a data loader: configurations, what was measured of each, which one is recommended."""
