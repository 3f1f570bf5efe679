"""Block devices: counters, inventory, identity, temperature."""
