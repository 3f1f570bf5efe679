"""Calls the library of the NVIDIA driver."""
