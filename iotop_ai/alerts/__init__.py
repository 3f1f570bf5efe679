"""Alerts: rules on conditions, and the delivery of their messages by command, webhook, email and service."""
