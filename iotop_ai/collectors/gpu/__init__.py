"""Reads GPUs: NVIDIA's through NVML, AMD's and Intel's through sysfs."""
