"""The sweep of a data loader: its configurations, the measurements of each, and the recommended one."""
