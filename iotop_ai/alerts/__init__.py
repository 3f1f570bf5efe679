"""Alerts: rules on conditions, and their delivery by command, webhook and mail."""
