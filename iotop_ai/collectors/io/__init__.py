"""Gives access to the machine: /proc and /sys, clocks, child processes, files of our own, and the socket for marks."""
