"""Conditions, such as "data_wait > 10 %", "gpus.*.temperature_celsius > 85 for 30s" or "finding failing_disk"."""
