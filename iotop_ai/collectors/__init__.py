"""The only code that reads the machine: /proc, /sys, NVML, smartctl."""
