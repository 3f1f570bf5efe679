"""Alerts: rules, each with a condition, and the delivery of their messages by command, webhook, email and service."""
