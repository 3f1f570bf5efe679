"""Calls into the NVIDIA driver library."""
