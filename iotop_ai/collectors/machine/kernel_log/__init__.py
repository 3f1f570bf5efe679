"""Reads the kernel log: lines about disks, GPUs, memory and filesystems."""
