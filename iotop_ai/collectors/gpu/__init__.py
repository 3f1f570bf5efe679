"""GPUs: NVIDIA through NVML, AMD through sysfs."""
