"""Collects the counters, inventory, identity and temperature of block devices."""
