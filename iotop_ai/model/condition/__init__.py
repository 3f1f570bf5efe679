"""Conditions on figures: "data_wait > 10 %", "gpus.*.temperature_celsius > 85 for 30s", "finding failing_disk"."""
