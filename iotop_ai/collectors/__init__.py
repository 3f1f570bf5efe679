"""Reads the machine: /proc, /sys, NVML, smartctl and the kernel's log."""
