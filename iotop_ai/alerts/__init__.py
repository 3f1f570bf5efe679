"""Alerts: rules on conditions, and the delivery of their messages by command, webhook, mail and service."""
